"""Datasets and everything that people put into them: rows of manifests, rejects, ratings and labels."""
