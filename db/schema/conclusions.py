"""Tables of conclusions from scores: thresholds on scores and keypoints, agreement with people, estimated means."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from db.schema.columns import (
    column,
    declare_table,
    id_column,
    json_column,
    measure_column,
    parent_column,
    text_column,
    time_column,
)


def _threshold(
    name: str, comments: Sequence[str], own_columns: Sequence[sa.schema.SchemaItem], *unique: str
) -> sa.Table:
    """Return a table of thresholds within a dataset or a shard. comments: of the table and its columns method,
    objective, n and details; own_columns: columns and checks; unique: columns of its unique key.
    """
    comment, method, objective, n, details = comments
    return declare_table(
        name,
        comment,
        id_column(f"{name}_id", "Number of the threshold."),
        parent_column("scorer.scorer_id"),
        parent_column("dataset.dataset_id"),
        column(
            "shard", sa.Integer, "Shard that the threshold was chosen on; NULL for the whole dataset.", nullable=True
        ),
        *own_columns,
        text_column("method", method),
        text_column("objective", objective),
        column("n", sa.BigInteger, n),
        json_column("details", details, server_default="{}"),
        time_column("created_at"),
        sa.UniqueConstraint(
            *("scorer_id", "dataset_id", "shard", *unique, "method"),
            name=f"uq_{name}_scope",
            postgresql_nulls_not_distinct=True,
        ),
    )


keypoint_threshold = _threshold(
    "keypoint_threshold",
    (
        "Probabilities from which a keypoint counts as covered; view threshold_in_force has those in use.",
        "keypoint_labels (calibrated on labels).",
        "Measure that the calibration made as good as possible: f1, youden, mcc or coverage.",
        "Number of labels that the threshold was computed from.",
        "Further numbers on the threshold, such as its interval and warnings, as JSON.",
    ),
    [
        text_column("dimension", "Dimension of the keypoints that the threshold decides."),
        column("threshold", sa.Double, "Probability from which a keypoint counts as covered."),
        column("n_positive", sa.BigInteger, "Number of labels by which the keypoint is covered.", nullable=True),
    ],
    "dimension",
)

# Column at_least has another name than a score or a keypoint's threshold, so that a natural join is never by it.
score_threshold = _threshold(
    "score_threshold",
    (
        "Thresholds on scores; views dataset_thresholds and shard_thresholds have those of active scorers, by names.",
        "quantile (of the scores), or ratings (captions that people find good).",
        "Purpose, as recipes name it: keep 0.125 keeps the best eighth, good overall the captions that people find "
        "good.",
        "Number of scores that the threshold was computed from.",
        "Where method is ratings: aspect, lowest rating of a good sample (by goodness in current_rating), shares of "
        "good and other samples that pass, Youden J on other videos with that of simple scores.",
    ),
    [
        text_column("kind", "Kind of samples that the threshold applies to: caption, or qa for question-answer pairs."),
        column("at_least", sa.Double, "The threshold: the lowest score that passes."),
        measure_column(
            "low",
            "Lower end of the threshold's 95 % interval; NULL where method is quantile, or the interval is undefined.",
        ),
        measure_column(
            "high",
            "Upper end of the threshold's 95 % interval; NULL where method is quantile, or the interval is undefined.",
        ),
        column(
            "n_kept",
            sa.BigInteger,
            "Number of scores, of n, that pass; more than the wanted share if several scores equal the threshold.",
        ),
        column(
            "n_good",
            sa.BigInteger,
            "Number of samples that people find good; NULL where method is quantile.",
            nullable=True,
        ),
        sa.CheckConstraint("kind IN ('caption', 'qa')", name="kind"),
    ],
    *("kind", "objective"),
)

agreement = declare_table(
    "agreement",
    "Agreement of a metric or a simple score with people's judgements in a dataset.",
    id_column("agreement_id", "Number of the row."),
    parent_column("dataset.dataset_id"),
    parent_column(
        "scorer.scorer_id", "Scorer; NULL for length and majority, and for agreement between raters.", nullable=True
    ),
    text_column(
        "metric", 'Name of the metric or of the simple score; "one rater" and "raters" are agreement between people.'
    ),
    text_column("aspect", "Aspect that people judged."),
    text_column(
        "over",
        "What is compared: captions, within a video (its captions), systems, pairs (of captions), or keypoints.",
    ),
    text_column(
        "against",
        'people, or who a metric is compared with: "one rater", or a simple score by its name.',
    ),
    text_column("statistic", "Name of the number, such as kendall_b."),
    measure_column("value", "Value of the statistic; NULL where it is undefined."),
    measure_column("low", "Lower end of the 95 % interval."),
    measure_column("high", "Upper end of the 95 % interval."),
    measure_column("p", "Two-sided p-value: the chance of a value so far from 0; NULL where undefined or not tested."),
    column("n", sa.BigInteger, "Number of captions, videos, systems, answers or labels that it was computed from."),
    column("n_videos", sa.BigInteger, "Number of videos that the compared captions, answers or labels belong to."),
    column(
        "n_undefined",
        sa.BigInteger,
        "Number of captions, videos, systems, answers or labels left out since a number is missing.",
    ),
    column(
        "n_undefined_resamples",
        sa.BigInteger,
        "Number of blocks of videos without which there is no value.",
    ),
    column("n_stale", sa.BigInteger, "Number of samples left out since their score is stale."),
    column("baseline", sa.Boolean, "Whether the row is about a simple score, or about majority."),
    column("seed", sa.BigInteger, "Seed by which videos are dealt to blocks and halves."),
    time_column("created_at"),
    sa.UniqueConstraint(
        *("dataset_id", "metric", "aspect", "over", "against", "statistic"), name="uq_agreement_statistic"
    ),
)

estimated_mean = declare_table(
    "estimated_mean",
    "Mean of an expensive score over all captions of a group, estimated from a random part of them.",
    id_column("estimated_mean_id", "Number of the row."),
    parent_column("dataset.dataset_id"),
    text_column(
        "expensive_score", "Score that a part of the captions has: the aspect of ratings, or the metric that judges."
    ),
    parent_column(
        "scorer.scorer_id", "Scorer that judges; NULL where people rate.", name="expensive_scorer_id", nullable=True
    ),
    parent_column(
        "scorer.scorer_id",
        "Scorer whose values for all captions of the group correct the mean; NULL where nothing does.",
        name="helper_scorer_id",
        nullable=True,
    ),
    text_column("group_kind", "dataset (all its captions), system, or selection."),
    text_column("group_name", "Name of the system or number of the selection; NULL for the dataset.", nullable=True),
    column("value", sa.Double, "Estimated mean over all captions of the group."),
    measure_column(
        "low", "Lower end of the 95 % interval; NULL where all answers are equal and none is known outside of the part."
    ),
    measure_column("high", "Upper end of the 95 % interval."),
    column("n", sa.BigInteger, "Number of answers that count: those before the first gap in the order of the draw."),
    column("size", sa.BigInteger, "Number of captions of the group, without those that could not be judged."),
    column(
        "slope", sa.Double, "How much of the helper's differences the correction uses; 0 where nothing is corrected."
    ),
    column("plain", sa.Double, "Mean of the answers without correction."),
    measure_column(
        "gain",
        "How many times as many answers the plain mean would need for an interval as narrow; NULL where it is "
        "undefined.",
    ),
    measure_column(
        "spread", "Standard deviation of what the helper leaves open; NULL where the interval is not computed from it."
    ),
    column(
        "half_width",
        sa.Double,
        "Half width of the interval that n_more is about: a twentieth of the scale, such as .2 for ratings from 1 "
        "to 5 and .05 for a judge.",
    ),
    column(
        "n_more",
        sa.BigInteger,
        "How many more answers such an interval would probably need; NULL where it cannot be forecast.",
        nullable=True,
    ),
    column("seed", sa.BigInteger, "Seed of the order of the draw."),
    time_column("created_at"),
    sa.UniqueConstraint(
        *("dataset_id", "expensive_score", "expensive_scorer_id", "helper_scorer_id", "group_kind", "group_name"),
        name="uq_estimated_mean_group",
        postgresql_nulls_not_distinct=True,
    ),
    sa.CheckConstraint("group_kind IN ('dataset', 'system', 'selection')", name="group_kind"),
    sa.CheckConstraint("(group_kind = 'dataset') = (group_name IS NULL)", name="name_unless_dataset"),
)
