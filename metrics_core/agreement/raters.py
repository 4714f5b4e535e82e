"""How well people agree with each other: Krippendorff's alpha, and one rater against the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from metrics_core.agreement.systems import DECIMALS
from metrics_core.arrays import BoolArray, FloatArray

Level = Literal["nominal", "ordinal", "interval"]
"""What differences of ratings mean: nominal, all alike; ordinal, by rank; interval, by the squared difference."""
LEVELS: tuple[Level, ...] = get_args(Level)
MOST_RATERS = 20
"""Statistics of single raters are averaged over so many at most, since a crowd may have thousands."""


@dataclass(frozen=True, slots=True)
class Alpha:
    """Krippendorff's alpha: 1 is full agreement, 0 chance, below 0 worse than chance.

    It is None without two ratings of one item and where all of them are equal. n_pairable: ratings of items that
    have two or more. n_items: these items.
    """

    level: Level
    value: float | None
    n_pairable: int
    n_items: int


def krippendorff_alpha(ratings: npt.ArrayLike, level: Level = "ordinal") -> Alpha:
    """Compute Krippendorff's alpha of ratings (items, raters), NaN where a rater gave none.

    Raises ValueError for another shape, infinite ratings and an unknown level.

    >>> round(krippendorff_alpha([[1, 1], [1, 0], [0, 0], [0, 0]], "nominal").value, 6)
    0.533333
    """
    if level not in LEVELS:
        raise ValueError(f"level is {level!r}: give one of {', '.join(LEVELS)}.")
    rated = checked_ratings(ratings)
    values, totals = rating_counts(rated)
    value = alpha_of(values, coincidences(totals)[None], level)[0]
    pairable = totals.sum(axis=1)
    return Alpha(level, float(value) if np.isfinite(value) else None, int(pairable.sum()), int((pairable > 0).sum()))


def checked_ratings(ratings: npt.ArrayLike) -> FloatArray:
    """Return ratings (items, raters) as float64. Raises ValueError for another shape and infinite ratings."""
    rated = np.asarray(ratings, dtype=np.float64)
    if rated.ndim != 2:
        raise ValueError(f"ratings have shape {rated.shape}: give a row for each item and a column for each rater.")
    if np.isinf(rated).any():
        raise ValueError("A rating is infinite: give numbers, and NaN where a rater gave none.")
    return rated


def rating_counts(rated: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The different values in ascending order, and how often each item got each: (items, values).

    Items with fewer than two ratings have no pair: their counts are 0.
    """
    values = np.unique(rated[~np.isnan(rated)])
    counts = np.zeros((len(rated), values.size))
    for column, value in enumerate(values):
        counts[:, column] = (rated == value).sum(axis=1)
    return values, np.where(counts.sum(axis=1, keepdims=True) > 1, counts, 0)


def coincidences(counts: FloatArray) -> FloatArray:
    """Add up the ordered pairs of ratings inside items, an item weighing as much as its ratings: (values, values)."""
    weights = 1 / np.maximum(counts.sum(axis=1) - 1, 1)
    together: FloatArray = (counts * weights[:, None]).T @ counts - np.diag(weights @ counts)
    return together


def alpha_of(values: FloatArray, together: FloatArray, level: Level) -> FloatArray:
    """Compute alpha of coincidences (rows, values, values): (rows,); NaN where no two ratings differ."""
    totals = together.sum(axis=2)
    distance: FloatArray = 1 - np.eye(values.size)[None]
    if level != "nominal":
        places = values[None] if level == "interval" else np.cumsum(totals, axis=1) - totals / 2
        distance = (places[:, :, None] - places[:, None, :]) ** 2
    n = totals.sum(axis=1)
    observed = (together * distance).sum(axis=(1, 2))
    expected = np.einsum("ri,rij,rj->r", totals, np.broadcast_to(distance, together.shape), totals)
    with np.errstate(divide="ignore", invalid="ignore"):
        alpha: FloatArray = np.where(expected > 0, 1 - (n - 1) * observed / expected, np.nan)
    return alpha


def mean_rating(ratings: FloatArray) -> FloatArray:
    """Average the ratings (items, raters) that were given: (items,); NaN for an item without one."""
    given = ~np.isnan(ratings)
    with np.errstate(invalid="ignore"):
        # Equal means must stay tied, in whichever order their ratings are added up.
        mean: FloatArray = np.round(np.where(given, ratings, 0).sum(axis=1) / given.sum(axis=1), DECIMALS)
    return mean


def one_against_others(ratings: FloatArray) -> list[tuple[FloatArray, FloatArray, BoolArray]]:
    """For each rater: the ratings, the mean of the other raters, both (items,), and the items that have both."""
    sides = []
    for rater in range(ratings.shape[1]):
        one, others = ratings[:, rater], mean_rating(np.delete(ratings, rater, axis=1))
        sides.append((one, others, ~np.isnan(one) & ~np.isnan(others)))
    return sides


def most_active(ratings: FloatArray) -> FloatArray:
    """The ratings (items, raters) of the MOST_RATERS raters who gave most, the first of equals, in their order."""
    given = (~np.isnan(ratings)).sum(axis=0)
    return ratings[:, np.sort(np.argsort(-given, kind="stable")[:MOST_RATERS])]
