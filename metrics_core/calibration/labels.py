"""Scores with their labels, checked and sorted, and the split of videos into those that calibrate and the other
ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metrics_core.arrays import BoolArray, FloatArray, IntArray, number_groups
from metrics_core.calibration.result import Confusion

CALIBRATION_SHARE = 0.20


@dataclass(frozen=True, slots=True, eq=False)
class LabelledScores:
    """Scores (n,) sorted from the highest down, with their labels (n,) of 0 (no) and 1 (yes). groups: (n,), the number
    of each label's group, such as its video.
    """

    scores: FloatArray
    labels: IntArray
    groups: IntArray

    @property
    def n_positive(self) -> int:
        """The number of labels that say yes."""
        return int(self.labels.sum())

    def select_rows(self, rows: BoolArray) -> LabelledScores:
        """Return the scores, labels and groups at the positions where `rows` (n,) is True, in their order."""
        return LabelledScores(self.scores[rows], self.labels[rows], self.groups[rows])

    def count_confusion(self, threshold: float) -> Confusion:
        """Count how the predictions, yes for score >= threshold, agree with the labels: true and false positives, false
        and true negatives.
        """
        n_predicted = int((self.scores >= threshold).sum())
        hits = int(self.labels[:n_predicted].sum())
        misses = self.n_positive - hits
        return Confusion(hits, n_predicted - hits, misses, self.labels.size - n_predicted - misses)


def sort_labelled_scores(
    scores: npt.ArrayLike, labels: npt.ArrayLike, groups: Sequence[object] | None
) -> tuple[LabelledScores, IntArray]:
    """Sort scores (n,) and their labels (n,) from the highest score down, and also return the positions (n,) that sort
    them. groups: (n,), the group of every label; None makes every label a group of its own. Raises ValueError for
    shapes that do not fit, a score that is not finite, and a label that is neither yes nor no; the text has the
    position.
    """
    values, answers = np.asarray(scores, dtype=np.float64), np.asarray(labels)
    if values.ndim != 1 or answers.shape != values.shape:
        raise ValueError(
            f"scores have shape {values.shape}, labels {answers.shape}: give one label for each score, (n,)."
        )
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ValueError(f"score {bad[0]} is {values[bad[0]]}: give finite scores, and leave out what was not scored.")
    odd = np.flatnonzero(~((answers == 0) | (answers == 1)))
    if odd.size:
        raise ValueError(f"label {odd[0]} is {answers[odd[0]]}: give True or False, and leave out what has no label.")
    order = np.argsort(-values, kind="stable")
    if groups is not None and len(groups) != values.size:
        raise ValueError(f"There are {len(groups)} groups for {values.size} labels: give one for each label.")
    numbers = np.arange(values.size) if groups is None else number_groups(groups)
    return LabelledScores(values[order], answers[order].astype(np.int64), numbers[order]), order


def compute_split_position(key: str) -> float:
    """Compute the position of a key in [0, 1] for a split by hash: the first 64 bits of its SHA-256 (UTF-8), divided by
    2^64. Raises ValueError for an empty key.

    >>> round(compute_split_position("v_uqiMw7tQ1Cc"), 6)
    0.067378
    """
    if not key:
        raise ValueError("The key is empty: give the id of the source video, or the video's own where it has none.")
    return int.from_bytes(hashlib.sha256(key.encode("utf-8")).digest()[:8], "big") / 2**64


def mark_calibration_keys(keys: Iterable[str], share: float = CALIBRATION_SHARE) -> BoolArray:
    """Mark the keys whose labels calibrate, as a mask (n,): those with a `compute_split_position` below `share`, by
    default about 20 %. keys: ids of source videos, or of videos without a source. Raises ValueError for an empty key
    and for a share outside [0, 1].

    The split is by hash, so that adding a video never moves another one. Two parts of one film on both sides of the
    split would leak, so they share the key of their source.

    >>> mark_calibration_keys(["v_uqiMw7tQ1Cc", "v_FsS_NCZEfaI"]).tolist()
    [True, False]
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share is {share}: give the share of keys to calibrate with, in [0, 1].")
    return np.array([compute_split_position(key) < share for key in keys], dtype=np.bool_)
