"""Tables of conclusions from scores: thresholds on scores and keypoints, agreement with people, estimated means."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from db.schema.columns import METADATA, id_column, parent_column, text_column, time_column


def _threshold(name: str, own_columns: Sequence[sa.schema.SchemaItem], *unique: str) -> sa.Table:
    """Return a table of thresholds within a dataset or a shard. own_columns: columns and checks; unique: columns of its
    unique key.
    """
    return sa.Table(
        name,
        METADATA,
        id_column(f"{name}_id"),
        parent_column("scorer.scorer_id"),
        parent_column("dataset.dataset_id"),
        text_column("scope"),
        sa.Column("shard", sa.Integer, nullable=True),
        *own_columns,
        text_column("method"),
        text_column("objective"),
        sa.Column("n", sa.BigInteger, nullable=False),
        sa.Column("details", JSONB(none_as_null=True), nullable=False, server_default="{}"),
        time_column("created_at"),
        sa.UniqueConstraint(
            *("scorer_id", "dataset_id", "scope", "shard", *unique, "method", "objective"),
            name=f"uq_{name}_scope",
            postgresql_nulls_not_distinct=True,
        ),
        sa.CheckConstraint("scope IN ('dataset', 'shard')", name="scope"),
    )


keypoint_threshold = _threshold(
    "keypoint_threshold",
    [
        text_column("dimension"),
        sa.Column("threshold", sa.Double, nullable=False),
        sa.Column("n_positive", sa.BigInteger, nullable=True),
    ],
    "dimension",
)

# Column at_least has another name than a score or a keypoint's threshold, so that a natural join is never by it.
score_threshold = _threshold(
    "score_threshold",
    [
        text_column("kind"),
        sa.Column("at_least", sa.Double, nullable=False),
        sa.Column("low", sa.Double, nullable=True),
        sa.Column("high", sa.Double, nullable=True),
        sa.Column("n_kept", sa.BigInteger, nullable=False),
        sa.Column("n_good", sa.BigInteger, nullable=True),
        sa.CheckConstraint("kind IN ('caption', 'qa')", name="kind"),
    ],
    "kind",
)

agreement = sa.Table(
    "agreement",
    METADATA,
    id_column("agreement_id"),
    parent_column("dataset.dataset_id"),
    # NULL for length and majority, and for agreement between raters.
    sa.Column("scorer_id", sa.BigInteger, sa.ForeignKey("scorer.scorer_id", ondelete="CASCADE"), nullable=True),
    text_column("metric"),
    text_column("aspect"),
    text_column("grouping"),
    text_column("statistic"),
    sa.Column("value", sa.Double, nullable=True),
    sa.Column("low", sa.Double, nullable=True),
    sa.Column("high", sa.Double, nullable=True),
    sa.Column("n", sa.BigInteger, nullable=False),
    sa.Column("n_undefined", sa.BigInteger, nullable=False),
    sa.Column("n_undefined_resamples", sa.BigInteger, nullable=False),
    sa.Column("n_stale", sa.BigInteger, nullable=False),
    sa.Column("baseline", sa.Boolean, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    time_column("created_at"),
    sa.UniqueConstraint("dataset_id", "metric", "aspect", "grouping", "statistic", name="uq_agreement_statistic"),
)

# The mean of an expensive score over all captions of a group, estimated from a part and corrected by another score.
estimated_mean = sa.Table(
    "estimated_mean",
    METADATA,
    id_column("estimated_mean_id"),
    parent_column("dataset.dataset_id"),
    text_column("dear"),
    # NULL where people rate.
    sa.Column("dear_scorer_id", sa.BigInteger, sa.ForeignKey("scorer.scorer_id", ondelete="CASCADE"), nullable=True),
    # NULL where nothing corrects the mean.
    sa.Column("helper_scorer_id", sa.BigInteger, sa.ForeignKey("scorer.scorer_id", ondelete="CASCADE"), nullable=True),
    text_column("group_kind"),
    text_column("group_name", nullable=True),
    sa.Column("value", sa.Double, nullable=False),
    sa.Column("low", sa.Double, nullable=True),
    sa.Column("high", sa.Double, nullable=True),
    sa.Column("n", sa.BigInteger, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("slope", sa.Double, nullable=False),
    sa.Column("plain", sa.Double, nullable=False),
    sa.Column("gain", sa.Double, nullable=True),
    sa.Column("spread", sa.Double, nullable=True),
    sa.Column("half_width", sa.Double, nullable=False),
    sa.Column("n_more", sa.BigInteger, nullable=True),
    sa.Column("seed", sa.BigInteger, nullable=False),
    time_column("created_at"),
    sa.UniqueConstraint(
        *("dataset_id", "dear", "dear_scorer_id", "helper_scorer_id", "group_kind", "group_name"),
        name="uq_estimated_mean_group",
        postgresql_nulls_not_distinct=True,
    ),
    sa.CheckConstraint("group_kind IN ('dataset', 'system', 'selection')", name="group_kind"),
    sa.CheckConstraint("(group_kind = 'dataset') = (group_name IS NULL)", name="name_unless_dataset"),
)
