"""Chooses what to rate next: captions are drawn with unequal chances so that one question is settled soonest, and
weights keep its estimate without bias.

A question asks which of two is better: two metrics, two thresholds on a metric, two systems. The scores from which its
answer is computed are known before anybody rates, so captions that matter more to it are drawn with a higher chance,
and weigh less in the estimate.

The draw is priority sampling (Duffield, Lund and Thorup 2007; the order is that of sequential Poisson sampling, Ohlsson
1998). Unit i with share p_i and a random number u_i in (0, 1) has the key u_i / p_i. Raters take the units in the order
of their keys, and may stop anywhere: where t is the key of the next unit, the units before it were drawn with the
chances min(1, t p_i), and sums that weigh them by the inverse (Horvitz and Thompson 1952) have no bias, sums over pairs
included. Estimates are ratios of such sums (Hájek 1971). Their intervals leave out one video at a time, and hold at all
looks together, since raters look again after every answer (`confidence_sequence`).

A part of every draw is spread evenly, so that no chance is 0. With the least share p of all units, the units with
u_i < t p are a random sample of all: a draw of equal chances by the same random numbers would hold them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.coefficients import dense_ranks, mean_ranks
from metrics_core.arrays import BoolArray, FloatArray

EVEN_PART = 0.4
"""The part of a draw that is spread evenly over all captions."""


def compute_metric_draw_shares(first: npt.ArrayLike, second: npt.ArrayLike) -> FloatArray:
    """Compute the shares (n,), of sum 1, with which to draw captions for rating to find which of two metrics is closer
    to people. A caption whose ranks by the two metrics are farther apart has a greater share. first, second: the
    metrics' values (n,); NaN gives a share of 0.

    Captions that both rank alike cannot tell the metrics apart. A part of EVEN_PART is spread evenly.

    >>> compute_metric_draw_shares([1, 2, 3, 4], [1, 2, 4, 3]).round(3).tolist()
    [0.1, 0.1, 0.4, 0.4]
    """
    sides = [np.asarray(side, dtype=np.float64) for side in (first, second)]
    known = np.isfinite(sides[0]) & np.isfinite(sides[1])
    ranks = [mean_ranks(dense_ranks(side[known])) for side in sides]
    return _shares(np.abs(ranks[0] - ranks[1]), known)


def compute_threshold_draw_shares(values: npt.ArrayLike, lower: float, upper: float) -> FloatArray:
    """Compute the shares (n,), of sum 1, with which to draw captions for rating to find which of two thresholds on a
    metric is better. Half of the draw falls on values from `lower` to below `upper`, half outside. values: the metric's
    (n,); NaN gives a share of 0.

    This is Neyman's allocation where people differ as much here as there. Two thresholds differ only in what they do
    with the captions between them.

    >>> compute_threshold_draw_shares([0.1, 0.5, 0.6, 0.9, 0.95], 0.5, 0.9).round(3).tolist()
    [0.167, 0.25, 0.25, 0.167, 0.167]
    """
    scores = np.asarray(values, dtype=np.float64)
    known = np.isfinite(scores)
    between = (scores[known] >= lower) & (scores[known] < upper)
    inside = max(1, int(between.sum()))
    return _shares(np.where(between, 1 / inside, 1 / max(1, between.size - inside)), known, even=0.0)


def _shares(sizes: FloatArray, known: BoolArray, even: float = EVEN_PART) -> FloatArray:
    """Compute shares that add up to 1: in proportion to the sizes of the known units, and a part evenly."""
    shares = np.zeros(known.size)
    n, total = int(known.sum()), float(sizes.sum())
    if n:
        shares[known] = even / n + (1 - even) * sizes / total if total > 0 else 1 / n
    return shares


def compute_draw_keys(shares: FloatArray, random_numbers: FloatArray) -> FloatArray:
    """Compute the keys (n,) that order the captions for rating, the lowest first: random numbers divided by shares;
    infinite for a share of 0. shares: (n,), in which captions are drawn. random_numbers: (n,), in (0, 1).

    >>> compute_draw_keys(np.array([0.5, 0.25, 0.0]), np.array([0.5, 0.5, 0.5])).tolist()
    [1.0, 2.0, inf]
    """
    with np.errstate(divide="ignore"):
        keys: FloatArray = random_numbers / shares
    return np.where(shares > 0, keys, np.inf)


def compute_draw_weights(keys: FloatArray, shares: FloatArray) -> FloatArray:
    """Compute the weight (n,) of every rated caption, the inverse of its chance to be drawn. keys, shares: (n,), of the
    rated captions. The caption with the highest key weighs 0: it only marks where the draw ends.

    >>> compute_draw_weights(np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.125, 0.25])).tolist()
    [1.0, 2.0, 0.0]
    """
    end = float(keys.max(initial=0.0))
    chance = np.minimum(1.0, end * shares)
    weights: FloatArray = np.divide(keys < end, chance, out=np.zeros(keys.size), where=chance > 0)
    return weights
