"""Thresholds: the values that separate what is kept from what is not."""
