"""The HTML report of a dataset, and the plots, tables and formatted texts that Dagster's pages share with it."""
