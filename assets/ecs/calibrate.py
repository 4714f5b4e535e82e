"""Choosing the thresholds of a dataset's dimensions on labels: rows in, one pure function, rows out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy.engine import Engine

from assets.scores.base import Scorer
from assets.scores.pending import register
from db.evidence.verdicts import MANIFEST_LABELS, LabelledVerdict, labelled_verdicts
from db.manifest.datasets import Dataset
from db.scores.thresholds import LabelThreshold, replace_label_thresholds
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
    """A dataset has no labels to choose a threshold on."""

    plain = True


@dataclass(frozen=True, slots=True)
class Calibration:
    """The thresholds of a dataset's dimensions, and how well they decide the other labels.

    source: the source of the labels, the manifest or a judge. by_dimension: the thresholds, with intervals and counts
    on the labels that they were chosen on. evaluated: the confusion on the other labels, by dimension and in total;
    empty where no other labels are left. n_shard_thresholds: the number of thresholds stored for single shards.
    """

    objective: Objective
    part: Part
    source: str
    by_dimension: Mapping[str, Threshold]
    evaluated: Mapping[str, Confusion]
    n_shard_thresholds: int

    @property
    def warnings(self) -> list[str]:
        """Return the warnings about all thresholds. Every sentence begins with its dimension."""
        return [f"{name}: {text}" for name, threshold in self.by_dimension.items() for text in threshold.warnings]


def calibrate(
    engine: Engine,
    scorer: Scorer,
    dataset: Dataset,
    objective: Objective,
    part: Part,
    source: str = MANIFEST_LABELS,
) -> Calibration:
    """Choose a threshold per dimension on the labels of a fifth of the videos, or of all, and put them in force.

    Only the labels of one source count: of the manifest, or of one judge. The thresholds replace all thresholds of this
    dataset that were chosen on labels before. A shard with enough labels gets thresholds of its own as well. They show
    whether shards differ, and no score uses them. Raises NoLabels, and then changes nothing.
    """
    scorer_id = register(engine, scorer)
    with engine.connect() as connection:
        labelled = labelled_verdicts(connection, scorer_id, dataset.dataset_id, source)
    # A lower bound says too little about where a threshold should lie. Leaving lower bounds out would be worse: only
    # covered keypoints have one, so the uncovered ones would remain.
    if any(verdict.is_lower_bound for verdict in labelled):
        raise NoLabels(
            f"an early exit left lower bounds beside labels of {dataset.name}: score it without early exit first"
        )
    chosen, others = _split(labelled, part)
    thresholds = _thresholds(chosen, objective)
    if thresholds.pooled.value is None:
        raise NoLabels(_why_none(dataset.name, labelled, thresholds.pooled, source))
    by_shard = {
        shard: _thresholds([verdict for verdict in chosen if verdict.shard == shard], objective)
        for shard in sorted({verdict.shard for verdict in chosen})
    }
    origin = {"labels": source, "videos": part}
    rows = [
        *_rows(thresholds, "dataset", None, objective, origin),
        *(row for shard, own in by_shard.items() for row in _rows(own, "shard", shard, objective, origin)),
    ]
    with engine.begin() as connection:
        replace_label_thresholds(connection, scorer_id, dataset.dataset_id, rows)
    n_of_shards = sum(row.scope == "shard" for row in rows)
    by_dimension = thresholds.by_dimension
    return Calibration(objective, part, source, by_dimension, evaluate(others, by_dimension), n_of_shards)


def evaluate(labelled: Iterable[LabelledVerdict], thresholds: Mapping[str, Threshold]) -> dict[str, Confusion]:
    """Compare decisions at the thresholds with labels, by dimension and in total; {} without labels."""
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
    """Split the labels into those to choose thresholds on and the others.

    A hash decides about whole videos, so the split is always the same.
    """
    if part == "all":
        return list(labelled), []
    mask = calibration_mask([verdict.group for verdict in labelled])
    pairs = list(zip(labelled, mask.tolist(), strict=True))
    return [verdict for verdict, chosen in pairs if chosen], [verdict for verdict, chosen in pairs if not chosen]


def _thresholds(labelled: Sequence[LabelledVerdict], objective: Objective) -> DimensionThresholds:
    # Captions without a sentence cover nothing at any threshold.
    judged = [(v, v.probability) for v in labelled if v.probability is not None]
    with warnings.catch_warnings():
        # Every threshold keeps its warnings, and the report shows them.
        warnings.simplefilter("ignore", CalibrationWarning)
        return thresholds_by_dimension(
            [probability for _, probability in judged],
            [verdict.covered for verdict, _ in judged],
            [verdict.dimension for verdict, _ in judged],
            objective,
            groups=[verdict.group for verdict, _ in judged],
        )


def _rows(
    thresholds: DimensionThresholds,
    scope: Literal["dataset", "shard"],
    shard: int | None,
    objective: str,
    origin: Mapping[str, str],
) -> list[LabelThreshold]:
    """Make the rows to store. A shard keeps only thresholds chosen on the dimension's own labels."""
    return [
        LabelThreshold(
            scope, shard, name, objective, chosen.value, chosen.n, chosen.n_positive, _details(chosen, origin)
        )
        for name, chosen in thresholds.by_dimension.items()
        if chosen.value is not None and not (scope == "shard" and chosen.pooled)
    ]


def _details(threshold: Threshold, origin: Mapping[str, str]) -> dict[str, Any]:
    interval, counts = threshold.interval, threshold.counts
    return {
        **origin,
        "pooled": threshold.pooled,
        "interval": asdict(interval) if interval else None,
        "f1": counts.f1 if counts else None,
        "mcc": counts.mcc if counts else None,
        "warnings": list(threshold.warnings),
    }


def _why_none(dataset: str, labelled: Sequence[LabelledVerdict], pooled: Threshold, source: str) -> str:
    if not labelled and source != MANIFEST_LABELS:
        return f"{dataset} has no labels of {source} on keypoints with verdicts: let it judge more captions"
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
