"""While people rate: who leads so far, how many more ratings would tell the two leaders apart, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.baseline_comparison import compute_ceiling
from metrics_core.agreement.conclusions import NEAR_RATER
from metrics_core.agreement.groupings import compute_pooled
from metrics_core.agreement.inputs import build_inputs
from metrics_core.agreement.preferences import (
    PREFERENCE_ACCURACY,
    Preferences,
    compute_preference_accuracy,
    compute_preference_ceiling,
)
from metrics_core.agreement.raters import compute_mean_ratings, list_ceiling_raters
from metrics_core.agreement.row import KENDALL
from metrics_core.arrays import BoolArray, FloatArray
from metrics_core.calibration.rated_search import FEWEST_VIDEOS
from metrics_core.intervals import LEVEL, Estimate, JackknifeStatistics, jackknife_error, jackknife_estimate

POWER = 0.8
"""The chance with which the forecast number of ratings tells two metrics apart that differ as much as it seems."""
MAX_FORECAST = 10_000
"""More ratings than these are not forecast: a difference so near 0 says nothing about where it ends."""

LeadState = Literal["undefined", "few videos", "open", "apart", "alike"]


@dataclass(frozen=True, slots=True)
class Lead:
    """The best metric and the best of all others, on the n items that both have a value for, of n_videos videos.

    difference: first less second. state: "apart" where |difference| / standard error reaches what `compute_items_needed` asks
    for; "alike" where the interval lies within NEAR of 0; "few videos" below FEWEST_VIDEOS, where nothing is claimed;
    else "open". n_more: how many further items would tell them apart; None unless open, and beyond MOST.
    """

    first: str
    second: str
    difference: Estimate
    n: int
    n_videos: int
    state: LeadState
    n_more: int | None


@dataclass(frozen=True)
class RatingProgress:
    """Agreement so far: each metric's, the best first, with the items that count; None where undefined.

    Below FEWEST_VIDEOS videos a number has no interval. ceiling: one rater against others; None until two raters have
    judged enough of the same. race: None with a single number.
    """

    estimates: Mapping[str, tuple[Estimate, int]]
    ceiling: Estimate | None
    lead: Lead | None


def compute_rating_progress(
    metrics: Mapping[str, npt.ArrayLike],
    baselines: Mapping[str, npt.ArrayLike],
    ratings: npt.ArrayLike,
    videos: Sequence[object],
    *,
    seed: int = 0,
) -> RatingProgress:
    """Where ratings (n, raters) of one aspect stand, by Kendall's tau-b over all items; arguments as `compute_agreement_rows`.

    >>> found = compute_rating_progress({"m": [1, 2, 3, 4]}, {"length": [2, 1, 3, 4]}, [[1], [2], [3], [4]], "aabb")
    >>> found.found["m"][0].value, found.race.first, found.race.second, found.race.state
    (1.0, 'm', 'length', 'few videos')
    """
    inputs = build_inputs(metrics, {KENDALL: ratings}, videos, baselines=baselines, seed=seed)
    people = compute_mean_ratings(inputs.ratings[KENDALL])

    def compute_statistic(name: str, rows: BoolArray) -> JackknifeStatistics:
        return compute_pooled(
            inputs.select_defined_items(np.where(rows, inputs.values[name], np.nan), people), (KENDALL,)
        )

    known = {name: np.isfinite(side) & np.isfinite(people) for name, side in inputs.values.items()}
    ceiling = compute_ceiling(inputs, list_ceiling_raters(inputs.ratings[KENDALL]))
    return _build_progress(KENDALL, compute_statistic, known, inputs.video, metrics, ceiling)


def compute_preference_progress(
    metrics: Mapping[str, npt.ArrayLike],
    baselines: Mapping[str, npt.ArrayLike],
    preferences: Preferences,
    *,
    seed: int = 0,
) -> RatingProgress:
    """Where answers about two captions side by side stand, by ACCURACY. metrics, baselines: values (items,) by name."""
    values = {name: np.asarray(side, dtype=np.float64) for name, side in {**metrics, **baselines}.items()}

    def compute_statistic(name: str, rows: BoolArray) -> JackknifeStatistics:
        return compute_preference_accuracy(values[name], preferences.filter_rows(rows), seed)

    known = {
        name: np.isfinite(side[preferences.first] - side[preferences.second]) & (preferences.better != 0)
        for name, side in values.items()
    }
    ceiling = compute_preference_ceiling(preferences, seed)
    return _build_progress(
        PREFERENCE_ACCURACY,
        compute_statistic,
        known,
        preferences.video,
        metrics,
        ceiling if ceiling.n[PREFERENCE_ACCURACY] else None,
    )


def _build_progress(
    statistic: str,
    compute_statistic: Callable[[str, BoolArray], JackknifeStatistics],
    known: Mapping[str, BoolArray],
    video: npt.NDArray[np.int64],
    metrics: Mapping[str, npt.ArrayLike],
    ceiling: JackknifeStatistics | None,
) -> RatingProgress:
    """found_of: the statistic of a metric on some items. known: the items that count for each, (n,)."""
    each = {name: compute_statistic(name, rows) for name, rows in known.items()}
    value = {name: found.values[statistic] for name, found in each.items()}
    order = sorted(each, key=lambda name: -math.inf if (v := value[name]) is None else v, reverse=True)
    defined = [name for name in order if value[name] is not None]
    best = next((name for name in defined if name in metrics), None)
    race = None
    if best is not None and len(defined) > 1:
        # The best metric, and what is nearest to it in this order or before it.
        rival = next(name for name in defined if name != best)
        leaders = sorted((best, rival), key=defined.index)
        both = known[best] & known[rival]
        first, second = (compute_statistic(name, both) for name in leaders)
        n_videos = np.unique(video[both]).size
        race = _build_lead(leaders[0], leaders[1], *first.subtract(second, statistic), first.n[statistic], n_videos)
    return RatingProgress(
        {name: (_estimate_if_enough(each[name], statistic), each[name].n[statistic]) for name in order},
        _estimate_if_enough(ceiling, statistic) if ceiling else None,
        race,
    )


def _estimate_if_enough(found: JackknifeStatistics, statistic: str) -> Estimate:
    """A number so far, with its interval where the videos are enough for one that means something."""
    number = found.compute_estimate(statistic)
    return number if found.n_blocks >= FEWEST_VIDEOS else replace(number, low=None, high=None)


def _build_lead(
    first: str, second: str, value: float | None, jackknife_values: FloatArray, n: int, n_videos: int
) -> Lead:
    difference = jackknife_estimate(value, jackknife_values, LEVEL, (-2.0, 2.0))
    n_more = compute_items_needed(value, jackknife_values, n)
    state: LeadState = "open"
    if difference.low is None or difference.high is None:
        state = "undefined"
    elif n_videos < FEWEST_VIDEOS:
        state = "few videos"
    elif n_more == 0:
        state = "apart"
    elif difference.low > -NEAR_RATER and difference.high < NEAR_RATER:
        state = "alike"
    forecast = n_more if state == "open" and n_more is not None and n_more <= MAX_FORECAST else None
    return Lead(first, second, difference, n, n_videos, state, forecast)


def compute_items_needed(value: float | None, jackknife_values: FloatArray, n: int) -> int | None:
    """How many further items tell a difference from 0 with the chance POWER, if it is as large as it seems.

    left_out: the difference without each block of videos, which gives its standard error on n items. That error
    shrinks with the square root of the items, and the difference must be as many errors from 0 as the quantiles of
    Student's t of 0.975 and POWER together (Lachin 1981, for known errors). 0 where it is so already; None where
    there is no error, or no difference.

    >>> compute_items_needed(0.1, np.array([0.0, 0.1, 0.2]), 30), compute_items_needed(0.0, np.array([0.0, 0.1]), 30)
    (1121, None)
    """
    from scipy.special import stdtrit

    error, freedom = jackknife_error(jackknife_values)
    if value is None or error is None or abs(value) <= 1e-9:
        return None
    wanted = float(stdtrit(freedom, (1 + LEVEL) / 2) + stdtrit(freedom, POWER))
    return max(0, math.ceil(n * ((wanted * error / value) ** 2 - 1)))
