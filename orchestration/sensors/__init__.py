"""The sensors of Dagster: they ask for runs when scores or inbox folders changed, and report failed runs."""
