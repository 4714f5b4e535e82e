"""Tables of frozen selections, of the copies of their rows, and of the attempts to promise something about one."""

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

selection = declare_table(
    "selection",
    "A frozen training subset: its rows stay as they were when it was made.",
    id_column("selection_id", "Number of the selection, as in reelsieve export."),
    # NULL for a selection whose dataset was dropped.
    sa.Column("dataset_id", sa.BigInteger, sa.ForeignKey("dataset.dataset_id", ondelete="SET NULL"), nullable=True),
    text_column("dataset_name", "Name of its dataset; it stays when the dataset is dropped."),
    json_column("spec", "Recipe by which it was chosen, with the scorers by whose scores it ranked."),
    column("n", sa.BigInteger, "Number of samples."),
    measure_column("cutoff", "Lowest value that a sample of the selection has."),
    text_column("score_hash", "Digest of the samples and their values."),
    column("n_eligible", sa.BigInteger, "Number of samples with a value that passed all conditions."),
    column(
        "n_duplicates",
        sa.BigInteger,
        "Number of eligible samples that were left out as near-duplicates of better ones.",
    ),
    column(
        "n_tied",
        sa.BigInteger,
        "Number of its samples with exactly the value at which the wanted size ends, summed over the strata; "
        "NULL where no value decides, as in a random draw.",
        nullable=True,
    ),
    column(
        "n_tied_left",
        sa.BigInteger,
        "Number of eligible samples left out at exactly the value where the size ends; NULL where no value decides.",
        nullable=True,
    ),
    json_column("unjudged", "By metric, number of samples of the dataset without a value, by status."),
    column("metrics", sa.ARRAY(sa.Text), "Metrics whose scores the selection's rows hold, in this order."),
    column(
        "models", sa.ARRAY(sa.Text), "Models of the active scorer of each metric, in the same order; NULL without one."
    ),
    json_column(
        "identities",
        "By the way in which their videos' files are recognised (sha256, etag), number of its samples; samples of a "
        "text-only video are left out.",
    ),
    time_column("created_at"),
    json_column(
        "promise",
        "What is promised about its rows: the most errors, the confidence, what an error is, who answered, and the "
        "upper bound; NULL where nothing is.",
        nullable=True,
    ),
    # Not unique together with the spec: a long filter fits no index. db/selection/eligible.py takes a lock instead.
    sa.Index("ix_selection_dataset_id_score_hash", "dataset_id", "score_hash"),
)

selection_item = declare_table(
    "selection_item",
    "A sample of a selection, copied as it was; it outlives the sample.",
    # No foreign key: it was checked for each row, and took a third of a selection's time. A trigger deletes the rows.
    key_column("selection_id", sa.BigInteger, "Selection, a row of table selection."),
    key_column("rank", sa.BigInteger, "Place in the selection, from 1."),
    # No foreign key: a frozen selection outlives the sample it was made from.
    column("sample_id", sa.BigInteger, "Sample that it was made from; it may be gone."),
    column("value", sa.Double, "Value by which it was chosen."),
    text_column("sample"),
    text_column("video"),
    text_column("kind"),
    text_column("system"),
    text_column("text", "The caption; of a question-answer pair, question and answer together."),
    text_column("question", "The question of a pair; NULL for a caption.", nullable=True),
    text_column("answer", "The answer of a pair; NULL for a caption.", nullable=True),
    text_column("uri", "Address of the video's file.", nullable=True),
    digest_column("content_sha256", "Digest of the video's file, as in table video.", nullable=True),
    column(
        "scores",
        sa.ARRAY(sa.Double),
        "Scores of the sample by the metrics of selection.metrics, in that order; NULL where one is undefined.",
    ),
    column(
        "is_scored",
        sa.ARRAY(sa.Boolean),
        "Whether the sample was scored at all by the metrics of selection.metrics, in that order.",
    ),
    text_column("licence", "Licence of the video; NULL if it was unknown.", nullable=True),
    text_column("source_url", "Web address that the video was collected from; NULL if it was unknown.", nullable=True),
)

promise = declare_table(
    "promise",
    "An attempt to promise that a selection has few errors; the attempts on the same answers share the chance "
    "of being wrong.",
    id_column("promise_id", "Number of the attempt, as in reelsieve rate --for-promise."),
    parent_column("dataset.dataset_id"),
    text_column(
        "answered_by", "Whose answers decide what an error is: people by an aspect, or a judge by its fingerprint."
    ),
    column(
        "attempt",
        sa.Integer,
        "Number of the attempt on these answers, from 1; attempt j may be wrong with the chance a / 2^j.",
    ),
    json_column(
        "terms",
        "Recipe, limit, confidence, what an error is, seed of the draw, and the shares of the order that are tried.",
    ),
    digest_column(
        "order_sha256",
        "Digest of the candidates, their texts and the sets that hold them; another order is another attempt.",
    ),
    column("n_candidates", sa.BigInteger, "Number of samples in the largest set."),
    time_column("created_at"),
    sa.UniqueConstraint("dataset_id", "answered_by", "attempt"),
)
