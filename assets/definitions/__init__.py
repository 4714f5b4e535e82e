"""Definitions for Dagster: a module for every group of assets, and what these share."""
