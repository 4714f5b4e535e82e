"""Tables of frozen selections, of the copies of their rows, and of the attempts to promise something about one."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import METADATA, digest_column, id_column, json_column, parent_column, text_column, time_column

selection = sa.Table(
    "selection",
    METADATA,
    id_column("selection_id"),
    # NULL for a selection whose dataset was dropped; the dataset's name stays, and a trigger updates it before that.
    sa.Column("dataset_id", sa.BigInteger, sa.ForeignKey("dataset.dataset_id", ondelete="SET NULL"), nullable=True),
    text_column("dataset_name"),
    json_column("spec", nullable=False),
    sa.Column("n", sa.BigInteger, nullable=False),
    sa.Column("cutoff", sa.Double, nullable=True),
    text_column("score_hash"),
    # As they were when it was made.
    sa.Column("n_eligible", sa.BigInteger, nullable=False),
    sa.Column("n_duplicates", sa.BigInteger, nullable=False),
    # NULL where no value decides: in a random draw and in a diverse subset.
    sa.Column("n_tied", sa.BigInteger, nullable=True),
    sa.Column("n_tied_left", sa.BigInteger, nullable=True),
    json_column("unjudged", nullable=False),
    # Names of the models of every metric's active scorer, NULL without one; rows have their scores in the same order.
    sa.Column("metrics", sa.ARRAY(sa.Text), nullable=False),
    sa.Column("models", sa.ARRAY(sa.Text), nullable=False),
    time_column("created_at"),
    # What is promised about the selection, as its passport shows it; NULL where nothing is.
    json_column("promise"),
    # Not unique together with the spec: a long filter fits no index. db/selection/eligible.py takes a lock instead.
    sa.Index("ix_selection_dataset_id_score_hash", "dataset_id", "score_hash"),
)

selection_item = sa.Table(
    "selection_item",
    METADATA,
    # No foreign key: it was checked for each row, and took a third of a selection's time. A trigger deletes the rows.
    sa.Column("selection_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("rank", sa.BigInteger, primary_key=True, autoincrement=False),
    # No foreign key: a frozen selection outlives the sample it was made from.
    sa.Column("sample_id", sa.BigInteger, nullable=False),
    sa.Column("value", sa.Double, nullable=False),
    text_column("sample"),
    text_column("video"),
    text_column("kind"),
    text_column("system"),
    text_column("text"),
    text_column("question", nullable=True),
    text_column("answer", nullable=True),
    text_column("uri", nullable=True),
    digest_column("content_sha256", nullable=True),
    # In the order of the selection's metrics: the defined score or NULL, and whether there was a row of scores.
    sa.Column("scores", sa.ARRAY(sa.Double), nullable=False),
    sa.Column("is_scored", sa.ARRAY(sa.Boolean), nullable=False),
    # NULL too in rows frozen before migration 0006 whose video was gone by then.
    text_column("licence", nullable=True),
    text_column("source_url", nullable=True),
)

# An attempt to promise something about a selection: attempts on the same answers share the chance of an error.
promise = sa.Table(
    "promise",
    METADATA,
    id_column("promise_id"),
    parent_column("dataset.dataset_id"),
    text_column("answered_by"),
    sa.Column("attempt", sa.Integer, nullable=False),
    json_column("terms", nullable=False),
    digest_column("order_sha256"),
    sa.Column("n_candidates", sa.BigInteger, nullable=False),
    time_column("created_at"),
    sa.UniqueConstraint("dataset_id", "answered_by", "attempt"),
)
