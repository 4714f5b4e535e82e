"""EVQAScore as a scorer."""
