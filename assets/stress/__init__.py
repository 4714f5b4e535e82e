"""Stress of a metric on a dataset: drawn captions are rewritten, scored like stored ones, and compared."""
