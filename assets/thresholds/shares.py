"""The shares of a dataset that quantile thresholds keep."""

SHARES = (0.5, 0.25, 0.125, 0.0625)
"""The best half, quarter, eighth and sixteenth."""
