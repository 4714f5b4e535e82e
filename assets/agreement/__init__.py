"""Compares metrics with people's judgements on a dataset."""
