"""Preferences between two captions of a video: how often a metric prefers the caption that people prefer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.pairs import TOLERANCE
from metrics_core.agreement.row import ONE_RATER, AgreementRow, build_agreement_rows
from metrics_core.arrays import BoolArray, FloatArray, IntArray, number_groups
from metrics_core.intervals import JackknifeStatistics, draw_blocks, jackknife

PREFERENCE_ACCURACY = "preference_accuracy"
"""The share of people's preferences for a caption in which the metric's value of that caption is the higher one.

Where the metric gives both captions the same value it is half right, so a coin has 0.5. Answers that prefer neither
caption order nothing and are left out, as are pairs where the metric lacks a value.
"""


@dataclass(frozen=True)
class Preferences:
    """People's n answers to "which of two captions of a video is better", as arrays (n,). first, second: positions of
    the two captions among the items. better: 1 where the first is better, -1 where the second is, 0 where neither is.
    rater, video: numbers of the person who answered and of the video.
    """

    first: IntArray
    second: IntArray
    better: IntArray
    rater: IntArray
    video: IntArray

    @classmethod
    def build(
        cls,
        first: npt.ArrayLike,
        second: npt.ArrayLike,
        better: npt.ArrayLike,
        raters: Sequence[object],
        videos: Sequence[object],
    ) -> Preferences:
        """Build Preferences from sequences of equal length, numbering raters and videos from 0. Raises ValueError for
        sequences of different lengths, and for answers in `better` other than -1 (second is better), 0 (neither) and 1
        (first is better).
        """
        sides = [np.asarray(side, dtype=np.int64).reshape(-1) for side in (first, second, better)]
        sides += [number_groups(raters), number_groups(videos)]
        if len({side.size for side in sides}) > 1:
            raise ValueError(
                f"first, second, better, raters and videos have {[side.size for side in sides]} entries: give as many "
                "of each as answers."
            )
        if sides[2].size and np.abs(sides[2]).max() > 1:
            raise ValueError("an answer is not -1, 0 or 1: give which caption is better, or 0 for neither.")
        return cls(*sides)

    def filter_rows(self, rows: BoolArray) -> Preferences:
        """Return the answers for which the mask `rows` (n,) is True, in their order."""
        return Preferences(*(side[rows] for side in (self.first, self.second, self.better, self.rater, self.video)))


def compute_preference_accuracy(values: FloatArray, preferences: Preferences, seed: int = 0) -> JackknifeStatistics:
    """Compute in which share of people's preferences the metric gives the preferred caption the higher value, in [0,
    1], where a tie counts half; also with each block of videos left out. values: (items,), NaN for none. n counts the
    answers that prefer one of two captions with values, n_undefined the other answers.

    >>> preferences = Preferences.build([0, 0, 1], [1, 2, 2], [1, -1, 0], ["ann"] * 3, ["v", "w", "w"])
    >>> accuracy = compute_preference_accuracy(np.array([0.9, 0.2, 0.4]), preferences)
    >>> accuracy.values, accuracy.n, accuracy.n_undefined
    ({'preference_accuracy': 0.5}, {'preference_accuracy': 2}, {'preference_accuracy': 1})
    """
    return _average_grades(grade_answers(values, preferences), preferences, seed)


def grade_answers(values: FloatArray, preferences: Preferences) -> FloatArray:
    """Return how right a metric is in every answer (n,): 1, 0, or half where it ties both captions; NaN where it lacks
    a value, and where the answer prefers neither caption. values: (items,).
    """
    gap = values[preferences.first] - values[preferences.second]
    right: FloatArray = np.where(np.abs(gap) <= TOLERANCE, 0.5, np.sign(gap) == preferences.better)
    return np.where(np.isfinite(gap) & (preferences.better != 0), right, np.nan)


def compute_preference_ceiling(preferences: Preferences, seed: int = 0) -> JackknifeStatistics:
    """Compute the human ceiling of preferences: how often a rater prefers the caption that another rater of the same
    pair prefers, also with each block of videos left out. n counts the answers that prefer a caption where another
    answer on the pair does, too; n_undefined counts the other answers. The value is None without such answers.
    """
    return _average_grades(_grade_raters(preferences), preferences, seed)


def _grade_raters(preferences: Preferences) -> FloatArray:
    """Return for every answer (n,) the share of the other answers on the pair that prefer the same caption; NaN for an
    answer that prefers neither, and without another that prefers one.
    """
    pair = number_groups(list(zip(preferences.first.tolist(), preferences.second.tolist(), strict=True)))
    size = int(pair.max(initial=-1)) + 1
    up, down = (np.bincount(pair, preferences.better == sign, size) for sign in (1, -1))
    same, others = np.where(preferences.better > 0, up[pair], down[pair]) - 1, (up + down)[pair] - 1
    return np.where((preferences.better != 0) & (others > 0), same / np.maximum(others, 1), np.nan)


def _average_grades(right: FloatArray, preferences: Preferences, seed: int) -> JackknifeStatistics:
    """Average the grades (n,) that are not NaN, in all and without each block."""
    counts = np.isfinite(right)
    kept, block = right[counts], draw_blocks(preferences.video, seed)[counts]
    statistics = jackknife(lambda rows: {PREFERENCE_ACCURACY: float(kept[rows].mean()) if rows.size else None}, block)
    return replace(statistics, n_undefined={PREFERENCE_ACCURACY: int((~counts).sum())})


def build_preference_rows(
    metrics: Mapping[str, npt.ArrayLike],
    baselines: Mapping[str, npt.ArrayLike],
    preferences: Preferences,
    aspect: str,
    *,
    seed: int = 0,
) -> tuple[AgreementRow, ...]:
    """Build the agreement rows of one aspect's preferences: a row for each metric, then for each baseline, then for the
    raters themselves where a pair has answers of two raters. The value is the share of people's preferences that the
    metric shares. metrics, baselines: values (items,) by name, NaN for none.

    >>> preferences = Preferences.build([0, 0], [1, 1], [1, 1], ["ann", "bob"], ["v", "v"])
    >>> rows = build_preference_rows({"m": [2, 1]}, {"length": [1, 1]}, preferences, "coverage")
    >>> [(row.metric, row.value, row.n) for row in rows]
    [('m', 1.0, 2), ('length', 0.5, 2), ('one rater', 1.0, 2)]
    """
    grades = {
        name: grade_answers(np.asarray(values, np.float64), preferences)
        for name, values in {**metrics, **baselines}.items()
    }
    if np.isfinite(of_raters := _grade_raters(preferences)).any():
        grades[ONE_RATER] = of_raters
    return tuple(
        row
        for name, right in grades.items()
        for row in build_agreement_rows(
            (name, aspect, "pairs"),
            _average_grades(right, preferences, seed),
            np.unique(preferences.video[np.isfinite(right)]).size,
            baseline=name in baselines,
        )
    )
