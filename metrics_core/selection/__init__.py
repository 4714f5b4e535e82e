"""Choosing among ranked samples: combined values, places for strata, near-duplicates, diversity. Pure functions."""
