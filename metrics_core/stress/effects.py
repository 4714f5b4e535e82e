"""How a metric's values change where captions are rewritten, with intervals over videos, and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from metrics_core.arithmetic import correct_defined_p_values
from metrics_core.arrays import FloatArray, number_groups
from metrics_core.calibration.rated_search import FEWEST_VIDEOS
from metrics_core.intervals import Estimate, draw_blocks, jackknife_estimate, jackknife_means, jackknife_p_value

Conclusion = Literal["gains_from_nothing", "does_not_lose", "fine", "open"]
SIGNIFICANCE_LEVEL = 0.05
SMALL_SHARE = 0.1
"""A change is small if it is less than this share of the standard deviation of the dataset's values."""
# Values and ranks that differ by less are equal but for the rounding of models.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class ValueChanges:
    """The values of captions before and after one kind of rewrite.

    rewrite, keeps_truth: name of the kind, and see `RewriteKind`. before, after: values (n,), finite. videos: the video
    of every caption (n,).
    """

    rewrite: str
    keeps_truth: bool
    before: Sequence[float]
    after: Sequence[float]
    videos: Sequence[object]


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one kind of rewrite (`rewrite`) on a metric. keeps_truth: True for a rewrite that adds no truth,
    False for one that takes truth away. n, n_videos: captions with a value before and after, and their videos.

    change: mean of value after less value before, with its 95 % interval from low to high. rank_change: the same of the
    percentile among all values of the dataset, from 0 to 100. rise_share, fall_share: shares of the captions whose
    value rises and falls, 0 to 1. p_value: how often chance gives such a gain, or such a loss where truth is taken away
    as far above the smallest loss that counts, corrected for the number of kinds. These are None where undefined.

    n_not_applicable: captions that the rewrite does not fit. unscored: rewrites without a value, by status.
    best_look_alike, all_look_alike: shares of the best eighth and of all captions that look so without a rewrite; None
    where there is no simple sign. The caller adds these four.
    """

    rewrite: str
    keeps_truth: bool
    conclusion: Conclusion
    n: int
    n_videos: int
    change: float | None
    low: float | None
    high: float | None
    rank_change: float | None
    rank_low: float | None
    rank_high: float | None
    rise_share: float | None
    fall_share: float | None
    p_value: float | None
    n_not_applicable: int = 0
    unscored: Mapping[str, int] = field(default_factory=dict)
    best_look_alike: float | None = None
    all_look_alike: float | None = None


def compute_small_change(values: FloatArray) -> float:
    """Compute the smallest change of a value that counts: SMALL_SHARE of the standard deviation of all values (n,).

    >>> compute_small_change(np.array([0.0, 1.0]))
    0.05
    """
    return SMALL_SHARE * float(values.std()) if values.size else 0.0


def _compute_percentiles(values: FloatArray, among: FloatArray) -> FloatArray:
    """Compute the percentile, 0 to 100, of values (n,) among other ones (m,); equal ones count half.

    >>> _compute_percentiles(np.array([0.0, 2.0, 9.0]), np.array([1.0, 2.0])).tolist()
    [0.0, 75.0, 100.0]
    """
    ordered = np.sort(among)
    below = np.searchsorted(ordered, values - _ROUNDING, side="left")
    up_to = np.searchsorted(ordered, values + _ROUNDING, side="right")
    percentiles: FloatArray = 50.0 * (below + up_to) / max(1, among.size)
    return percentiles


def compute_effects(kinds: Sequence[ValueChanges], values: FloatArray, seed: int = 0) -> list[Effect]:
    """Compute the effect of every kind of rewrite, in order; p-values are corrected for their number by Holm.

    values: the metric's values of the whole dataset (m,), which ranks and the smallest change that counts come from.
    A kind that keeps truth gains from nothing where the mean gain counts and is more than chance, and is fine where
    the interval leaves no gain that counts. A kind that takes truth away does not lose where a loss that counts is
    ruled out by more than chance, and is fine where the mean loss counts and the interval lies below 0. All else is
    open, and so is a kind with fewer than FEWEST_VIDEOS videos.
    """
    small = max(compute_small_change(values), _ROUNDING)
    measured = [_measure(kind, values, small, seed) for kind in kinds]
    p_values = correct_defined_p_values([p for *_, p in measured])
    return [
        Effect(
            kind.rewrite,
            kind.keeps_truth,
            _conclude(kind, change, p_value, small),
            len(kind.before),
            len(set(kind.videos)),
            *(change.value, change.low, change.high),
            *(rank_change.value, rank_change.low, rank_change.high),
            _compute_share(kind, 1),
            _compute_share(kind, -1),
            p_value,
        )
        for kind, (change, rank_change, _), p_value in zip(kinds, measured, p_values, strict=True)
    ]


def _measure(
    kind: ValueChanges, values: FloatArray, small: float, seed: int
) -> tuple[Estimate, Estimate, float | None]:
    """The mean changes of value and rank, and the p-value of the change; undefined without a caption."""
    before, after = np.array(kind.before, dtype=np.float64), np.array(kind.after, dtype=np.float64)
    if not before.size:
        return Estimate(None, None, None), Estimate(None, None, None), None
    block = draw_blocks(number_groups(kind.videos), seed)
    change = after - before
    rank_change = _compute_percentiles(after, values) - _compute_percentiles(before, values)
    without = jackknife_means(change, block)
    mean, infinite = float(change.mean()), (-math.inf, math.inf)
    least = 0.0 if kind.keeps_truth else -small
    p_value = jackknife_p_value(mean - least, without - least) if len(set(kind.videos)) >= FEWEST_VIDEOS else None
    return (
        jackknife_estimate(mean, without, bounds=infinite),
        jackknife_estimate(float(rank_change.mean()), jackknife_means(rank_change, block), bounds=infinite),
        p_value,
    )


def _conclude(kind: ValueChanges, change: Estimate, p_value: float | None, small: float) -> Conclusion:
    if change.value is None or change.low is None or change.high is None or p_value is None:
        return "open"
    is_certain = p_value < SIGNIFICANCE_LEVEL
    if kind.keeps_truth:
        if is_certain and change.value >= small:
            return "gains_from_nothing"
        return "fine" if change.high < small else "open"
    if is_certain and change.value > -small:
        return "does_not_lose"
    return "fine" if change.value <= -small and change.high < 0 else "open"


def _compute_share(kind: ValueChanges, sign: int) -> float | None:
    moved = [sign * (after - before) > _ROUNDING for before, after in zip(kind.before, kind.after, strict=True)]
    return sum(moved) / len(moved) if moved else None
