"""Two captions side by side: does a metric prefer the one that people prefer?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.paired_test import permutation_p_value
from metrics_core.agreement.pairs import TOLERANCE
from metrics_core.agreement.row import ONE_RATER, AgreementRow, build_agreement_rows
from metrics_core.arithmetic import correct_defined_p_values
from metrics_core.arrays import BoolArray, FloatArray, IntArray, number_groups
from metrics_core.intervals import LEVEL, Estimate, JackknifeStatistics, draw_blocks, jackknife, jackknife_estimate

SIDE_BY_SIDE = "side by side"
"""The grouping of rows about preferences."""
PREFERENCE_ACCURACY = "preference_accuracy"
"""Of the answers that prefer a caption, the share where the metric's value of that caption is the higher one.

Where the metric ties both it is half right, so a coin has 0.5. Answers that call both alike order nothing and are
left out, as are pairs that the metric has no two values for.
"""


@dataclass(frozen=True)
class Preferences:
    """n answers to "which of two captions of a video is better", all (n,).

    first, second: positions of the captions among the items. better: 1 where the first is, -1 where the second is, 0
    where neither is. rater, video: who answered, and about which video; intervals leave out videos.
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
        """Check and number. Raises ValueError for sides of different lengths, and answers other than -1, 0 and 1."""
        sides = [np.asarray(side, dtype=np.int64).reshape(-1) for side in (first, second, better)]
        sides += [number_groups(raters), number_groups(videos)]
        if len({side.size for side in sides}) > 1:
            raise ValueError(f"there are {[side.size for side in sides]} entries: give as many of each as answers.")
        if sides[2].size and np.abs(sides[2]).max() > 1:
            raise ValueError("an answer is none of -1, 0 and 1: say which caption is better, or neither.")
        return cls(*sides)

    def filter_rows(self, rows: BoolArray) -> Preferences:
        """Some of the answers."""
        return Preferences(*(side[rows] for side in (self.first, self.second, self.better, self.rater, self.video)))


def compute_preference_accuracy(values: FloatArray, preferences: Preferences, seed: int = 0) -> JackknifeStatistics:
    """ACCURACY of a metric with values (items,), NaN for none, and without each block of videos.

    n: the answers that count. n_undefined: the other ones.

    >>> preferences = Preferences.build([0, 0, 1], [1, 2, 2], [1, -1, 0], ["ann"] * 3, ["v", "w", "w"])
    >>> found = compute_preference_accuracy(np.array([0.9, 0.2, 0.4]), choices)
    >>> found.values, found.n, found.n_undefined
    ({'preference_accuracy': 0.5}, {'preference_accuracy': 2}, {'preference_accuracy': 1})
    """
    right = _grade_answers(values, preferences)
    return _average_grades(right, np.isfinite(right) & (preferences.better != 0), draw_blocks(preferences.video, seed))


def _grade_answers(values: FloatArray, preferences: Preferences) -> FloatArray:
    """How right a metric is with each answer (n,): 1, 0, and half where it ties both; NaN where it lacks a value."""
    gap = values[preferences.first] - values[preferences.second]
    right: FloatArray = np.where(np.abs(gap) <= TOLERANCE, 0.5, np.sign(gap) == preferences.better)
    return np.where(np.isfinite(gap), right, np.nan)


def compute_preference_ceiling(preferences: Preferences, seed: int = 0) -> JackknifeStatistics:
    """The human ceiling: how often one rater prefers the caption that another rater of the same pair prefers.

    n: the answers that prefer a caption where another rater's answer does, too.
    """
    pair = number_groups(list(zip(preferences.first.tolist(), preferences.second.tolist(), strict=True)))
    size = int(pair.max(initial=-1)) + 1
    up, down = (np.bincount(pair, preferences.better == sign, size) for sign in (1, -1))
    same, others = np.where(preferences.better > 0, up[pair], down[pair]) - 1, (up + down)[pair] - 1
    counts = (preferences.better != 0) & (others > 0)
    return _average_grades(same / np.maximum(others, 1), counts, draw_blocks(preferences.video, seed))


def _average_grades(right: FloatArray, counts: BoolArray, block: IntArray) -> JackknifeStatistics:
    """The mean of what counts (n,), and without each block."""
    kept = right[counts]
    found = jackknife(
        lambda rows: {PREFERENCE_ACCURACY: float(kept[rows].mean()) if rows.size else None}, block[counts]
    )
    return JackknifeStatistics(
        found.values, found.jackknife_values, found.n, {PREFERENCE_ACCURACY: int((~counts).sum())}, found.n_blocks
    )


def build_preference_rows(
    metrics: Mapping[str, npt.ArrayLike],
    baselines: Mapping[str, npt.ArrayLike],
    preferences: Preferences,
    aspect: str,
    *,
    level: float = LEVEL,
    seed: int = 0,
) -> tuple[AgreementRow, ...]:
    """Hold every metric and baseline (items,) against people's answers about one aspect, and the raters, too.

    >>> preferences = Preferences.build([0, 0], [1, 1], [1, 1], ["ann", "bob"], ["v", "v"])
    >>> [(row.metric, row.value, row.n) for row in build_preference_rows({"m": [2, 1]}, {"length": [1, 1]}, choices, "coverage")]
    [('m', 1.0, 2), ('length', 0.5, 2), ('one rater', 1.0, 2)]
    """
    found = {
        name: compute_preference_accuracy(np.asarray(v, np.float64), preferences, seed)
        for name, v in {**metrics, **baselines}.items()
    }
    if (ceiling := compute_preference_ceiling(preferences, seed)).n[PREFERENCE_ACCURACY]:
        found[ONE_RATER] = ceiling
    return tuple(
        row
        for name, each in found.items()
        for row in build_agreement_rows((name, aspect, SIDE_BY_SIDE), each, level, baseline=name in baselines)
    )


@dataclass(frozen=True, slots=True)
class PreferenceComparison:
    """Two scorers against people's answers about one aspect, on the n answers that prefer a caption both scored.

    difference: of ACCURACY, second less first, without the same videos. p: two-sided, of equal shares, by swapping what
    the two scorers prefer video by video; None where undefined and for a single video. p_holm: corrected by Holm for
    the number of aspects.
    """

    aspect: str
    n: int
    n_videos: int
    n_raters: int
    first: Estimate
    second: Estimate
    difference: Estimate
    p: float | None
    p_holm: float | None


def compare_preferences(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    by_aspect: Mapping[str, Preferences],
    *,
    n_resamples: int = 1000,
    seed: int = 0,
) -> tuple[PreferenceComparison, ...]:
    """Compare how often two scorers, with values (items,), NaN for none, prefer what people prefer.

    n_resamples: the swaps of the test.

    >>> preferences = Preferences.build([0, 2], [1, 3], [1, -1], ["ann"] * 2, ["v", "w"])
    >>> found = compare_preferences([2, 1, 1, 2], [2, 1, 2, 1], {"coverage": choices})[0]
    >>> found.first.value, found.second.value, found.difference.value, found.n_videos
    (1.0, 0.5, -0.5, 2)
    """
    sides = [np.asarray(side, dtype=np.float64) for side in (first, second)]
    found = [_compare_aspect(aspect, sides, each, n_resamples, seed) for aspect, each in by_aspect.items()]
    corrected = correct_defined_p_values([each.p for each in found])
    return tuple(replace(each, p_holm=p) for each, p in zip(found, corrected, strict=True))


def _compare_aspect(
    aspect: str, sides: Sequence[FloatArray], preferences: Preferences, n_resamples: int, seed: int
) -> PreferenceComparison:
    """Compare two scorers by one aspect, without a correction."""
    right = [_grade_answers(side, preferences) for side in sides]
    rows = np.isfinite(right[0]) & np.isfinite(right[1]) & (preferences.better != 0)
    kept = preferences.filter_rows(rows)
    one, other = (compute_preference_accuracy(side, kept, seed) for side in sides)
    video = number_groups(kept.video.tolist())
    n_videos = int(video.max(initial=-1)) + 1
    gains = np.bincount(video, (right[1] - right[0])[rows], n_videos)

    def difference(swapped: BoolArray) -> FloatArray:
        return np.asarray(np.where(swapped, -gains, gains).sum(axis=-1))

    p = permutation_p_value(difference, n_videos, n_items=n_videos, n_resamples=n_resamples, seed=seed)
    estimates = (
        one.compute_estimate(PREFERENCE_ACCURACY),
        other.compute_estimate(PREFERENCE_ACCURACY),
        jackknife_estimate(*other.subtract(one, PREFERENCE_ACCURACY)),
    )
    return PreferenceComparison(aspect, kept.better.size, n_videos, np.unique(kept.rater).size, *estimates, p, None)
