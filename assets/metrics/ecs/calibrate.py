"""The choice of a dataset's thresholds for ECS, one for every dimension, on labels of people or of a judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from sqlalchemy.engine import Engine

from assets.scores.base import Scorer
from assets.scores.pending import store_scorer
from assets.words.text import format_count
from db.evidence.verdicts import MANIFEST_LABEL_SOURCE, LabelledVerdict, load_labelled_verdicts
from db.manifest.datasets import Dataset
from db.schema import keypoint_threshold
from db.scores.keypoint_decisions import LABEL_METHOD
from db.scores.thresholds import store_thresholds
from metrics_core.agreement import count_confusion
from metrics_core.calibration import Confusion, Threshold, find_dimension_thresholds, mark_calibration_keys
from metrics_core.calibration.result import Objective
from metrics_core.calibration.search import RESAMPLES
from metrics_core.intervals import LEVEL

LabelPart = Literal["calibration", "all"]
TOTAL_NAME = "all dimensions"


class NoLabels(ValueError):
    """Raised when a dataset has no labels that a threshold can be chosen on; the message has the reason and remedy."""

    plain = True


def calibrate_thresholds(
    engine: Engine,
    scorer: Scorer,
    dataset: Dataset,
    objective: Objective,
    part: LabelPart,
    source: str = MANIFEST_LABEL_SOURCE,
) -> tuple[dict[str, Threshold], dict[str, Confusion], int]:
    """Choose for every dimension the threshold of ECS that is best for the objective on a dataset's labels, and store
    them in place of earlier ones, so that scores may become stale. Return (thresholds by dimension, their agreement
    with labels of the other videos as `compute_confusions` counts it, number of thresholds of shards).

    part: "calibration" for the labels of a fifth of the videos, "all" for all. source: only labels of this source
    count. Raises NoLabels, and then stores nothing.

    A shard with enough labels also gets its own thresholds, which show whether shards differ; no score uses them. The
    scorer is stored if it is new.
    """
    scorer_id = store_scorer(engine, scorer)
    with engine.connect() as connection:
        labelled = load_labelled_verdicts(connection, scorer_id, dataset.dataset_id, source)
    chosen, others = _split_labels(labelled, part)
    pooled, thresholds = _choose_thresholds(chosen, objective)
    if pooled.at_least is None:
        raise NoLabels(_explain_no_threshold(dataset.name, labelled, pooled, source))
    of_shards = [
        replace(threshold, shard=shard)
        for shard in sorted({verdict.shard for verdict in chosen})
        for threshold in _choose_thresholds([v for v in chosen if v.shard == shard], objective)[1].values()
        if not threshold.pooled
    ]
    origin = {"labels": source, "videos": part}
    rows = [_build_row(threshold, origin) for threshold in (*thresholds.values(), *of_shards)]
    with engine.begin() as connection:
        store_thresholds(connection, keypoint_threshold, scorer_id, dataset.dataset_id, LABEL_METHOD, rows)
    return thresholds, compute_confusions(others, thresholds), len(of_shards)


def compute_confusions(
    labelled: Iterable[LabelledVerdict], thresholds: Mapping[str, Threshold]
) -> dict[str, Confusion]:
    """Compare decisions at the thresholds with labels; return the counts of agreement by dimension, and of all under
    "all dimensions". A keypoint counts as covered if its probability reaches the threshold; one without a probability
    is uncovered. A dimension without a threshold or without labels has no entry; {} without labels.
    """
    decided: dict[str, list[tuple[bool, bool]]] = {}
    for verdict in labelled:
        threshold = thresholds.get(verdict.dimension)
        if threshold is not None and threshold.at_least is not None:
            covered = verdict.probability is not None and verdict.probability >= threshold.at_least
            decided.setdefault(verdict.dimension, []).append((covered, verdict.covered))
    if not decided:
        return {}
    decided[TOTAL_NAME] = [pair for pairs in decided.values() for pair in pairs]
    return {name: count_confusion(*zip(*pairs, strict=True)) for name, pairs in decided.items()}


def _split_labels(
    labelled: Sequence[LabelledVerdict], part: LabelPart
) -> tuple[list[LabelledVerdict], list[LabelledVerdict]]:
    """Return (labels to choose thresholds on, the other labels). All labels of a video are on one side.

    A hash of the video decides, so the split is always the same.
    """
    if part == "all":
        return list(labelled), []
    mask = mark_calibration_keys([verdict.group for verdict in labelled])
    pairs = list(zip(labelled, mask.tolist(), strict=True))
    return [verdict for verdict, chosen in pairs if chosen], [verdict for verdict, chosen in pairs if not chosen]


def _choose_thresholds(
    labelled: Sequence[LabelledVerdict], objective: Objective
) -> tuple[Threshold, dict[str, Threshold]]:
    # Captions without a sentence cover nothing at any threshold.
    judged = [(v, v.probability) for v in labelled if v.probability is not None]
    return find_dimension_thresholds(
        [probability for _, probability in judged],
        [verdict.covered for verdict, _ in judged],
        [verdict.dimension for verdict, _ in judged],
        objective,
        [verdict.group for verdict, _ in judged],
    )


def _build_row(threshold: Threshold, origin: Mapping[str, str]) -> dict[str, Any]:
    """Return a threshold as a row of table `keypoint_threshold`. origin: the labels that it was chosen on."""
    counts = threshold.counts
    interval = {
        "low": threshold.low,
        "high": threshold.high,
        "level": LEVEL,
        "n_groups": threshold.n_videos,
        "n_resamples": RESAMPLES,
        "n_undefined": threshold.n_undefined,
    }
    return {
        "shard": threshold.shard,
        "dimension": threshold.aspect,
        "objective": threshold.objective,
        "threshold": threshold.at_least,
        "n": threshold.n,
        "n_positive": threshold.n_good,
        "details": {
            **origin,
            "pooled": threshold.pooled,
            "interval": interval,
            "f1": counts.f1 if counts else None,
            "mcc": counts.mcc if counts else None,
            "warnings": list(threshold.warnings),
        },
    }


def _explain_no_threshold(dataset: str, labelled: Sequence[LabelledVerdict], pooled: Threshold, source: str) -> str:
    if not labelled and source != MANIFEST_LABEL_SOURCE:
        return f"{dataset} has no keypoint with both a label of {source} and a verdict: let it judge more captions"
    if not labelled:
        return (
            f"{dataset} has no keypoint with both a label and a verdict: ingest keypoint_labels, then score with ecs; "
            "until then the verifier's default threshold applies"
        )
    if pooled.status != "no_labels":
        return (
            f"no threshold for {pooled.objective} can be chosen on the {format_count(pooled.n, 'label')} of {dataset}: "
            f"{pooled.reason}; label more captions"
        )
    n_judged = sum(verdict.probability is not None for verdict in labelled)
    if n_judged == 0:
        return f"no labelled caption of {dataset} has a sentence to judge: label captions that have sentences"
    return (
        f"none of the {format_count(n_judged, 'label')} of {dataset} is in the fifth of the videos that thresholds are "
        "chosen on: use the labels of all videos with --labels all"
    )
