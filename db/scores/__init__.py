"""Scores and their scorers, the work left to do, and cuts of scores."""
