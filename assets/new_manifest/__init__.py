"""Makes a manifest from one's own data: videos with caption files, tables, Hugging Face folders, and tar shards."""
