"""Selections with a promise to hold few errors, which answers about a part confirm; and means estimated from a part."""
