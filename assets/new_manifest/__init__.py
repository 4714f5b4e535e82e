"""Makes a manifest of one's own data: videos with captions beside them, tables, Hugging Face folders, tar shards."""
