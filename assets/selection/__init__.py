"""Selection: frozen training subsets, and their export to files."""
