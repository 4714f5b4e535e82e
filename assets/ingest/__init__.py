"""Ingest: manifests and media in, checked rows out; what is refused is kept with its reason."""
