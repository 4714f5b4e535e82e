"""Sources: evidence that models find out about samples. Every kind has one asset that makes it, and its own tables."""
