"""Adapters: published data sets rewritten as manifest folders."""
