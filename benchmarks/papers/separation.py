"""How well a metric tells valid from invalid texts: area under the curve, and accuracy at a chosen threshold."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from metrics_core.agreement import build_label_rows
from metrics_core.arrays import BoolArray, FloatArray, IntArray, number_groups
from metrics_core.calibration import find_best_threshold
from metrics_core.intervals import jackknife_estimate

FOLDS = 10


@dataclass(frozen=True)
class Figure:
    """A value with its 95 % interval over groups of texts."""

    value: float
    low: float | None
    high: float | None
    n: int


def area(scores: FloatArray, valid: BoolArray, groups: Sequence[str]) -> Figure:
    """The chance that a valid text scores higher than an invalid one, ties counting half; with an interval."""
    group = number_groups(groups)
    each = np.eye(int(group.max()) + 1)
    member = each[group]
    gaps = scores[valid][:, None] - scores[~valid][None, :]
    # Pairs of a valid text of one group and an invalid one of another that are in order.
    ordered = member[valid].T @ ((gaps > 0) + (gaps == 0) / 2) @ member[~valid]
    sizes = member[valid].sum(axis=0), member[~valid].sum(axis=0)

    def of(weights: FloatArray) -> FloatArray:
        """The area where each group counts so often (rows, groups)."""
        inside: FloatArray = ((weights @ ordered) * weights).sum(axis=1)
        with np.errstate(invalid="ignore"):
            return inside / ((weights @ sizes[0]) * (weights @ sizes[1]))

    value = float(of(np.ones((1, len(each))))[0])
    found = jackknife_estimate(value, of(1 - each), bounds=(0.0, 1.0))
    return Figure(value, found.low, found.high, scores.size)


def accuracy(scores: FloatArray, valid: BoolArray, groups: Sequence[str]) -> Figure:
    """The share of texts on the right side of a threshold that the other folds' texts chose by Youden's index."""
    predicted = scores >= thresholds(scores, valid, groups)
    rows = build_label_rows({"metric": predicted}, valid, list(groups))
    row = next(row for row in rows if (row.metric, row.statistic) == ("metric", "accuracy"))
    assert row.value is not None
    return Figure(row.value, row.low, row.high, row.n)


def thresholds(scores: FloatArray, valid: BoolArray, groups: Sequence[str]) -> FloatArray:
    """For each text the threshold with the best recall less false positive rate on the texts of other folds."""
    fold = folds_of(groups)
    levels = np.empty(scores.size)
    for number in range(FOLDS):
        others = fold != number
        # A metric that separates nothing has an odd threshold, and its accuracy says so.
        threshold = find_best_threshold(scores[others], valid[others], "youden")
        if threshold.at_least is None:
            raise ValueError(f"fold {number} leaves texts of one kind only: give both valid and invalid ones.")
        levels[~others] = threshold.at_least
    return levels


def folds_of(groups: Sequence[str]) -> IntArray:
    """The fold of each text, by the hash of its group, so that a group lies in one fold."""
    digests = {group: hashlib.sha256(group.encode()).digest() for group in dict.fromkeys(groups)}
    return np.array([int.from_bytes(digests[group][:8], "big") % FOLDS for group in groups], dtype=np.int64)
