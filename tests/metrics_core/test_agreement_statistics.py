"""Oracles Q7 to Q13 and second implementations: ties, tests, raters, baselines."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.agreement import (
    compute_words_in_common,
    correct_p_values,
    count_words,
)
from metrics_core.agreement.coefficients import compute_coefficient, compute_coefficients
from metrics_core.agreement.pairs import (
    build_pairs,
    compute_held_out_accuracy,
    find_best_epsilon,
)
from metrics_core.agreement.raters import compute_alphas, require_ratings
from metrics_core.intervals import JackknifeStatistics

NAN = math.nan
Q9 = [[1, 2, 3, 3, 2, 1, 4, 1, 2, NAN], [1, 2, 3, 3, 2, 2, 4, 1, 2, 5]]
RATINGS = st.lists(st.lists(st.sampled_from([1.0, 2.0, 4.0, NAN]), min_size=3, max_size=3), min_size=1, max_size=8)


# Coefficients


def test_coefficients_by_hand() -> None:
    expected = {"spearman": 0.897059, "kendall_b": 11 / 14, "tied_pairs": 1 / 15}
    found = compute_coefficients(np.array([1.0, 2, 3, 4, 5, 5]), np.array([1.0, 3, 2, 4, 4, 6]), tuple(expected))
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("sides", [([], []), ([1], [2]), ([1, 1, 1], [1, 2, 3]), ([1, 2, 3], [2, 2, 2])])
def test_constant_sides_have_no_correlation(sides: Any) -> None:
    metric, people = (np.array(side, dtype=np.float64) for side in sides)
    names = ("pearson", "spearman", "kendall_b")
    assert compute_coefficients(metric, people, names) == dict.fromkeys(names)
    tied = None if len(sides[0]) < 2 else float(len(set(sides[0])) == 1)
    assert compute_coefficient(metric, people, "tied_pairs") == tied


def test_pairs_of_a_hundred_thousand_items_fit() -> None:
    """Products of two numbers of pairs are above 2 ** 64 here."""
    n = 100_000
    metric = np.arange(n, dtype=np.float64)
    pairs = n * (n - 1) / 2
    assert compute_coefficient(metric // 2, metric, "tied_pairs") == 1 - (pairs - n / 2) / pairs
    assert compute_coefficient(metric, -(metric // 2), "kendall_b") == pytest.approx(-math.sqrt(1 - n / 2 / pairs))


# Ties


def q8_accuracy(epsilon: float) -> float:
    people, metric = [1, 1, 2, 3], [0.10, 0.15, 0.50, 0.72]
    right = 0
    for i, j in itertools.combinations(range(4), 2):
        gap = metric[i] - metric[j]
        sign = 0 if abs(gap) <= epsilon + 1e-9 else math.copysign(1, gap)
        right += sign == np.sign(people[i] - people[j])
    return right / 6


def best_epsilon(metric: list[float], people: list[float], video: list[int]) -> float | None:
    pairs = build_pairs(np.array(metric, dtype=float), np.array(people, dtype=float), np.array(video))
    return find_best_epsilon(pairs, np.ones(pairs.gap.size, dtype=np.bool_))


def test_tie_calibration_by_hand() -> None:
    assert [q8_accuracy(epsilon) for epsilon in (0, 0.05, 0.22)] == [5 / 6, 1, 5 / 6]
    assert best_epsilon([0.10, 0.15, 0.50, 0.72], [1, 1, 2, 3], [0] * 4) == pytest.approx(0.05)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=12))
def test_tie_calibration_is_the_best_of_all(items: list[tuple[int, int, int]]) -> None:
    metric, people, video = np.array(items).T.tolist()
    pairs = [(i, j) for i, j in itertools.combinations(range(len(items)), 2) if video[i] == video[j]]

    def right(epsilon: int) -> int:
        gaps = [(metric[i] - metric[j], people[i] - people[j]) for i, j in pairs]
        return sum((0 if abs(gap) <= epsilon else np.sign(gap)) == np.sign(wanted) for gap, wanted in gaps)

    best = max(range(7), key=lambda epsilon: (right(epsilon), -epsilon))
    assert best_epsilon(metric, people, video) == (best if pairs else None)


def acc_eq(gaps: list[tuple[float, float]], epsilon: float) -> float:
    """The share of pairs (metric's difference, people's difference) that both sides order alike or both tie."""
    right = [(abs(x) <= epsilon + 1e-9) == (y == 0) and (y == 0 or x * y > 0) for x, y in gaps]
    return sum(right) / len(right)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 5)), min_size=6, max_size=24))
def test_calibration_is_that_of_the_other_half_pair_by_pair(items: list[tuple[int, int, int]]) -> None:
    metric, people, video = (np.array(side) for side in zip(*items, strict=True))
    video = np.unique(video, return_inverse=True)[1]
    n_videos = int(video.max()) + 1
    half = (np.random.default_rng(5).permutation(n_videos) % 2)[video]

    def gaps(number: int, without: int | None = None) -> list[tuple[float, float]]:
        rows = [i for i in range(len(items)) if half[i] == number and video[i] != without]
        return [
            (float(metric[i] - metric[j]), float(people[i] - people[j])) for i, j in itertools.combinations(rows, 2)
        ]

    found, left_out = compute_held_out_accuracy(metric / 1.0, people / 1.0, video, video + 3, n_videos, 5)
    if not gaps(0) or not gaps(1):
        assert found is None
        return
    epsilon = [max((0.0, 1.0, 2.0, 3.0), key=lambda e: (acc_eq(gaps(1 - number), e), -e)) for number in (0, 1)]

    def accuracy(without: int | None) -> float:
        own = [gaps(number, without) for number in (0, 1)]
        n = sum(map(len, own))
        return (
            sum(acc_eq(each, e) * len(each) for each, e in zip(own, epsilon, strict=True) if each) / n
            if n
            else math.nan
        )

    assert found == pytest.approx(accuracy(None))
    assert left_out[3 : 3 + n_videos] == pytest.approx([accuracy(each) for each in range(n_videos)], nan_ok=True)


def test_calibration_by_hand() -> None:
    # Both halves have gaps of .1 where people tie and of .9 where they do not: 6 of 6 pairs are right, 2 without ties.
    metric, people = np.array([0.0, 0.1, 1.0, 0.0, 0.1, 1.0]), np.array([1.0, 1, 2, 1, 1, 2])
    video = np.array([0, 0, 0, 1, 1, 1])
    assert compute_held_out_accuracy(metric, people, video, video, 2, 0)[0] == 1.0
    assert compute_held_out_accuracy(metric[:3], people[:3], video[:3], video[:3], 2, 0)[0] is None


# Tests


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_steps(p_values: list[float]) -> None:
    corrected = correct_p_values(p_values)
    assert all(0 <= p <= after <= 1 for p, after in zip(p_values, corrected, strict=True))
    for level in (0.01, 0.05, 0.2):
        # Holm's procedure: reject in order of p while p <= level / those left.
        rejected = 0
        for step, p in enumerate(sorted(p_values)):
            if p * (len(p_values) - step) > level:
                break
            rejected += 1
        assert sum(p <= level for p in corrected) == rejected


# Raters


ALPHAS = ("krippendorff_nominal", "krippendorff_ordinal", "krippendorff_interval")


def alphas(ratings: npt.ArrayLike) -> JackknifeStatistics:
    rated = require_ratings(ratings)
    return compute_alphas(rated, np.arange(len(rated)))


def test_alpha_by_hand() -> None:
    found = alphas(np.transpose(Q9))
    assert [found.values[name] for name in ALPHAS] == pytest.approx([0.852174, 0.922902, 0.942761], abs=1e-6)
    assert found.n["krippendorff_ordinal"] == 18
    assert alphas([[1, 1], [1, 0], [0, 0], [0, 0]]).values["krippendorff_nominal"] == pytest.approx(8 / 15)


def alpha_by_pairs(ratings: list[list[float]], level: str) -> float | None:
    """1 - observed / expected disagreement, one pair of ratings at a time."""
    units = [[value for value in unit if not math.isnan(value)] for unit in ratings]
    units = [unit for unit in units if len(unit) > 1]
    every = [value for unit in units for value in unit]

    def distance(one: float, other: float) -> float:
        if level == "nominal":
            return float(one != other)
        if level == "interval":
            return (one - other) ** 2
        low, high = sorted((one, other))
        return (sum(low <= v <= high for v in every) - (every.count(low) + every.count(high)) / 2) ** 2

    observed = sum(distance(a, b) / (len(unit) - 1) for unit in units for a, b in itertools.permutations(unit, 2))
    expected = sum(distance(a, b) for a, b in itertools.permutations(every, 2))
    return 1 - (len(every) - 1) * observed / expected if expected else None


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
@given(RATINGS)
def test_alpha_pair_by_pair(level: Any, ratings: list[list[float]]) -> None:
    expected = alpha_by_pairs(ratings, level)
    found = alphas(ratings).values[f"krippendorff_{level}"]
    assert found == (None if expected is None else pytest.approx(expected, abs=1e-9))


def test_alpha_without_pairs_is_undefined() -> None:
    without = alphas([[1, NAN], [NAN, 2]])
    assert (set(without.values.values()), set(without.n.values())) == ({None}, {0})
    assert set(alphas([[3, 3], [3, 3]]).values.values()) == {None}
    with pytest.raises(ValueError, match="a column for each rater"):
        require_ratings([1, 2])


# Baselines


def test_baselines_by_hand() -> None:
    assert count_words(["A dog's ball.", "", "(no) words!"]).tolist() == [4, 0, 2]
    found = compute_words_in_common(["a red ball", "x", "", "a"], [["the RED ball", "a dog"], ["y"], [""], []])
    assert found.tolist() == pytest.approx([2 / 3, 0, 0, NAN], nan_ok=True)
    with pytest.raises(ValueError, match="one list for every text"):
        compute_words_in_common(["a"], [])
