"""Agreement against hand-computed cases, plain loops over pairs, fractions and scipy."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import metrics_core.agreement
from benchmarks.rank_agreement import (
    MeanCorrelation,
    correlation,
    mean_correlation,
    pairwise_agreement,
    system_agreement,
)
from metrics_core.agreement import cohen_kappa, count_confusion, majority_accuracy, wilson_interval
from metrics_core.calibration import Confusion

# Few different values, so that ties are common.
VALUES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 3)), max_size=24)
FIVE_CLIPS = ["c1", "c1", "c2", "c2", "c3", "c3", "c4", "c4", "c5", "c5"]
PEOPLE_I = [0.50, 0.40, 0.30, 0.35, 0.20, 0.60, 0.70, 0.55, 0.40, 0.40]
METRIC_I = [0.6, 0.5, 0.1, 0.9, 0.5, 0.5, 0.3, 0.4, 0.2, 0.1]


def test_the_public_surface() -> None:
    assert metrics_core.agreement.__all__ == sorted(metrics_core.agreement.__all__)
    assert all(hasattr(metrics_core.agreement, name) for name in metrics_core.agreement.__all__)


# A second implementation, one pair at a time


def sign(number: float) -> int:
    return (number > 0) - (number < 0)


def tau_b(left: list[int], right: list[int]) -> float | None:
    """(C - D) over the root of the pairs untied on each side."""
    signs = [(sign(left[i] - left[j]), sign(right[i] - right[j])) for i, j in combinations(range(len(left)), 2)]
    untied = sum(one != 0 for one, _ in signs) * sum(other != 0 for _, other in signs)
    return sum(one * other for one, other in signs) / math.sqrt(untied) if untied else None


def rho(left: list[int], right: list[int]) -> float | None:
    """Pearson's correlation of the mean ranks."""
    ranks = [[sum(x < y for x in side) + sum(x == y for x in side) / 2 for y in side] for side in (left, right)]
    centred = [[rank - sum(side) / len(side) for rank in side] for side in ranks]
    norms = [math.sqrt(sum(x * x for x in side)) for side in centred]
    if not all(norms):
        return None
    return sum(x * y for x, y in zip(*centred, strict=True)) / math.prod(norms)


def approx(number: float | None) -> Any:
    return None if number is None else pytest.approx(number, abs=1e-12)


# Correlations


@given(VALUES)
def test_the_mean_over_groups_leaves_out_undefined_ones(rows: list[tuple[int, int, int]]) -> None:
    groups: dict[int, list[tuple[int, int]]] = {}
    for left, right, group in rows:
        groups.setdefault(group, []).append((left, right))
    sides = [([one for one, _ in group], [other for _, other in group]) for group in groups.values()]
    taus = [tau for side in sides if (tau := tau_b(*side)) is not None]
    rhos = [value for side in sides if (value := rho(*side)) is not None]
    expected = MeanCorrelation(
        len(groups),
        len(groups) - len(taus),
        approx(sum(rhos) / len(rhos) if rhos else None),
        approx(sum(taus) / len(taus) if taus else None),
    )
    assert mean_correlation(*([row[side] for row in rows] for side in (0, 1)), [row[2] for row in rows]) == expected


def test_a_difference_between_systems_cannot_help_inside_them() -> None:
    metric, people, systems = [1, 2, 3, 11, 12, 13], [3, 2, 1, 13, 12, 11], ["a"] * 3 + ["b"] * 3
    pooled, within = correlation(metric, people).kendall, mean_correlation(metric, people, systems).kendall
    assert pooled == pytest.approx((9 - 6) / 15)
    assert within == pytest.approx(-1)


# Pairs


def test_oracle_i_of_the_specification() -> None:
    found = pairwise_agreement(METRIC_I, PEOPLE_I, FIVE_CLIPS, 0.10)
    # c1 is eligible only with the tolerance (0.50 - 0.40 < 0.10 in floats) and agrees; c3 is tied, c4 is wrong.
    assert (found.n_pairs, found.n_eligible, found.n_agreeing, found.n_tied) == (5, 3, 1, 1)
    assert found.share == pytest.approx(1 / 3)
    assert (found.low, found.high) == wilson_interval(1, 3)


@given(VALUES, st.integers(1, 3))
def test_pairs_agree_with_fractions(rows: list[tuple[int, int, int]], gap: int) -> None:
    """Scores in tenths, compared exactly."""
    eligible = agreeing = tied = pairs = 0
    for (metric, people, clip), (other_metric, other_people, other_clip) in combinations(rows, 2):
        if clip != other_clip:
            continue
        pairs += 1
        if abs(Fraction(people - other_people, 10)) >= Fraction(gap, 10):
            eligible += 1
            tied += metric == other_metric
            agreeing += sign(metric - other_metric) == sign(people - other_people)
    metric_scores, people_scores = ([row[side] / 10 for row in rows] for side in (0, 1))
    found = pairwise_agreement(metric_scores, people_scores, [row[2] for row in rows], gap / 10)
    assert (found.n_pairs, found.n_eligible, found.n_agreeing, found.n_tied) == (pairs, eligible, agreeing, tied)
    assert found.share == (agreeing / eligible if eligible else None)


def test_rounding_is_no_difference() -> None:
    found = pairwise_agreement([0.1 + 0.2, 0.3], [1.0, 0.0], ["a", "a"])
    assert (found.n_agreeing, found.n_tied) == (0, 1)


def test_no_eligible_pair_has_no_share() -> None:
    found = pairwise_agreement([0.1, 0.2], [0.5, 0.5], ["a", "a"])
    assert (found.n_pairs, found.n_eligible, found.share, found.low, found.high) == (1, 0, None, None, None)


@pytest.mark.parametrize(("successes", "n"), [(0, 5), (1, 3), (17, 40), (40, 40), (1, 1)])
def test_wilson_agrees_with_scipy(successes: int, n: int) -> None:
    theirs = stats.binomtest(successes, n).proportion_ci(0.95, method="wilson")
    assert wilson_interval(successes, n) == (pytest.approx(theirs.low), pytest.approx(theirs.high))
    narrower = stats.binomtest(successes, n).proportion_ci(0.8, method="wilson")
    assert wilson_interval(successes, n, 0.8) == (pytest.approx(narrower.low), pytest.approx(narrower.high))


# Systems


def test_systems_by_hand() -> None:
    # Means of the metric: a .5, b .6, c .1; of people: a .9, b .5, c .2. Two of three pairs are ordered alike.
    metric, people = [0.4, 0.7, 0.1, 0.6, 0.5, 0.1], [0.8, 0.4, 0.3, 1.0, 0.6, 0.1]
    found = system_agreement(metric, people, ["a", "b", "c"] * 2, [1, 1, 1, 2, 2, 2])
    assert (found.n_systems, found.n_clips, found.n_undefined) == (3, 2, 0)
    assert found.kendall == pytest.approx(1 / 3)
    # Clip 2 alone, drawn twice in a quarter of the resamples, orders all three alike; clip 1 and both do not.
    assert (found.low, found.high) == (pytest.approx(1 / 3), pytest.approx(1))
    assert found.p_positive == 1


@settings(max_examples=25)
@given(st.integers(2, 5), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_the_bootstrap_draws_clips_with_all_their_captions(n_systems: int, n_clips: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    metric, people = rng.integers(0, 4, (2, n_clips, n_systems)) / 4
    systems, clips = np.meshgrid(np.arange(n_systems), np.arange(n_clips))
    found = system_agreement(
        metric.ravel(), people.ravel(), systems.ravel().tolist(), clips.ravel().tolist(), n_resamples=39, seed=5
    )
    rng = np.random.default_rng(5)
    taus = []
    for _ in range(39):
        drawn = rng.integers(n_clips, size=n_clips)
        # Whole numbers of quarters, so that sums of equal captions are equal.
        sums = [(side[drawn] * 4).sum(axis=0).astype(int).tolist() for side in (metric, people)]
        taus.append(tau_b(*sums))
    whole = tau_b(*((side * 4).sum(axis=0).astype(int).tolist() for side in (metric, people)))
    assert found.kendall == approx(whole)
    if whole is None:
        assert (found.low, found.high, found.p_positive, found.n_undefined) == (None, None, None, 39)
    else:
        defined = sorted(tau for tau in taus if tau is not None)
        assert found.n_undefined == 39 - len(defined)
        assert found.low == approx(defined[math.ceil(0.025 * len(defined)) - 1] if defined else None)
        assert found.high == approx(defined[math.ceil(0.975 * len(defined)) - 1] if defined else None)
        assert found.p_positive == (sum(tau > 0 for tau in defined) / len(defined) if defined else None)


def test_two_systems_are_one_coin() -> None:
    clips = [clip for clip in range(8) for _ in range(2)]
    metric = [0.6, 0.5] * 5 + [0.4, 0.5] * 3
    found = system_agreement(metric, [1.0, 0.0] * 8, ["a", "b"] * 8, clips)
    assert found.kendall == 1
    assert (found.low, found.high) == (-1, 1)
    # P(more than 4 of 8 draws hit 5 of 8 clips), and draws that tie are left out.
    wins, ties = (sum(stats.binom.pmf(k, 8, 5 / 8) for k in ks) for ks in (range(5, 9), [4]))
    assert found.n_undefined == pytest.approx(1000 * ties, abs=50)
    assert found.p_positive == pytest.approx(wins / (1 - ties), abs=0.05)


def test_equal_captions_stay_tied_in_whatever_order_they_are_summed() -> None:
    values = [0.1, 0.2, 0.3, 0.7, 0.9, 1 / 3, 1 / 7]
    assert sum(values) != sum(reversed(values))
    metric = [*values, *reversed(values)]
    found = system_agreement(metric, [0.0] * 7 + [1.0] * 7, ["a"] * 7 + ["b"] * 7, [*range(7), *range(7)])
    assert found.kendall is None


@pytest.mark.parametrize(
    ("metric", "people", "systems"),
    [([], [], []), ([0.1, 0.9], [0.2, 0.8], ["a", "a"]), ([0.5, 0.5], [0.2, 0.8], ["a", "b"])],
)
def test_fewer_than_two_systems_or_all_tied_have_no_ranking(
    metric: list[float], people: list[float], systems: list[str]
) -> None:
    found = system_agreement(metric, people, systems, list(range(len(metric))))
    assert (found.kendall, found.low, found.high, found.p_positive) == (None, None, None, None)
    assert found.n_systems == len(set(systems))


def test_a_resample_without_a_system_is_left_out_and_counted() -> None:
    # b has a caption for clip 2 only, so a quarter of the resamples have none of it.
    found = system_agreement([0.2, 0.4, 0.9], [0.1, 0.2, 0.3], ["a", "a", "b"], [1, 2, 2])
    assert found.kendall == 1
    assert found.n_undefined == pytest.approx(250, abs=50)


# Yes and no


def test_kappa_by_hand() -> None:
    # 35 of 50 agree; by chance (25 * 30 + 25 * 20) / 2500 = 1/2 do.
    assert cohen_kappa(Confusion(20, 5, 10, 15)) == pytest.approx(0.4)
    assert cohen_kappa(Confusion(0, 5, 5, 0)) == -1
    assert cohen_kappa(Confusion(3, 0, 0, 7)) == 1
    assert cohen_kappa(Confusion(3, 7, 0, 0)) == 0
    assert cohen_kappa(Confusion(3, 0, 0, 0)) is None
    assert cohen_kappa(Confusion(0, 0, 0, 0)) is None


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30))
def test_keypoint_numbers_agree_with_counting(rows: list[tuple[bool, bool]]) -> None:
    counts = count_confusion([predicted for predicted, _ in rows], [label for _, label in rows])
    cells = ((True, True), (True, False), (False, True), (False, False))
    assert counts == Confusion(*(rows.count(cell) for cell in cells))
    positive = sum(label for _, label in rows)
    assert majority_accuracy(counts) == max(positive, len(rows) - positive) / len(rows)
    agreed = Fraction(sum(one == other for one, other in rows), len(rows))
    yes = [Fraction(sum(row[side] for row in rows), len(rows)) for side in (0, 1)]
    chance = yes[0] * yes[1] + (1 - yes[0]) * (1 - yes[1])
    assert cohen_kappa(counts) == (None if chance == 1 else pytest.approx(float((agreed - chance) / (1 - chance))))


def test_no_label_has_no_majority() -> None:
    assert majority_accuracy(count_confusion([], [])) is None


# Refusals


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: correlation([1.0], [1.0, 2.0]), r"metric has shape \(1,\), people \(2,\)"),
        (lambda: correlation([1.0, math.nan], [1.0, 2.0]), "metric 1 is nan: leave out"),
        (lambda: correlation([1.0, 2.0], [math.inf, 2.0]), "people 0 is inf: leave out"),
        (lambda: count_confusion([True], [True, False]), r"predicted has shape \(1,\), labels \(2,\)"),
        (lambda: count_confusion([True, True], [1, 2]), "label 1 is 2: give True or False"),
        (lambda: count_confusion([0.5], [1]), "prediction 0 is 0.5"),
    ],
)
def test_what_cannot_be_compared_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
