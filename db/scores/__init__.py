"""Scores and their scorers, the samples still to be scored, and thresholds."""
