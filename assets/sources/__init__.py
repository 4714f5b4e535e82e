"""Sources: steps that ask a model for evidence about samples. Every source has its own Dagster asset and tables."""
