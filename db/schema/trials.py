"""Tables of training trials of selections, and of the students that were trained for them."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import METADATA, digest_column, id_column, json_column, parent_column, text_column, time_column

selection_trial = sa.Table(
    "selection_trial",
    METADATA,
    id_column("trial_id"),
    parent_column("selection.selection_id"),
    digest_column("trial_sha256"),
    text_column("trainer"),
    text_column("measure"),
    sa.Column("n_seeds", sa.Integer, nullable=False),
    sa.Column("n_train_videos", sa.BigInteger, nullable=False),
    sa.Column("n_left_out_videos", sa.BigInteger, nullable=False),
    # Videos that stop the training of students; 0 for trials of before, whose students all took 250 steps.
    sa.Column("n_validation_videos", sa.BigInteger, nullable=False),
    sa.Column("n_test_videos", sa.BigInteger, nullable=False),
    sa.Column("n_changed", sa.BigInteger, nullable=False),
    digest_column("test_sha256"),
    text_column("video_side"),
    sa.Column("chance", sa.Double, nullable=True),
    sa.Column("detectable", sa.Double, nullable=True),
    json_column("settings", nullable=False),
    time_column("tried_at"),
    sa.UniqueConstraint("selection_id", "trial_sha256"),
)

trial_arm = sa.Table(
    "trial_arm",
    METADATA,
    parent_column("selection_trial.trial_id", primary_key=True),
    sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),
    text_column("arm"),
    sa.Column("share", sa.Double, nullable=True),
    sa.Column("n", sa.BigInteger, nullable=False),
    digest_column("rows_sha256"),
    text_column("status"),
    text_column("reason", nullable=True),
    sa.Column("value", sa.Double, nullable=True),
    json_column("measures", nullable=False),
    # The median of the best steps, and the mean reciprocal rank of the validation videos by step; of built-in students.
    sa.Column("steps", sa.Integer, nullable=True),
    json_column("curve", nullable=False),
    sa.Column("seconds", sa.Double, nullable=True),
    text_column("compared_with", nullable=True),
    sa.Column("difference", sa.Double, nullable=True),
    sa.Column("low", sa.Double, nullable=True),
    sa.Column("high", sa.Double, nullable=True),
    sa.Column("p", sa.Double, nullable=True),
    text_column("conclusion", nullable=True),
    sa.Column("n_more_videos", sa.BigInteger, nullable=True),
    sa.CheckConstraint("(status = 'ok') = (value IS NOT NULL)", name="value_if_ok"),
    sa.CheckConstraint("(status = 'ok') = (reason IS NULL)", name="reason_unless_ok"),
)

# What one student reached. Trials of the same rows, test videos, trainer and seed share it, so that a trial which was
# killed, or got more arms or seeds, trains only what is missing.
trial_run = sa.Table(
    "trial_run",
    METADATA,
    sa.Column("run_sha256", sa.LargeBinary, primary_key=True),
    parent_column("dataset.dataset_id"),
    text_column("status"),
    text_column("reason", nullable=True),
    text_column("measure", nullable=True),
    # One value for every test video in the order of their keys, or only one for all of them.
    sa.Column("test_values", sa.ARRAY(sa.Double), nullable=False),
    json_column("measures", nullable=False),
    sa.Column("seconds", sa.Double, nullable=True),
    json_column("curve", nullable=False),
    time_column("trained_at"),
    sa.Index("ix_trial_run_dataset_id", "dataset_id"),
    sa.CheckConstraint("(status = 'ok') = (reason IS NULL)", name="reason_unless_ok"),
    sa.CheckConstraint("(status = 'ok') = (cardinality(test_values) > 0)", name="values_if_ok"),
)
