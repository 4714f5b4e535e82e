"""Embeddings: each distinct text once per encoder."""
