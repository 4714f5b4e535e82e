"""The shares of a dataset that quantile thresholds keep."""

SHARES = (0.5, 0.25, 0.125, 0.0625)
"""The best half, quarter, eighth and sixteenth."""
QUANTILE = "quantile"
"""The method of these thresholds in table `score_threshold`."""


def objective(share: float) -> str:
    """The name of a share's threshold, as recipes give it.

    >>> objective(0.125)
    'keep 0.125'
    """
    return f"keep {share:g}"
