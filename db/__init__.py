"""The curation database: servers, schema, views, and functions that store and load rows. Imports neither Dagster nor
the metrics.
"""
