"""Metrics: the folder of every metric with its scorer, settings and own evidence, and the list of all."""
