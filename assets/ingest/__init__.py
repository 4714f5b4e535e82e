"""Ingest: reads manifests and their videos into the database, and keeps every refused row with its reason."""
