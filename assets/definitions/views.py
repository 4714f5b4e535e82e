"""The SQL views as virtual assets: Dagster shows their lineage, Postgres computes them."""

from __future__ import annotations

import dagster as dg

from assets.metrics.ecs.verdicts import KeypointVerdicts
from assets.metrics.qeva.answers import AnswerSource
from assets.metrics.registry import SCORERS, build_score_asset_name

_SCORES = [build_score_asset_name(metric) for metric in SCORERS]


def _build_view(name: str, description: str, deps: list[str]) -> dg.AssetSpec:
    return dg.AssetSpec(
        name, description=description, deps=deps, group_name="views", kinds={"postgres", "view"}, is_virtual=True
    )


views = [
    _build_view(
        "sample_scores",
        "One row per sample, one column per metric and simple score; active scorers only.",
        ["sample", *_SCORES],
    ),
    _build_view(
        "current_score", "Every score, and whether its inputs have changed since; a stale score has no value.", _SCORES
    ),
    _build_view(
        "score_history",
        "Every score of every scorer, the retired and replaced ones included, with the reason for every change.",
        _SCORES,
    ),
    _build_view(
        "keypoint_verdicts",
        "One row per keypoint and caption: probability, threshold, decision, the sentence behind it, and the label.",
        [KeypointVerdicts.asset, "ecs_score", "keypoint_label"],
    ),
    _build_view(
        "sample_questions",
        "One row per kept question about a caption: the question, its key, the answer, and whether it is right.",
        [AnswerSource.asset, build_score_asset_name("qeva")],
    ),
    _build_view(
        "threshold_in_force",
        "One row per scorer, dataset and dimension: the probability from which on a keypoint counts as covered.",
        ["ecs_thresholds"],
    ),
    _build_view(
        "dataset_thresholds",
        "One row per metric, dataset and objective: the lowest score on the good side, with its interval and counts.",
        ["threshold", "rating_threshold"],
    ),
    _build_view(
        "shard_thresholds",
        "One row per metric, shard and objective: the lowest score on the good side, with its interval and counts.",
        ["threshold", "rating_threshold"],
    ),
    _build_view(
        "estimated_means",
        "One row per estimated mean of ratings or of a judge, by dataset, system or selection, and by its helper.",
        ["agreement"],
    ),
    _build_view(
        "dataset_summary",
        "One row per dataset: the counts of its videos, captions, ratings, rejects and scores.",
        ["sample", "reference", *_SCORES],
    ),
]
