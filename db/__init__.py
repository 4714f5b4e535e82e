"""The memory: schema, engine, work lists, upserts, views and migrations. Knows neither Dagster nor the metrics."""
