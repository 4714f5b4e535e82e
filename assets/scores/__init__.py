"""Scores: one scorer per metric, one asset per scorer, all through the same work list."""
