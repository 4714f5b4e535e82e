"""Scores with their labels: checked and sorted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.calibration.result import Confusion

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """Scores (n,), labels (n,) of 0 and 1, and the number of each label's group (n,), sorted by falling score."""

    scores: FloatArray
    labels: IntArray
    groups: IntArray

    @property
    def n_positive(self) -> int:
        """Labels that say yes."""
        return int(self.labels.sum())

    def only(self, rows: npt.NDArray[np.bool_]) -> Labelled:
        """The labels at some of the sorted positions."""
        return Labelled(self.scores[rows], self.labels[rows], self.groups[rows])

    def confusion(self, threshold: float) -> Confusion:
        """How the predictions score >= threshold agree with the labels."""
        n_predicted = int((self.scores >= threshold).sum())
        hits = int(self.labels[:n_predicted].sum())
        misses = self.n_positive - hits
        return Confusion(hits, n_predicted - hits, misses, self.labels.size - n_predicted - misses)


def checked_labels(
    scores: npt.ArrayLike, labels: npt.ArrayLike, groups: Sequence[object] | None
) -> tuple[Labelled, IntArray]:
    """The labels sorted, and the order that sorted them; without groups, each label is a group of its own.

    Raises ValueError, naming the row, for a score that is not finite or a label that is neither yes nor no.
    """
    values, given = np.asarray(scores, dtype=np.float64), np.asarray(labels)
    if values.ndim != 1 or given.shape != values.shape:
        raise ValueError(
            f"scores have shape {values.shape}, labels {given.shape}: give one label for each score, (n,)."
        )
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ValueError(f"score {bad[0]} is {values[bad[0]]}: give finite scores, and leave out what was not scored.")
    odd = np.flatnonzero(~((given == 0) | (given == 1)))
    if odd.size:
        raise ValueError(f"label {odd[0]} is {given[odd[0]]}: give True or False, and leave out what has no label.")
    order = np.argsort(-values, kind="stable")
    if groups is not None and len(groups) != values.size:
        raise ValueError(f"There are {len(groups)} groups for {values.size} labels: give one for each label.")
    numbers = np.arange(values.size) if groups is None else numbered(groups)
    return Labelled(values[order], given[order].astype(np.int64), numbers[order]), order


def numbered(groups: Sequence[object]) -> IntArray:
    """The number of each label's group, from 0 in order of appearance."""
    numbers = {group: i for i, group in enumerate(dict.fromkeys(groups))}
    return np.array([numbers[group] for group in groups], dtype=np.int64)
