"""Scores of samples: the scorer of every metric, its Dagster asset with checks, and the loop that scores a shard."""
