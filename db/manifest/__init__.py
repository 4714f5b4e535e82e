"""Datasets and the rows of their manifests."""
