"""Recipes, the samples that they choose, and frozen selections."""
