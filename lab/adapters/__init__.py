"""Commands that rewrite published datasets as manifest folders, without media."""
