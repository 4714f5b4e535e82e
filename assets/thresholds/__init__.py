"""Quantile thresholds: the scores that separate the samples to keep from the others."""
