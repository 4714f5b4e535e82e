"""Calibrating the thresholds of a checklist's dimensions on labels: rows, one pure function, rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy.engine import Engine

from assets.scores.base import Scorer
from assets.scores.pending import register
from db.manifest import Dataset
from db.thresholds import LabelThreshold, replace_label_thresholds
from db.verdicts import MANIFEST_LABELS, LabelledVerdict, labelled_verdicts
from metrics_core.agreement import confusion_of
from metrics_core.calibration import (
    CalibrationWarning,
    Confusion,
    DimensionThresholds,
    Threshold,
    calibration_mask,
    thresholds_by_dimension,
)
from metrics_core.calibration.result import Objective

Part = Literal["calibration", "all"]
TOTAL = "all dimensions"


class NoLabels(ValueError):
    """A dataset without labels that a threshold can be chosen on."""

    plain = True


@dataclass(frozen=True, slots=True)
class Calibration:
    """The thresholds of a dataset's dimensions, and how they do on the labels that they were not chosen on.

    by_dimension: each with its interval and counts on the labels that it was chosen on. evaluated: the confusion by
    dimension and in total on the other labels; empty where none are left. n_shard_thresholds: stored for single shards.
    """

    objective: Objective
    part: Part
    by_dimension: Mapping[str, Threshold]
    evaluated: Mapping[str, Confusion]
    n_shard_thresholds: int

    @property
    def warnings(self) -> list[str]:
        """What may be wrong with a threshold, each sentence with its dimension."""
        return [f"{name}: {text}" for name, each in self.by_dimension.items() for text in each.warnings]


def calibrate(engine: Engine, scorer: Scorer, dataset: Dataset, objective: Objective, part: Part) -> Calibration:
    """Choose a threshold per dimension on the labels of a fifth of the videos, or of all, and put them in force.

    What was in force before is replaced, that of single shards too, which is stored where a shard has labels enough of
    its own: to see whether shards differ, it does not count for scores. Raises NoLabels, and changes nothing then.
    """
    scorer_id = register(engine, scorer)
    with engine.connect() as connection:
        labelled = labelled_verdicts(connection, scorer_id, dataset.dataset_id, MANIFEST_LABELS)
    # A lower bound says too little of where a threshold should lie; and to leave out those that have one would be to
    # leave out what was covered.
    if any(verdict.is_lower_bound for verdict in labelled):
        raise NoLabels(
            f"an early exit left lower bounds beside labels of {dataset.name}: score it without early exit first"
        )
    chosen, others = _split(labelled, part)
    found = _thresholds(chosen, objective)
    if found.pooled.value is None:
        raise NoLabels(_why_none(dataset.name, labelled, found.pooled))
    by_shard = {
        shard: _thresholds([verdict for verdict in chosen if verdict.shard == shard], objective)
        for shard in sorted({verdict.shard for verdict in chosen})
    }
    rows = [
        *_rows(found, "dataset", None, objective, part),
        *(row for shard, each in by_shard.items() for row in _rows(each, "shard", shard, objective, part)),
    ]
    with engine.begin() as connection:
        replace_label_thresholds(connection, scorer_id, dataset.dataset_id, rows)
    n_of_shards = sum(row.scope == "shard" for row in rows)
    return Calibration(objective, part, found.by_dimension, evaluate(others, found.by_dimension), n_of_shards)


def evaluate(labelled: Iterable[LabelledVerdict], thresholds: Mapping[str, Threshold]) -> dict[str, Confusion]:
    """How decisions at the thresholds agree with labels, by dimension and over all; without labels empty."""
    decided: dict[str, list[tuple[bool, bool]]] = {}
    for verdict in labelled:
        threshold = thresholds.get(verdict.dimension)
        if threshold is not None and threshold.value is not None:
            covered = verdict.probability is not None and verdict.probability >= threshold.value
            decided.setdefault(verdict.dimension, []).append((covered, verdict.covered))
    if not decided:
        return {}
    decided[TOTAL] = [pair for pairs in decided.values() for pair in pairs]
    return {name: confusion_of(*zip(*pairs, strict=True)) for name, pairs in decided.items()}


def _split(labelled: Sequence[LabelledVerdict], part: Part) -> tuple[list[LabelledVerdict], list[LabelledVerdict]]:
    """The labels to choose on and the others; whole videos, by hash, so that it is the same split each time."""
    if part == "all":
        return list(labelled), []
    mask = calibration_mask([verdict.group for verdict in labelled])
    pairs = list(zip(labelled, mask.tolist(), strict=True))
    return [verdict for verdict, chosen in pairs if chosen], [verdict for verdict, chosen in pairs if not chosen]


def _thresholds(labelled: Sequence[LabelledVerdict], objective: Objective) -> DimensionThresholds:
    # Captions without a sentence cover nothing at any threshold.
    judged = [(v, v.probability) for v in labelled if v.probability is not None]
    with warnings.catch_warnings():
        # They stand in each threshold, and the report shows them.
        warnings.simplefilter("ignore", CalibrationWarning)
        return thresholds_by_dimension(
            [probability for _, probability in judged],
            [verdict.covered for verdict, _ in judged],
            [verdict.dimension for verdict, _ in judged],
            objective,
            groups=[verdict.group for verdict, _ in judged],
        )


def _rows(
    found: DimensionThresholds, scope: Literal["dataset", "shard"], shard: int | None, objective: str, part: Part
) -> list[LabelThreshold]:
    """What is stored; of a shard only thresholds of a dimension's own labels."""
    return [
        LabelThreshold(scope, shard, name, objective, each.value, each.n, each.n_positive, _provenance(each, part))
        for name, each in found.by_dimension.items()
        if each.value is not None and not (scope == "shard" and each.pooled)
    ]


def _provenance(threshold: Threshold, part: Part) -> dict[str, Any]:
    interval, counts = threshold.interval, threshold.counts
    return {
        "labels": MANIFEST_LABELS,
        "videos": part,
        "pooled": threshold.pooled,
        "interval": asdict(interval) if interval else None,
        "f1": counts.f1 if counts else None,
        "mcc": counts.mcc if counts else None,
        "warnings": list(threshold.warnings),
    }


def _why_none(dataset: str, labelled: Sequence[LabelledVerdict], pooled: Threshold) -> str:
    if not labelled:
        return (
            f"{dataset} has no labels on keypoints with verdicts: ingest keypoint_labels, then score with ecs; until "
            "then the verifier's default threshold counts"
        )
    if pooled.status != "no_labels":
        return (
            f"the {pooled.n} labels of {dataset} to choose thresholds on give none for {pooled.objective}: "
            f"{pooled.reason}; label more captions"
        )
    n_judged = sum(verdict.probability is not None for verdict in labelled)
    if n_judged == 0:
        return f"no labelled caption of {dataset} has a sentence to judge: label captions that say something"
    return (
        f"none of the {n_judged} labels of {dataset} lies in the fifth of the videos that thresholds are chosen on: "
        "calibrate on all of them with --labels all"
    )
