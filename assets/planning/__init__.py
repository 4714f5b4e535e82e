"""Plans: what a dataset or a manifest holds, what can be computed for it, and how long that takes."""
