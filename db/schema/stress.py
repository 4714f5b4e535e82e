"""Tables of stressed metrics: how much fixed rewrites of captions change their values."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import (
    column,
    declare_table,
    json_column,
    key_column,
    measure_column,
    parent_column,
    text_column,
    time_column,
)

stress_result = declare_table(
    "stress_result",
    "A metric stressed on a dataset: its drawn captions were rewritten and scored again.",
    parent_column("dataset.dataset_id", "Dataset of the captions.", primary_key=True),
    parent_column("scorer.scorer_id", "Scorer that was stressed.", primary_key=True),
    column("seed", sa.BigInteger, "Seed of the draw and of the rewrites."),
    column("n_drawn", sa.BigInteger, "Number of captions drawn."),
    column("n_timed", sa.BigInteger, "Number of captions left out since they have times."),
    column("n_unscored", sa.BigInteger, "Number of captions left out since they got no value again."),
    column("n_captions", sa.BigInteger, "Number of captions that were rewritten."),
    column("n_videos", sa.BigInteger, "Number of their videos."),
    column("small_change", sa.Double, "Least change of a value that counts."),
    time_column("stressed_at", "Time at which it was measured."),
    sa.Index("ix_stress_result_scorer_id", "scorer_id"),
)

stress_effect = declare_table(
    "stress_effect",
    "How one kind of rewrite changes the values of a stressed metric.",
    key_column("dataset_id", sa.BigInteger, "Dataset of the captions."),
    key_column("scorer_id", sa.BigInteger, "Scorer that was stressed."),
    key_column("rewrite", sa.Text, "Kind of rewrite, as in docs/stress.md."),
    column("keeps_truth", sa.Boolean, "Whether the rewrite adds nothing true; otherwise it takes truth away."),
    text_column("conclusion", "gains_from_nothing, does_not_lose, fine or open."),
    column("n", sa.BigInteger, "Number of captions with a value before and after."),
    column("n_videos", sa.BigInteger, "Number of their videos."),
    measure_column("change", "Mean of the value after less the value before."),
    measure_column("low", "Lower end of the 95 % interval of the change."),
    measure_column("high", "Upper end of the 95 % interval of the change."),
    measure_column("rank_change", "Mean change of the percentile among all values of the dataset."),
    measure_column("rank_low", "Lower end of the 95 % interval of the change of the percentile."),
    measure_column("rank_high", "Upper end of the 95 % interval of the change of the percentile."),
    measure_column("rise_share", "Share of the captions whose value rises."),
    measure_column("fall_share", "Share of the captions whose value falls."),
    measure_column("p_value", "p-value of a gain, or of a loss too small to count, corrected for the number of kinds."),
    column("n_not_applicable", sa.BigInteger, "Number of captions that the rewrite does not fit."),
    json_column("unscored", "Number of rewrites without a value, by status."),
    measure_column(
        "best_look_alike",
        "Share of the best eighth that looks like the rewrite as it is; NULL where it has no simple sign.",
    ),
    measure_column("all_look_alike", "The same share of all captions."),
    sa.ForeignKeyConstraint(
        ["dataset_id", "scorer_id"], ["stress_result.dataset_id", "stress_result.scorer_id"], ondelete="CASCADE"
    ),
    sa.CheckConstraint("conclusion IN ('gains_from_nothing', 'does_not_lose', 'fine', 'open')", name="conclusion"),
)
