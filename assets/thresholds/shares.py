"""The shares of samples that thresholds by share keep."""

from __future__ import annotations

KEPT_SHARES = (0.5, 0.25, 0.125, 0.0625)
"""The best half, quarter, eighth and sixteenth."""
