"""Coefficients that papers print and the platform does not: tau-c, pairwise accuracy with exact ties, soft pairwise
accuracy (WMT24), and partial correlations (FRANK).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from benchmarks.papers.over_raters import over_raters
from metrics_core.agreement.coefficients import KENDALL, compute_coefficients
from metrics_core.agreement.groupings import DECIMALS, ComparedValues
from metrics_core.agreement.pairs import TOLERANCE
from metrics_core.agreement.raters import compute_mean_ratings
from metrics_core.arrays import FloatArray, IntArray, number_groups
from metrics_core.intervals import JackknifeStatistics, draw_blocks, jackknife

CORRELATIONS = (KENDALL, "spearman", "pearson")
# Up to this many videos all flips of signs are tried.
EXACT = 10


def correlate(metric: npt.ArrayLike, people: npt.ArrayLike, videos: Sequence[object]) -> dict[str, dict[str, Any]]:
    """Compute tau-b, Spearman's rho, Pearson's r and tau-c of a metric with mean ratings over all items where both
    sides are finite, with intervals over videos. Return fields of a table's row by the name of the coefficient.

    >>> correlate([1, 2, 3], [1, 3, 2], "aab")["spearman"]["ours"]
    0.5
    """
    # As in the agreement table, means that differ by rounding only are tied.
    sides = np.asarray(metric, dtype=np.float64), np.round(np.asarray(people, dtype=np.float64), DECIMALS)
    kept = np.isfinite(sides[0]) & np.isfinite(sides[1])
    x, y = (side[kept] for side in sides)

    def compute(rows: IntArray) -> dict[str, float | None]:
        return {
            **compute_coefficients(x[rows], y[rows], CORRELATIONS),
            "kendall_c": compute_tau_c(x[rows], y[rows]),
        }

    found = jackknife(compute, draw_blocks(number_groups(videos), 0)[kept])
    estimates = {name: found.compute_estimate(name) for name in found.values}
    return {
        name: {"ours": each.value, "low": each.low, "high": each.high, "n": x.size} for name, each in estimates.items()
    }


def compute_others(
    metric: FloatArray, ratings: FloatArray, videos: Sequence[object], systems: Sequence[object], lengths: FloatArray
) -> dict[str, float | None]:
    """Compute a metric's coefficients that are not in table `agreement`, by name. metric, lengths: finite (n,);
    ratings: (n, raters). The mean over single raters is VATEX-EVAL's figure.
    """
    people, (video, system) = compute_mean_ratings(ratings), (number_groups(groups) for groups in (videos, systems))
    sides = ComparedValues(metric.astype(np.float64), people, video, system, draw_blocks(video, 0))
    without_means = compute_partial(sides, lambda side, rows: subtract_system_means(side, system[rows])).values
    without_length = compute_partial(sides, lambda side, rows: subtract_length_trend(side, lengths[rows])).values
    return {
        **{name: cell["ours"] for name, cell in correlate(metric, people, videos).items()},
        **{f"{name}, by rater": found.value for name, found in over_raters(metric, ratings, videos).items()},
        **{f"{name}, without system means": value for name, value in without_means.items()},
        **{f"{name}, without length": value for name, value in without_length.items()},
        "pairwise accuracy": compute_pairwise_accuracy(metric, people),
        "soft pairwise accuracy": compute_soft_accuracy(metric, people, system, video, 1000, 0),
    }


def compute_tau_c(metric: FloatArray, people: FloatArray) -> float | None:
    """Compute Kendall's tau-c of a metric with people; None where a side is constant.

    >>> round(compute_tau_c(np.array([1.0, 2, 3, 4, 5, 5]), np.array([1.0, 3, 2, 4, 4, 6])), 6)
    0.763889
    """
    tau = float(stats.kendalltau(metric, people, variant="c").statistic) if metric.size > 1 else np.nan
    return tau if np.isfinite(tau) else None


def compute_pairwise_accuracy(metric: FloatArray, people: FloatArray) -> float | None:
    """Compute the share of pairs that both sides order alike or both tie (Deutsch et al. 2023); None without a pair.

    >>> compute_pairwise_accuracy(np.array([1.0, 2, 3, 4, 5, 5]), np.array([1.0, 3, 2, 4, 4, 6]))
    0.8
    """
    later = range(1, metric.size)
    right = sum(int((np.sign(metric[i:] - metric[i - 1]) == np.sign(people[i:] - people[i - 1])).sum()) for i in later)
    return 2 * right / (metric.size * (metric.size - 1)) if metric.size > 1 else None


def subtract_system_means(values: npt.ArrayLike, system: IntArray) -> FloatArray:
    """Subtract from each value (n,) the mean of its system, as FRANK does: an array (n,). system: (n,), the number of
    each item's system, from 0.

    Of a metric that only knows which systems are good, nothing is left.

    >>> subtract_system_means([1, 3, 10, 20], np.array([0, 0, 1, 1])).tolist()
    [-1.0, 1.0, -5.0, 5.0]
    """
    side = np.asarray(values, dtype=np.float64)
    return side - (np.bincount(system, side) / np.maximum(np.bincount(system), 1))[system]


def subtract_length_trend(values: npt.ArrayLike, lengths: npt.ArrayLike) -> FloatArray:
    """Subtract from each value (n,) the least-squares line over the lengths (n,): an array (n,) with mean 0, empty for
    no values.

    >>> subtract_length_trend([2, 4, 6, 9], [1, 2, 3, 4]).round(2).tolist()
    [0.2, -0.1, -0.4, 0.3]
    """
    side, length = np.asarray(values, dtype=np.float64), np.asarray(lengths, dtype=np.float64)
    if side.size == 0:
        return side
    centred, x = side - side.mean(), length - length.mean()
    squares = float(x @ x)
    rest: FloatArray = centred - x * (float(x @ centred) / squares) if squares > 0 else centred
    # What rounding leaves of values on one line is no order.
    return np.where(np.abs(rest) <= 1e-12 * np.abs(side).max(initial=0), 0.0, rest)


def compute_partial(sides: ComparedValues, remove: Callable[[FloatArray, IntArray], FloatArray]) -> JackknifeStatistics:
    """Compute Pearson's r and Spearman's rho of a metric with people after `remove` has taken an influence out of both,
    and again without each block of videos. remove: gets values and the positions of their items, and returns the values
    that are left.
    """

    def rest(rows: IntArray) -> dict[str, float | None]:
        return compute_coefficients(
            remove(sides.metric[rows], rows), remove(sides.people[rows], rows), ("pearson", "spearman")
        )

    return jackknife(rest, sides.block)


def compute_soft_accuracy(
    metric: FloatArray, people: FloatArray, system: IntArray, video: IntArray, n_resamples: int, seed: int
) -> float | None:
    """Compute how alike a metric and people judge the differences between systems, in [0, 1]. It is 1 - mean |p of
    people - p of the metric| over all pairs of systems with a common video, where p is the one-sided p-value that the
    first system is better. None without such a pair. metric, people: finite (n,); system, video: (n,), numbers from 0.
    n_resamples: the number of random flips of signs from which p is computed.

    p is the share of random flips of the signs of the differences on common videos whose sum reaches the observed sum.
    People and metric share the flips; up to EXACT videos all flips are tried. A system's captions of one video are
    averaged.

    >>> metric, people = np.array([0.9, 0.4, 0.6, 0.5, 0.5, 0.5]), np.array([3.0, 4, 5, 2, 3, 5])
    >>> compute_soft_accuracy(metric, people, np.repeat([0, 1], 3), np.tile([0, 1, 2], 2), 1000, 0)
    0.875
    """
    sums = [sum_by_video_and_system(side, system, video) for side in (metric, people, np.ones(metric.size))]
    with np.errstate(invalid="ignore"):
        means = [side / sums[2] for side in sums[:2]]
    first, second = np.array(list(combinations(range(sums[2].shape[1]), 2)), dtype=np.int64).reshape(-1, 2).T
    differences = [side[:, first] - side[:, second] for side in means]
    common = np.isfinite(differences[0]).any(axis=0)
    if not common.any():
        return None
    signs = _draw_sign_flips(sums[2].shape[0], n_resamples, seed)
    p_metric, p_people = (_compute_flip_p_values(np.nan_to_num(side[:, common]), signs) for side in differences)
    return float(1 - np.abs(p_people - p_metric).mean())


def _draw_sign_flips(n: int, n_resamples: int, seed: int) -> FloatArray:
    """Return signs, 1 or -1, for n differences in an array (flips, n). Up to 10 differences (EXACT) it has all 2^n
    combinations; of more, n_resamples random rows by the seed, where the first row leaves all signs as they are.
    """
    if n <= EXACT:
        return np.where(np.arange(2**n)[:, None] >> np.arange(n) & 1, -1.0, 1.0)
    signs = np.where(np.random.default_rng(seed).random((n_resamples, n)) < 0.5, -1.0, 1.0)
    # The signs as seen are one of the flips, so that no p-value is 0.
    signs[0] = 1
    return signs


def _compute_flip_p_values(differences: FloatArray, signs: FloatArray) -> FloatArray:
    """Compute one-sided p-values (pairs,) of the sums over videos of `differences` (videos, pairs). A p-value is the
    share of the sign flips, the rows of `signs` (flips, videos), whose sum reaches the observed sum.
    """
    seen = differences.sum(axis=0)
    p: FloatArray = (signs @ differences >= seen - TOLERANCE * np.abs(differences).sum(axis=0)).mean(axis=0)
    return p


def sum_by_video_and_system(weights: FloatArray, system: IntArray, video: IntArray) -> FloatArray:
    """Sum weights (n,) by video and system: an array (videos, systems), 0 where a system has no item of a video.
    system, video: (n,), numbers from 0.
    """
    sums = np.zeros((int(video.max(initial=-1)) + 1, int(system.max(initial=-1)) + 1))
    np.add.at(sums, (video, system), weights)
    return sums
