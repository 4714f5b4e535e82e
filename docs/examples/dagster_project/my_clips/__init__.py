"""A Dagster project with datasets of Reelsieve in it."""
