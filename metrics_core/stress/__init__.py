"""Stress of a metric: captions rewritten without truth gained, or with truth lost, and the change of the values."""
