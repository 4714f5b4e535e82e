"""Adapters: programs that rewrite published data sets as manifest folders."""
