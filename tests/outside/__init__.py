"""A metric from outside this project: a package that no file here names, found by its entry point."""
