"""Tables of the judge's answers, and of the parts of datasets for which a metric is computed."""

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

judge_answer = declare_table(
    "judge_answer",
    "A judge's answer about the text of a sample: a score, the pieces of the text that it calls wrong, and a sentence.",
    parent_column("sample.sample_id", primary_key=True),
    parent_column(
        "model.model_id",
        "The judge with the version of its prompt, and the form in which it is shown the video.",
        primary_key=True,
    ),
    key_column(
        "repeat",
        sa.Integer,
        "Number of the answer about this text, from 0; scores are made of answer 0, which is asked for at "
        "temperature 0, others at 1.",
    ),
    digest_column("context_sha256", "Digest of the text and the frames that were judged."),
    column("score", sa.Integer, "The judge's score, 0 to 100; NULL unless the status is ok.", nullable=True),
    measure_column("value", "The score as a number from 0 to 1; NULL unless the status is ok."),
    text_column(
        "value_from",
        "logprobs where the value is the expectation over the tokens of the score, answer where it is the score "
        "itself.",
        nullable=True,
    ),
    json_column(
        "spans",
        "Pieces of the text that are wrong or unsupported, a list of start, end (characters from 0), text and reason.",
    ),
    column(
        "n_not_in_text",
        sa.Integer,
        "Number of pieces that the judge named and that are not in the text; they were dropped.",
    ),
    column("n_surplus", sa.Integer, "Number of pieces that were dropped after the fifth."),
    text_column("why", "The judge's sentence about its score; NULL unless the status is ok.", nullable=True),
    text_column(
        "status", "ok, refused, cut (longer than allowed), malformed or failed; a failed one is asked for again."
    ),
    text_column("reason", "Why the status is not ok.", nullable=True),
    text_column("run_id"),
    time_column("answered_at", "When the answer was given."),
    sa.CheckConstraint("status IN ('ok', 'refused', 'cut', 'malformed', 'failed')", name="status"),
    sa.CheckConstraint("value_from IN ('logprobs', 'answer')", name="value_from"),
    # Refuses NaN too, which Postgres holds to be greater than every number.
    sa.CheckConstraint("value BETWEEN 0 AND 1", name="value"),
    sa.CheckConstraint("(status = 'ok') = (value IS NOT NULL)", name="value_iff_ok"),
    sa.CheckConstraint("(status = 'ok') = (reason IS NULL)", name="reason_unless_ok"),
    sa.CheckConstraint("num_nulls(score, value, value_from, why) IN (0, 4)", name="whole_answer"),
)

# A draw asks a metric only about the first n samples of a dataset, or of those that meet a condition, by draw_number.
sample_draw = declare_table(
    "sample_draw",
    "A draw: a metric is asked only about the first samples of the dataset in the order of function draw_number.",
    id_column("draw_id", "Number of the draw."),
    parent_column("dataset.dataset_id"),
    text_column("metric"),
    column("seed", sa.BigInteger, "Seed of the random numbers."),
    text_column(
        "condition",
        "Condition that drawn samples meet, as --where takes it; NULL for a draw from all samples.",
        nullable=True,
    ),
    column("n_wanted", sa.BigInteger, "How many of the samples with the lowest random numbers are drawn."),
    column(
        "last_sample_id",
        sa.BigInteger,
        "Highest sample_id when the draw was last taken; the next reelsieve score draws newer samples.",
    ),
    time_column("drawn_at", "When the draw was first taken."),
    sa.UniqueConstraint("dataset_id", "metric", "seed", "condition", postgresql_nulls_not_distinct=True),
    sa.CheckConstraint("n_wanted > 0", name="n_wanted"),
)

# The samples that the draws of a metric have reached; once drawn, a sample stays drawn. A judge is to give n_answers.
drawn_sample = declare_table(
    "drawn_sample",
    "Samples that the draws of a metric have reached; a sample stays drawn.",
    parent_column("sample.sample_id", primary_key=True),
    key_column("metric", sa.Text),
    time_column("drawn_at", "When the sample was drawn."),
    column(
        "n_answers",
        sa.Integer,
        "How many answers a judge is to give about the sample, as the largest --repeat wished.",
        server_default="1",
    ),
    sa.CheckConstraint("n_answers > 0", name="n_answers"),
)
