"""Reports: plots and tables for Dagster's pages and for the report of a dataset."""
