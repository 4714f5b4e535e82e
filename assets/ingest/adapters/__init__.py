"""Adapters: programs that rewrite published datasets as manifest folders."""
