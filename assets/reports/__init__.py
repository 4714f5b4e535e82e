"""Plots and tables for Dagster's pages, and the report of a dataset."""
