"""While people rate: which metric agrees best so far, how many more ratings would separate the two best, and whether to
stop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.baseline_comparison import compute_ceiling
from metrics_core.agreement.coefficients import KENDALL
from metrics_core.agreement.conclusions import NEAR_RATER
from metrics_core.agreement.groupings import compute_pooled
from metrics_core.agreement.inputs import AgreementInputs, build_inputs
from metrics_core.agreement.preferences import (
    PREFERENCE_ACCURACY,
    Preferences,
    compute_preference_accuracy,
    compute_preference_ceiling,
)
from metrics_core.agreement.raters import compute_mean_ratings, list_ceiling_raters
from metrics_core.arrays import BoolArray, FloatArray
from metrics_core.calibration.rated_search import FEWEST_VIDEOS
from metrics_core.intervals import LEVEL, Estimate, JackknifeStatistics, jackknife_error, jackknife_estimate

# The chance with which the forecast number of further ratings separates two metrics that differ as much as it seems.
_POWER = 0.8
# The most further ratings that are forecast: for a difference very near 0, no useful number can be given.
_MAX_FORECAST = 10_000

_LeadState = Literal["undefined", "few videos", "open", "apart", "alike"]


@dataclass(frozen=True, slots=True)
class Lead:
    """The lead of the best metric (`first`) over its best rival (`second`), another metric or a simple score.
    difference: first less second, on the n items of n_videos videos that both have a value for. n_more: how many
    further items would separate them; None where this is above 10,000, or `state` is not "open".

    state: "apart" where the difference is as many standard errors from 0 as `compute_items_needed` asks for; "alike"
    where the interval lies within NEAR_RATER of 0; "few videos" below FEWEST_VIDEOS, where nothing is claimed;
    "undefined" without an interval; else "open".
    """

    first: str
    second: str
    difference: Estimate
    n: int
    n_videos: int
    state: _LeadState
    n_more: int | None


@dataclass(frozen=True)
class RatingProgress:
    """Agreement with people so far. estimates: (estimate, number of items) by metric or simple score, the best first; a
    value is None where undefined. ceiling: agreement of raters with the others; None until two have judged enough of
    the same items. lead: of the best metric; None without a metric or rival that has a number.

    Below FEWEST_VIDEOS videos a number has no interval.
    """

    estimates: Mapping[str, tuple[Estimate, int]]
    ceiling: Estimate | None
    lead: Lead | None


def compute_rating_progress(
    metrics: Mapping[str, npt.ArrayLike],
    baselines: Mapping[str, npt.ArrayLike],
    people: npt.ArrayLike | Preferences,
    videos: Sequence[object],
    *,
    seed: int = 0,
) -> RatingProgress:
    """Compute how far metrics and simple scores agree with people by one aspect, the human ceiling and the lead of the
    best metric: by Kendall's tau-b with ratings, or by PREFERENCE_ACCURACY with preferences. metrics, baselines:
    (items,) by name, NaN for none. people: ratings (items, raters), NaN for none, or preferences. Raises ValueError as
    `compute_agreement_rows` does.

    >>> ratings = [[1], [2], [3], [4]]
    >>> progress = compute_rating_progress({"m": [1, 2, 3, 4]}, {"length": [2, 1, 3, 4]}, ratings, "aabb")
    >>> progress.estimates["m"][0].value, progress.lead.first, progress.lead.second, progress.lead.state
    (1.0, 'm', 'length', 'few videos')
    """
    ratings = {} if isinstance(people, Preferences) else {KENDALL: people}
    inputs = build_inputs(metrics, ratings, videos, baselines=baselines, seed=seed)
    if isinstance(people, Preferences):
        return _compute_preference_progress(inputs, people, metrics)
    means = compute_mean_ratings(inputs.ratings[KENDALL])

    def compute_statistic(name: str, rows: BoolArray) -> JackknifeStatistics:
        return compute_pooled(
            inputs.select_defined_items(np.where(rows, inputs.values[name], np.nan), means), (KENDALL,)
        )

    known = {name: np.isfinite(side) & np.isfinite(means) for name, side in inputs.values.items()}
    ceiling = compute_ceiling(inputs, list_ceiling_raters(inputs.ratings[KENDALL]))
    return _build_progress(KENDALL, compute_statistic, known, inputs.video, metrics, ceiling)


def _compute_preference_progress(
    inputs: AgreementInputs, preferences: Preferences, metrics: Mapping[str, npt.ArrayLike]
) -> RatingProgress:
    def compute_statistic(name: str, rows: BoolArray) -> JackknifeStatistics:
        return compute_preference_accuracy(inputs.values[name], preferences.filter_rows(rows), inputs.seed)

    known = {
        name: np.isfinite(side[preferences.first] - side[preferences.second]) & (preferences.better != 0)
        for name, side in inputs.values.items()
    }
    ceiling = compute_preference_ceiling(preferences, inputs.seed)
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
    """Build the progress. compute_statistic: the statistic of a metric on some items. known: a mask (n,) by metric of
    the items that count.
    """
    statistics = {name: compute_statistic(name, rows) for name, rows in known.items()}
    value = {name: result.values[statistic] for name, result in statistics.items()}
    order = sorted(statistics, key=lambda name: -math.inf if (v := value[name]) is None else v, reverse=True)
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
        {name: (_estimate_if_enough(statistics[name], statistic), statistics[name].n[statistic]) for name in order},
        _estimate_if_enough(ceiling, statistic) if ceiling else None,
        race,
    )


def _estimate_if_enough(statistics: JackknifeStatistics, statistic: str) -> Estimate:
    """Return a number so far, with its interval where there are enough videos for a meaningful one."""
    number = statistics.compute_estimate(statistic)
    return number if statistics.n_blocks >= FEWEST_VIDEOS else replace(number, low=None, high=None)


def _build_lead(
    first: str, second: str, value: float | None, jackknife_values: FloatArray, n: int, n_videos: int
) -> Lead:
    difference = jackknife_estimate(value, jackknife_values, (-2.0, 2.0))
    n_more = compute_items_needed(value, jackknife_values, n)
    state: _LeadState = "open"
    if difference.low is None or difference.high is None:
        state = "undefined"
    elif n_videos < FEWEST_VIDEOS:
        state = "few videos"
    elif n_more == 0:
        state = "apart"
    elif difference.low > -NEAR_RATER and difference.high < NEAR_RATER:
        state = "alike"
    forecast = n_more if state == "open" and n_more is not None and n_more <= _MAX_FORECAST else None
    return Lead(first, second, difference, n, n_videos, state, forecast)


def compute_items_needed(value: float | None, jackknife_values: FloatArray, n: int) -> int | None:
    """Compute how many further items would separate a difference from 0 with the chance 0.8, if its size on n items is
    its true size. 0 where it is separated already; None without a standard error or a difference. value: the
    difference; jackknife_values: the same with each block of videos left out.

    The blocks give its standard error on n items. That error shrinks with the square root of the items, and the
    difference must be as many errors from 0 as the quantiles of Student's t of 0.975 and 0.8 together (Lachin 1981,
    for known errors).

    >>> compute_items_needed(0.1, np.array([0.0, 0.1, 0.2]), 30), compute_items_needed(0.0, np.array([0.0, 0.1]), 30)
    (1121, None)
    """
    from scipy.special import stdtrit

    error, freedom = jackknife_error(jackknife_values)
    if value is None or error is None or abs(value) <= 1e-9:
        return None
    least_errors = float(stdtrit(freedom, (1 + LEVEL) / 2) + stdtrit(freedom, _POWER))
    return max(0, math.ceil(n * ((least_errors * error / value) ** 2 - 1)))
