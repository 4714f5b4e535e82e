"""Selection among ranked samples: combined values, places for strata, near-duplicates and diversity. Pure functions on
arrays.
"""
