"""Thresholds by the shares of samples that they keep: the shares, and the names of these thresholds."""

from __future__ import annotations

KEPT_SHARES = (0.5, 0.25, 0.125, 0.0625)
"""The best half, quarter, eighth and sixteenth."""
METHOD_QUANTILE = "quantile"
"""The method of these thresholds in table `score_threshold`."""


def format_objective(share: float) -> str:
    """Return the name that recipes use for the threshold that keeps a share of the samples.

    >>> format_objective(0.125)
    'keep 0.125'
    """
    return f"keep {share:g}"
