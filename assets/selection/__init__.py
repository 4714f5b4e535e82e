"""Selections: rows frozen by a recipe, and their export to files."""
