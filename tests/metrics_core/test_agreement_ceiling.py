"""The human ceiling: who counts, how much, and that a metric like one more rater is rarely called better."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from metrics_core.agreement import compute_agreement_rows
from metrics_core.agreement.baseline_comparison import (
    AspectComparisons,
    compare_with_rivals,
)
from metrics_core.agreement.inputs import build_inputs
from metrics_core.agreement.rater_checks import compare_raters, find_pattern
from metrics_core.agreement.raters import FEWEST_SHARED, mark_ceiling_raters
from metrics_core.agreement.row import DIFFERENCE, ONE_RATER, RIVAL, AgreementRow, index_comparisons
from metrics_core.arrays import FloatArray

RNG = np.random.default_rng(32)


def people_of(rng: np.random.Generator, n_videos: int, n_raters: int, noise: float = 0.8) -> FloatArray:
    """Ratings from 1 to 5 of six captions a video, (n, n_raters): one truth, and noise of each rater."""
    truth = (0.5 * rng.normal(size=(n_videos, 1)) + rng.normal(size=(n_videos, 6))).ravel()
    ratings: FloatArray = np.clip(np.round(3 + truth[:, None] + rng.normal(0, noise, (truth.size, n_raters))), 1, 5)
    return ratings


def videos_of(n_videos: int) -> list[int]:
    return np.repeat(np.arange(n_videos), 6).tolist()


def on_same_items(metric: FloatArray, ratings: FloatArray, videos: list[int]) -> dict[tuple[str, str], AgreementRow]:
    """How a metric stands beside raters on its own items, without the rest of the agreement table."""
    once = AspectComparisons(build_inputs({"m": metric}, {"q": ratings}, videos), "q")
    return index_comparisons(compare_with_rivals(once, "m"))


def tau(one: FloatArray, other: FloatArray) -> float:
    kept = np.isfinite(one) & np.isfinite(other)
    return float(stats.kendalltau(one[kept], other[kept]).statistic)


# Who counts.


def test_a_few_careless_answers_do_not_move_the_ceiling() -> None:
    rng = np.random.default_rng(5)
    careful = people_of(rng, 300, 3)
    careless = np.full((careful.shape[0], 2), np.nan)
    careless[:27] = (np.arange(27) % 5 + 1)[:, None]
    metric = careful.mean(axis=1) + rng.normal(0, 3, careful.shape[0])
    before, after = (
        on_same_items(metric, ratings, videos_of(300))[ONE_RATER, RIVAL]
        for ratings in (careful, np.concatenate([careful, careless], axis=1))
    )
    assert before.value == pytest.approx(after.value, abs=1e-9)
    assert (before.low, before.high) == pytest.approx((after.low, after.high))
    rows = {row.statistic: row for row in compute_agreement_rows({}, {"q": np.concatenate([careful, careless], axis=1)},
            videos_of(300)) if (row.metric, row.over) == (ONE_RATER, "captions")}  # fmt: skip
    assert rows["kendall_b"].value == pytest.approx(before.value)


def test_raters_count_by_the_captions_that_they_share() -> None:
    rng = np.random.default_rng(6)
    ratings = people_of(rng, 30, 3)
    ratings[FEWEST_SHARED + 10 :, 2] = np.nan
    found = on_same_items(rng.normal(size=180), ratings, videos_of(30))[ONE_RATER, RIVAL]
    taus, shared = [], [180, 180, FEWEST_SHARED + 10]
    for rater in range(3):
        others = np.nanmean(np.delete(ratings, rater, axis=1), axis=1)
        taus.append(tau(ratings[:, rater], others))
    assert found.value == pytest.approx(np.average(taus, weights=shared))
    assert abs(found.value - np.mean(taus)) > 0.005, "an average that does not weigh would be another number"


def test_who_counts_is_the_largest_set_whose_members_share_enough_with_each_other() -> None:
    shared = np.full((200, 5), np.nan)
    shared[:100, :2] = 3.0
    # The third shares 30 with the first two, the fourth 20 with them and 15 with the fifth, who shares with no other.
    shared[70:100, 2], shared[80:115, 3], shared[100:115, 4] = 3.0, 3.0, 3.0
    # The fourth shares 35 in all, but only 20 once the fifth is gone.
    assert mark_ceiling_raters(shared).tolist() == [True, True, True, False, False]
    assert mark_ceiling_raters(shared[:29]).tolist() == [False] * 5
    assert mark_ceiling_raters(shared[:, :1]).tolist() == [False]


def test_ceilings_of_raters_who_all_share_enough_are_plain_means() -> None:
    ratings = people_of(np.random.default_rng(7), 20, 4)
    found = on_same_items(np.arange(120.0), ratings, videos_of(20))[ONE_RATER, RIVAL]
    taus = [tau(ratings[:, i], np.delete(ratings, i, axis=1).mean(axis=1).round(9)) for i in range(4)]
    assert found.value == pytest.approx(np.mean(taus), abs=1e-9)


# The metric is held against the same means.


def test_a_metric_and_one_more_rater_are_held_against_the_same_means() -> None:
    rng = np.random.default_rng(8)
    ratings = people_of(rng, 20, 3)
    ratings[60:, 1] = np.nan
    metric = np.round(ratings[:, 0] + rng.normal(0, 1, 120), 1)
    metric[::7] = np.nan
    found = on_same_items(metric, ratings, videos_of(20))
    known = np.isfinite(metric)
    differences, own, weights = [], [], []
    for rater in range(3):
        others = np.round(np.nanmean(np.delete(ratings, rater, axis=1), axis=1), 9)
        shared = known & np.isfinite(ratings[:, rater]) & np.isfinite(others)
        own.append(stats.kendalltau(metric[shared], others[shared]).statistic)
        differences.append(own[-1] - stats.kendalltau(ratings[shared, rater], others[shared]).statistic)
        weights.append(shared.sum())
    assert found[ONE_RATER, DIFFERENCE].value == pytest.approx(np.average(differences, weights=weights))
    assert found[ONE_RATER, "kendall_b"].value == pytest.approx(np.average(own, weights=weights))


def called_better(n_worlds: int, n_raters: int) -> tuple[int, int]:
    """How many worlds call a metric that is one more rater better than one more rater, and how many worse."""
    n_better = n_worse = 0
    for seed in range(n_worlds):
        people = people_of(np.random.default_rng([seed, 32]), 100, n_raters + 1)
        above = on_same_items(people[:, -1], people[:, :-1], videos_of(100))[ONE_RATER, DIFFERENCE]
        assert above.low is not None
        assert above.high is not None
        n_better, n_worse = n_better + (above.low > 0), n_worse + (above.high < 0)
    return n_better, n_worse


def test_a_metric_that_is_one_more_rater_is_rarely_called_better() -> None:
    assert called_better(15, 3)[0] <= 2


@pytest.mark.expensive
@pytest.mark.parametrize("n_raters", [2, 3, 5])
def test_a_metric_that_is_one_more_rater_is_rarely_called_better_in_many_worlds(n_raters: int) -> None:
    n_better, n_worse = called_better(400, n_raters)
    assert max(n_better, n_worse) / 400 <= 0.05, "2.5 % lie on each side, give or take 1.5"


# Raters who stand apart.


def test_a_rater_far_from_all_others_is_named_with_both_figures() -> None:
    rng = np.random.default_rng(9)
    ratings = people_of(rng, 60, 4)
    ratings[:, 2] = rng.integers(1, 6, 360)
    found = compare_raters(ratings, videos_of(60))
    assert [each.is_far for each in found] == [False, False, True, False]
    others = np.round(np.delete(ratings, 2, axis=1).mean(axis=1), 9)
    assert found[2].coefficient is not None
    assert found[2].coefficient.value == pytest.approx(tau(ratings[:, 2], others))
    without = np.delete(ratings, 2, axis=1)
    assert found[2].ceiling_without_rater == pytest.approx(
        np.mean([tau(without[:, i], np.round(np.delete(without, i, axis=1).mean(axis=1), 9)) for i in range(3)])
    )
    assert [each.n_shared for each in found] == [360] * 4


def test_raters_alike_are_rarely_far_and_of_two_nobody_is() -> None:
    n_far = sum(
        each.is_far
        for seed in range(25)
        for each in compare_raters(people_of(np.random.default_rng(seed), 20, 4, noise=1.5), videos_of(20))
    )
    assert n_far <= 1, "5 % of all reports name somebody by chance"
    two = np.stack([np.arange(60.0) % 5, -(np.arange(60.0) % 5)], axis=1)
    assert [each.is_far for each in compare_raters(two, videos_of(10))] == [False, False]


def test_raters_who_share_too_little_have_no_figure() -> None:
    ratings = people_of(RNG, 20, 3)
    ratings[12:, 1] = np.nan
    found = compare_raters(ratings, videos_of(20))
    assert [(each.n_shared, each.coefficient is None) for each in found] == [(120, False), (12, True), (120, False)]


# Answers in a pattern.


@pytest.mark.parametrize(
    ("answers", "cycle", "n"),
    [
        ([1.0, 2, 3, 4, 5] * 6, (1.0, 2.0, 3.0, 4.0, 5.0), 30),
        ([4.0] * 25, (4.0,), 25),
        ([2.0, 5, 1] + [5.0, 4] * 15 + [3.0], (5.0, 4.0), 30),
        (([1.0, 2, 3, 4, 5] * 6)[:27], (1.0, 2.0, 3.0, 4.0, 5.0), 27),
    ],
)
def test_answers_in_a_pattern_are_found(answers: list[float], cycle: tuple[float, ...], n: int) -> None:
    found = find_pattern(answers, 0.4)
    assert found is not None
    assert (found.cycle, found.n, found.n_answers) == (cycle, n, len(answers))


def test_what_chance_gives_is_no_pattern() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        usual = rng.choice([1.0, 2, 3, 4, 5], 300, p=[0.05, 0.05, 0.1, 0.2, 0.6])
        assert find_pattern(usual.tolist(), 0.6) is None
    assert find_pattern([5.0] * 25, 0.95) is None, "where nearly all answers are 5, many in a row are no pattern"
    assert find_pattern([5.0] * 400, 0.95) is not None
    assert find_pattern([1.0, 2.0] * 5, 0.3) is None, "too few"
    assert find_pattern([], 0.3) is None
