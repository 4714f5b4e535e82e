"""Thresholds of scores: by the share of samples that they keep, and by people's ratings."""
