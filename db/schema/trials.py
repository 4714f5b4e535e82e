"""Tables of training trials of selections, and of the students that were trained for them."""

from __future__ import annotations

import sqlalchemy as sa

from db.schema.columns import (
    declare_table,
    digest_column,
    id_column,
    json_column,
    key_column,
    parent_column,
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
    json_column(
        "result", "Terms of the trial, and its arms with the selection first: as reelsieve prove --json prints."
    ),
    time_column("tried_at", "Time at which it was stored."),
    sa.UniqueConstraint("selection_id", "trial_sha256"),
)

# A trial that was killed, or got more arms or seeds, trains only what is missing.
trial_run = declare_table(
    "trial_run",
    "What one trained model reached on the test videos; trials with the same rows, test, trainer and seed share it.",
    key_column("run_sha256", sa.LargeBinary, "Digest of rows, test videos, trainer and seed."),
    parent_column("dataset.dataset_id", "Dataset of the rows."),
    json_column(
        "result",
        "status and reason; measure, and its test_values by test video in the order of their keys, or one for all; "
        "measures, means by name; seconds; curve, the mean reciprocal rank of the validation videos by steps.",
    ),
    time_column("trained_at", "Time at which it was stored."),
    sa.Index("ix_trial_run_dataset_id", "dataset_id"),
)
