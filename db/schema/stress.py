"""The table of stressed metrics: how much fixed rewrites of captions change their values."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import declare_table, json_column, parent_column, time_column

stress_result = declare_table(
    "stress_result",
    "A metric stressed on a dataset: its drawn captions were rewritten and scored again.",
    parent_column("dataset.dataset_id", "Dataset of the captions.", primary_key=True),
    parent_column("scorer.scorer_id", "Scorer that was stressed.", primary_key=True),
    json_column("result", "Counts, and the effect of each kind of rewrite: what reelsieve stress --json prints."),
    time_column("stressed_at", "Time at which it was measured."),
    sa.Index("ix_stress_result_scorer_id", "scorer_id"),
)
