"""The choice of a dataset's thresholds for ECS, one for every dimension, on labels of people or of a judge."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy.engine import Engine

from assets.scores.base import Scorer
from assets.scores.pending import store_scorer
from assets.words.text import format_count
from db.evidence.verdicts import MANIFEST_LABEL_SOURCE, LabelledVerdict, load_labelled_verdicts
from db.manifest.datasets import Dataset
from db.scores.thresholds import LabelThreshold, store_label_thresholds
from metrics_core.agreement import count_confusion
from metrics_core.calibration import (
    CalibrationWarning,
    Confusion,
    DimensionThresholds,
    Threshold,
    find_dimension_thresholds,
    mark_calibration_keys,
)
from metrics_core.calibration.result import Objective

LabelPart = Literal["calibration", "all"]
TOTAL_NAME = "all dimensions"


class NoLabels(ValueError):
    """Raised when a dataset has no labels that a threshold can be chosen on; the message has the reason and remedy."""

    plain = True


@dataclass(frozen=True, slots=True)
class Calibration:
    """The thresholds that were chosen for a dataset's dimensions, and how well they agree with the other labels. part:
    the labels they were chosen on, "calibration" for those of a fifth of the videos or "all". source: where the labels
    are from, the manifest or a judge. confusion_by_dimension: agreement with the labels of the other videos, also in
    total; empty if there are none.

    objective: what the thresholds are best for. threshold_by_dimension: the thresholds, with intervals and counts on
    the labels that they were chosen on. n_shard_thresholds: the number of thresholds stored for single shards.
    """

    objective: Objective
    part: LabelPart
    source: str
    threshold_by_dimension: Mapping[str, Threshold]
    confusion_by_dimension: Mapping[str, Confusion]
    n_shard_thresholds: int

    @property
    def warnings(self) -> list[str]:
        """The warnings about all thresholds, as sentences that begin with the dimension; [] if there are none."""
        return [
            f"{name}: {text}" for name, threshold in self.threshold_by_dimension.items() for text in threshold.warnings
        ]


def calibrate_thresholds(
    engine: Engine,
    scorer: Scorer,
    dataset: Dataset,
    objective: Objective,
    part: LabelPart,
    source: str = MANIFEST_LABEL_SOURCE,
) -> Calibration:
    """Choose the threshold of ECS for every dimension that is best for the objective on a dataset's labels; store the
    thresholds, and return them. They replace the thresholds chosen on labels before, so scores may become stale. part:
    "calibration" for the labels of a fifth of the videos, "all" for all. source: only labels of this source count,
    those of the manifest or of one judge. Raises NoLabels, and then stores no threshold.

    A shard with enough labels also gets its own thresholds, which show whether shards differ; no score uses them. The
    scorer is stored if it is new.
    """
    scorer_id = store_scorer(engine, scorer)
    with engine.connect() as connection:
        labelled = load_labelled_verdicts(connection, scorer_id, dataset.dataset_id, source)
    chosen, others = _split_labels(labelled, part)
    thresholds = _choose_thresholds(chosen, objective)
    if thresholds.pooled.value is None:
        raise NoLabels(_explain_no_threshold(dataset.name, labelled, thresholds.pooled, source))
    by_shard = {
        shard: _choose_thresholds([verdict for verdict in chosen if verdict.shard == shard], objective)
        for shard in sorted({verdict.shard for verdict in chosen})
    }
    origin = {"labels": source, "videos": part}
    rows = [
        *_build_rows(thresholds, "dataset", None, objective, origin),
        *(
            row
            for shard, shard_thresholds in by_shard.items()
            for row in _build_rows(shard_thresholds, "shard", shard, objective, origin)
        ),
    ]
    with engine.begin() as connection:
        store_label_thresholds(connection, scorer_id, dataset.dataset_id, rows)
    n_shard_thresholds = sum(row.scope == "shard" for row in rows)
    by_dimension = thresholds.by_dimension
    return Calibration(
        objective, part, source, by_dimension, compute_confusions(others, by_dimension), n_shard_thresholds
    )


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
        if threshold is not None and threshold.value is not None:
            covered = verdict.probability is not None and verdict.probability >= threshold.value
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


def _choose_thresholds(labelled: Sequence[LabelledVerdict], objective: Objective) -> DimensionThresholds:
    # Captions without a sentence cover nothing at any threshold.
    judged = [(v, v.probability) for v in labelled if v.probability is not None]
    with warnings.catch_warnings():
        # Every threshold keeps its warnings, and the report shows them.
        warnings.simplefilter("ignore", CalibrationWarning)
        return find_dimension_thresholds(
            [probability for _, probability in judged],
            [verdict.covered for verdict, _ in judged],
            [verdict.dimension for verdict, _ in judged],
            objective,
            groups=[verdict.group for verdict, _ in judged],
        )


def _build_rows(
    thresholds: DimensionThresholds,
    scope: Literal["dataset", "shard"],
    shard: int | None,
    objective: str,
    origin: Mapping[str, str],
) -> list[LabelThreshold]:
    """Return the thresholds as rows to store; of a shard only those chosen on the dimension's own labels."""
    return [
        LabelThreshold(
            scope, shard, name, objective, chosen.value, chosen.n, chosen.n_positive, _build_details(chosen, origin)
        )
        for name, chosen in thresholds.by_dimension.items()
        if chosen.value is not None and not (scope == "shard" and chosen.pooled)
    ]


def _build_details(threshold: Threshold, origin: Mapping[str, str]) -> dict[str, Any]:
    interval, counts = threshold.interval, threshold.counts
    return {
        **origin,
        "pooled": threshold.pooled,
        "interval": asdict(interval) if interval else None,
        "f1": counts.f1 if counts else None,
        "mcc": counts.mcc if counts else None,
        "warnings": list(threshold.warnings),
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
