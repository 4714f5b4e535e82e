"""The web interface: Dagster's own, with a guard in front of it."""
