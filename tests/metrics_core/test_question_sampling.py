"""Draws that settle a question: their weights have no bias, and weighted statistics are those of plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from metrics_core.agreement import compute_coefficient
from metrics_core.agreement.difference_estimates import (
    DifferenceEstimate,
    choose_least_good_rating,
    compute_rating_difference,
    compute_tau_difference,
    compute_youden_difference,
)
from metrics_core.agreement.sampling import (
    EVEN_PART,
    compute_draw_keys,
    compute_draw_weights,
    compute_metric_draw_shares,
    compute_threshold_draw_shares,
)
from metrics_core.arrays import FloatArray
from metrics_core.calibration.rated_search import FEWEST_VIDEOS
from metrics_core.intervals import confidence_sequence

N, DRAWS, RATED = 30, 4000, 10


def drawn(rng: np.random.Generator, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The rows of the first units of a draw, and the weight of every unit, 0 for one that is not drawn."""
    keys = compute_draw_keys(shares, rng.random(shares.size))
    rows = np.argsort(keys)[:RATED]
    weights = np.zeros(shares.size)
    weights[rows] = compute_draw_weights(keys[rows], shares[rows])
    return rows, weights


def test_weighted_sums_over_units_and_pairs_have_no_bias() -> None:
    rng = np.random.default_rng(0)
    shares = compute_metric_draw_shares(rng.normal(size=N), rng.normal(size=N))
    # What is drawn with a higher chance is rated higher.
    values, pairs = 100 * shares + rng.normal(size=N), rng.normal(1.0, 1.0, (N, N))
    np.fill_diagonal(pairs, 0.0)
    weights = np.stack([drawn(rng, shares)[1] for _ in range(DRAWS)])
    sums, of_pairs = weights @ values, np.einsum("di,ij,dj->d", weights, pairs, weights)
    for found, truth in ((sums, values.sum()), (of_pairs, pairs.sum())):
        assert abs(found.mean() - truth) < 4 * found.std() / math.sqrt(DRAWS)
    # Without weights there is a bias that this test sees.
    plain = (weights > 0) @ values * N / (RATED - 1)
    assert abs(plain.mean() - sums.mean()) > 4 * plain.std() / math.sqrt(DRAWS)


def test_the_even_part_of_a_draw_is_a_random_sample_of_all_units() -> None:
    rng = np.random.default_rng(1)
    shares = compute_metric_draw_shares(rng.normal(size=N), rng.normal(size=N))
    times = np.zeros(N)
    for _ in range(DRAWS):
        keys = compute_draw_keys(shares, rng.random(N))
        rows = np.argsort(keys)[:RATED]
        # As view random_rating has it.
        times[rows[keys[rows] * shares[rows] < keys[rows].max() * shares.min()]] += 1
    chance = times.sum() / DRAWS / N
    assert chance > 0.5 * EVEN_PART * RATED / N
    assert np.abs(times / DRAWS - chance).max() < 4.5 * math.sqrt(chance / DRAWS)


def test_equal_weights_give_plain_tau_b_and_its_interval_leaves_out_each_video() -> None:
    rng = np.random.default_rng(2)
    first, second, people = (rng.integers(0, 6, 90).astype(float) for _ in range(3))
    videos = rng.integers(0, 70, 90).tolist()
    found = compute_tau_difference(first, second, people, np.full(90, 2.5), videos)

    def difference(rows: FloatArray) -> float:
        tau = [compute_coefficient(side[rows], people[rows], "kendall_b") for side in (first, second)]
        assert tau[0] is not None
        assert tau[1] is not None
        return tau[1] - tau[0]

    number = {video: place for place, video in enumerate(dict.fromkeys(videos))}
    video = np.array([number[each] for each in videos])
    left_out = np.array([difference(np.flatnonzero(video != each)) for each in range(len(number))])
    error, value = math.sqrt((len(number) - 1) * left_out.var()), difference(np.arange(90))
    # Robbins' mixture of normal distributions with a deviation of .1, and t at the same chance.
    v = error**2 / 0.1**2
    normal = math.sqrt((1 + v) * (math.log((1 + v) / v) + 2 * math.log(20)))
    half = stats.t.isf(stats.norm.sf(normal), len(number) - 1) * error
    assert (found.n, found.n_videos) == (90, len(number))
    assert (found.value, found.low, found.high) == pytest.approx((value, value - half, value + half))


def test_a_mean_per_system_leaves_out_each_video() -> None:
    rng = np.random.default_rng(4)
    moved, weights, videos = rng.normal(1.0, 1.0, 60), rng.uniform(1, 2, 60), (np.arange(60) // 2).tolist()
    found = compute_rating_difference(moved, weights, videos, greatest_difference=4.0)
    left_out = []
    for video in range(30):
        kept = np.array(videos) != video
        left_out.append(float(np.average(moved[kept], weights=weights[kept])))
    expected = confidence_sequence(float(np.average(moved, weights=weights)), np.array(left_out), 0.4, (-4, 4))
    assert (found.value, found.low, found.high) == pytest.approx((expected.value, expected.low, expected.high))


# Looking after every answer.


def mirrored(seed: int, n: int = 300) -> tuple[FloatArray, FloatArray, FloatArray, list[int]]:
    """Two metrics, ratings and videos of 2n captions, each with a mirror image: both metrics are equally good."""
    rng = np.random.default_rng([seed, 7])
    quality = rng.normal(size=n)
    one, other = quality + rng.normal(0, 1.2, (2, n))
    people = np.clip(np.round(3 + quality + rng.normal(0, 0.6, n)), 1, 5)
    videos = rng.permutation(np.arange(2 * n) // 4).tolist()
    return np.append(one, other), np.append(other, one), np.append(people, people), videos


def is_told_apart(seed: int, most: int) -> bool:
    """Whether a rater who looks after every answer sees one of two equally good metrics called better."""
    one, other, people, videos = mirrored(seed)
    shares = compute_metric_draw_shares(one, other)
    keys = compute_draw_keys(shares, np.random.default_rng([seed, 8]).random(shares.size))
    order = np.argsort(keys)
    for n in range(FEWEST_VIDEOS, most + 1):
        rows = order[:n]
        weights = compute_draw_weights(keys[rows], shares[rows])
        answer = compute_tau_difference(
            one[rows], other[rows], people[rows], weights, [videos[row] for row in rows.tolist()]
        )
        if answer.winner is not None:
            return True
    return False


def test_equally_good_metrics_are_rarely_told_apart_by_whoever_looks_after_every_answer() -> None:
    assert sum(is_told_apart(seed, 80) for seed in range(30)) <= 3


@pytest.mark.dear
def test_equally_good_metrics_are_rarely_told_apart_in_many_draws() -> None:
    assert sum(is_told_apart(seed, 300) for seed in range(200)) <= 10, "5 % of 200"


def test_weighted_tau_is_that_of_repeated_items() -> None:
    rng = np.random.default_rng(3)
    sides = rng.integers(0, 4, (3, 15)).astype(float)
    times = rng.integers(0, 4, 15)
    found = compute_tau_difference(*sides, times, range(15))
    signs = [np.sign(side[:, None] - side) for side in sides]
    weights = np.outer(times, times)

    def tau(side: int) -> float:
        both = [(weights * signs[each] ** 2).sum() for each in (side, 2)]
        return float((weights * signs[side] * signs[2]).sum() / math.sqrt(both[0] * both[1]))

    assert found.value == pytest.approx(tau(1) - tau(0))
    assert found.n == (times > 0).sum()


def test_the_shares_of_cuts_fall_half_between_them() -> None:
    values = np.linspace(0, 1, 101)
    shares = compute_threshold_draw_shares(values, 0.2, 0.3)
    between = (values >= 0.2) & (values < 0.3)
    assert shares[between].sum() == pytest.approx(0.5)
    assert shares.sum() == pytest.approx(1.0)
    everywhere = compute_threshold_draw_shares(values, -1.0, 2.0)
    assert everywhere == pytest.approx(np.full(101, 1 / 101))


def test_what_has_no_value_is_not_drawn() -> None:
    shares = compute_metric_draw_shares([0.1, math.nan, 0.5, 0.3], [0.2, 0.4, math.nan, 0.1])
    assert shares.tolist()[1:3] == [0.0, 0.0]
    assert np.isinf(compute_draw_keys(shares, np.full(4, 0.5))).tolist() == [False, True, True, False]
    assert not compute_metric_draw_shares([math.nan], [1.0]).any()
    # Metrics that rank alike leave nothing but chance.
    assert compute_metric_draw_shares([1, 2], [3, 4]).tolist() == [0.5, 0.5]


def test_a_cut_is_better_by_what_it_does_between_both() -> None:
    values, good, weights = [0.1, 0.4, 0.5, 0.9], [False, False, True, True], [1.0, 2.0, 3.0, 0.5]

    def youden(cut: float) -> float:
        kept = [weight * (value >= cut) for weight, value in zip(weights, values, strict=True)]
        sides = [[kept[i] / sum(w for w, g in zip(weights, good, strict=True) if g is side)
                  for i in range(4) if good[i] is side] for side in (True, False)]  # fmt: skip
        return sum(sides[0]) - sum(sides[1])

    found = compute_youden_difference(values, good, 0.2, 0.6, weights, range(4))
    assert found.value == pytest.approx(youden(0.6) - youden(0.2))
    assert compute_youden_difference(values, [True] * 4, 0.2, 0.6, weights, range(4)).value is None


def test_nothing_drawn_and_few_videos_settle_nothing() -> None:
    assert compute_tau_difference([], [], [], [], []) == DifferenceEstimate(None, None, None, 0, 0)
    assert compute_rating_difference([], [], [], greatest_difference=4.0).winner is None
    few = FEWEST_VIDEOS - 1
    moved = 1.0 + 0.01 * np.arange(few + 1)
    assert compute_rating_difference(moved[:few], np.ones(few), range(few), greatest_difference=4.0).winner is None
    assert compute_rating_difference(moved, np.ones(few + 1), range(few + 1), greatest_difference=4.0).winner == 1
    assert compute_rating_difference(-moved, np.ones(few + 1), range(few + 1), greatest_difference=4.0).winner == 0


def test_the_middle_rating_is_weighted() -> None:
    assert choose_least_good_rating([1, 2, 3, 4, 5], np.ones(5)) == 3.0
    assert choose_least_good_rating([1, 2, 3, 4, 5], [1, 1, 1, 1, 9]) == 5.0
    assert choose_least_good_rating([1, 1, 1, 3, 5], np.ones(5)) == 3.0
    assert choose_least_good_rating([2, 2], np.ones(2)) == 2.0
