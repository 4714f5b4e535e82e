"""Recipes, the samples that they choose, and the subsets that are frozen."""
