"""Selections with a promise: the largest nested set of a recipe that answers confirm to hold few errors."""
