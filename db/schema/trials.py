"""Tables of training trials of selections, and of the students that were trained for them."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import (
    column,
    declare_table,
    digest_column,
    id_column,
    json_column,
    key_column,
    measure_column,
    parent_column,
    text_column,
    time_column,
)

selection_trial = declare_table(
    "selection_trial",
    "A training trial of a selection: the same model is trained on it and on other captions, and tested on "
    "held-out videos.",
    id_column("trial_id", "Number of the trial."),
    parent_column("selection.selection_id", "Selection that was tried."),
    digest_column(
        "trial_sha256", "Digest of all that decides the result: rows of all arms, test videos, trainer and seeds."
    ),
    text_column("trainer", "What was trained: a small head on frozen vectors, or the command of an own trainer."),
    text_column("measure", "Measure that decides; the higher the better."),
    column("n_seeds", sa.Integer, "Number of models trained for every arm."),
    column("n_train_videos", sa.BigInteger, "Number of videos whose captions may train."),
    column("n_left_out_videos", sa.BigInteger, "Number of videos left out as copies of held-out videos."),
    column("n_validation_videos", sa.BigInteger, "Number of held-out videos by which the training of students stops."),
    column("n_test_videos", sa.BigInteger, "Number of held-out videos that test."),
    column(
        "n_changed",
        sa.BigInteger,
        "Number of the selection's rows whose sample changed or is gone; the frozen text trains.",
    ),
    digest_column("test_sha256", "Digest of keys and texts of the test videos."),
    text_column(
        "video_side",
        "What the models get of a video: frames, references, media, or its vector by the encoder that is named.",
    ),
    measure_column("chance", "Value of the measure for a random order; NULL where unknown."),
    measure_column("detectable", "Smallest difference that the trial finds in 80 % of cases; NULL where unknown."),
    json_column("settings", "Settings of the trainer."),
    time_column("tried_at", "Time at which it was stored."),
    sa.UniqueConstraint("selection_id", "trial_sha256"),
)

trial_arm = declare_table(
    "trial_arm",
    "An arm of a training trial: captions that a model was trained on, what it reached, and the difference to it.",
    parent_column("selection_trial.trial_id", "Trial, a row of table selection_trial.", primary_key=True),
    key_column("place", sa.Integer, "Place of the arm in the trial, from 0, which is the selection."),
    text_column("arm", "Name of the arm."),
    measure_column("share", "Share of the captions, for an arm of the curve; else NULL."),
    column("n", sa.BigInteger, "Number of its training rows."),
    digest_column("rows_sha256", "Digest of its training rows in all seeds."),
    text_column("status", "ok, or why the arm has no value."),
    text_column("reason", "Reason of another status than ok.", nullable=True),
    measure_column("value", "Mean of the measure over seeds and test videos."),
    json_column("measures", "Means of all measures, by name."),
    column(
        "steps",
        sa.Integer,
        "Median of the numbers of steps after which students were best; NULL for own trainers.",
        nullable=True,
    ),
    json_column("curve", "Mean reciprocal rank of the validation videos by number of steps, a mean over seeds."),
    measure_column("seconds", "Time that training took in all seeds."),
    text_column(
        "compared_with",
        "The arm that this one is compared with: the selection, or for an arm of the curve its best share.",
        nullable=True,
    ),
    measure_column("difference", "Mean of the arm of compared_with less that of this one."),
    measure_column("low", "Lower end of the 95 % interval of the difference."),
    measure_column("high", "Upper end of the 95 % interval of the difference."),
    measure_column("p", "Two-sided p-value of the difference, corrected for the number of arms by Holm."),
    text_column("conclusion", "better, worse, no difference, or open: of the arm of compared_with.", nullable=True),
    column(
        "n_more_videos",
        sa.BigInteger,
        "Test videos that an open comparison would take in addition; 0 where none would help.",
        nullable=True,
    ),
    sa.CheckConstraint("(status = 'ok') = (value IS NOT NULL)", name="value_if_ok"),
    sa.CheckConstraint("(status = 'ok') = (reason IS NULL)", name="reason_unless_ok"),
)

# What one student reached. Trials of the same rows, test videos, trainer and seed share it, so that a trial which was
# killed, or got more arms or seeds, trains only what is missing.
trial_run = declare_table(
    "trial_run",
    "What one trained model reached on the test videos; trials with the same rows, test, trainer and seed share it.",
    key_column("run_sha256", sa.LargeBinary, "Digest of rows, test videos, trainer and seed."),
    parent_column("dataset.dataset_id", "Dataset of the rows."),
    text_column("status", "ok, or why there are no values."),
    text_column("reason", "Reason of another status than ok.", nullable=True),
    text_column("measure", "Measure of the test values.", nullable=True),
    column(
        "test_values",
        sa.ARRAY(sa.Double),
        "A value for every test video in the order of their keys, or one for all; empty unless the status is ok.",
    ),
    json_column("measures", "Means of all measures, by name."),
    measure_column("seconds", "Time that training took."),
    json_column("curve", "Mean reciprocal rank of the validation videos by number of steps."),
    time_column("trained_at", "Time at which it was stored."),
    sa.Index("ix_trial_run_dataset_id", "dataset_id"),
    sa.CheckConstraint("(status = 'ok') = (reason IS NULL)", name="reason_unless_ok"),
    sa.CheckConstraint("(status = 'ok') = (cardinality(test_values) > 0)", name="values_if_ok"),
)
