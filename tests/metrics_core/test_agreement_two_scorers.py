"""Two scorers on the same samples: against SciPy, resamples written out, and all swaps."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metrics_core.agreement import compare_scores, compare_with_people, correct_p_values

NAN = math.nan
ITEMS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=14)


def scipys(left: Any, right: Any) -> dict[str, float | None]:
    """The three coefficients by SciPy; None where a side is constant."""
    if len(set(left)) < 2 or len(set(right)) < 2:
        return dict.fromkeys(("spearman", "kendall_b", "pearson"))
    found = {
        "spearman": stats.spearmanr(left, right),
        "kendall_b": stats.kendalltau(left, right),
        "pearson": stats.pearsonr(left, right),
    }
    return {name: float(each.statistic) for name, each in found.items()}


def approx(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, abs=1e-9)


# Scores


def test_scores_by_hand() -> None:
    # Five of six pairs are ordered alike. Items 2 and 3 change places: 25 points of four items.
    found = compare_scores([1, 2, 3, 4], [10, 20, 40, 30], ["a", "a", "b", "b"])
    assert (found.n, found.n_videos) == (4, 2)
    assert found.correlations["kendall_b"].value == pytest.approx(4 / 6)
    assert found.correlations["spearman"].value == pytest.approx(1 - 6 * 2 / (4 * 15))
    # Means of the two videos are 13.5 and 31.5: a standard error of 9, and t of one degree of freedom is 12.706.
    difference = found.mean_difference
    assert difference.value == 22.5
    assert (difference.low, difference.high) == pytest.approx((22.5 - 9 * 12.7062, 22.5 + 9 * 12.7062), abs=1e-3)
    assert [(each.position, each.first, each.second, each.move) for each in found.moved_up] == [(2, 62.5, 87.5, 25)]
    assert [(each.position, each.first, each.second, each.move) for each in found.moved_down] == [(3, 87.5, 62.5, -25)]


def t_interval(value: float, without: list[float], most: float) -> Any:
    """Student's t from the values without each video."""
    n = len(without)
    half = stats.t.ppf(0.975, n - 1) * math.sqrt((n - 1) / n * sum((each - np.mean(without)) ** 2 for each in without))
    return approx(max(-most, value - half)), approx(min(most, value + half))


@given(ITEMS)
def test_intervals_are_those_of_items_written_out(items: list[tuple[int, int, int]]) -> None:
    first, second, video = np.array(items).T
    found = compare_scores(first, second, video.tolist())
    assert {name: each.value for name, each in found.correlations.items()} == {
        name: approx(value) for name, value in scipys(first, second).items()
    }
    kept = [video != each for each in set(video.tolist()) if (video != each).any()]
    for name, each in found.correlations.items():
        without = [v for rows in kept if (v := scipys(first[rows], second[rows])[name]) is not None]
        told = each.value is not None and len(without) > 1
        assert (each.low, each.high) == (t_interval(each.value, without, 1) if told else (None, None))
    difference, means = found.mean_difference, [float((second - first)[rows].mean()) for rows in kept]
    assert difference.value == approx(float((second - first).mean()))
    expected = t_interval(difference.value, means, math.inf) if len(means) > 1 else (None, None)
    assert (difference.low, difference.high) == expected


@given(ITEMS)
def test_movers_are_those_of_all_items(items: list[tuple[int, int, int]]) -> None:
    first, second, video = np.array(items).T.tolist()
    n = len(items)

    def percentile(side: list[int], item: int) -> float:
        return 100 * (sum(x < side[item] for x in side) + sum(x == side[item] for x in side) / 2) / n

    moves = [percentile(second, i) - percentile(first, i) for i in range(n)]
    up = sorted((i for i in range(n) if moves[i] > 1e-6), key=lambda i: (round(-moves[i], 6), i))
    down = sorted((i for i in range(n) if moves[i] < -1e-6), key=lambda i: (round(moves[i], 6), i))
    found = compare_scores(first, second, video, n_moved=3)
    assert [each.position for each in found.moved_up] == up[:3]
    assert [each.position for each in found.moved_down] == down[:3]
    assert [each.move for each in (*found.moved_up, *found.moved_down)] == pytest.approx(
        [moves[i] for i in (up[:3] + down[:3])]
    )


def test_constant_and_single_scores_have_no_coefficient() -> None:
    constant = compare_scores([1, 1, 1], [1, 2, 3], ["a", "b", "c"])
    assert {each.value for each in constant.correlations.values()} == {None}
    assert {each.low for each in constant.correlations.values()} == {None}
    assert constant.mean_difference.value == 1
    one_video = compare_scores([1, 2, 3], [1, 2, 3], ["a"] * 3)
    assert one_video.correlations["pearson"].value == pytest.approx(1)
    assert (one_video.correlations["pearson"].low, one_video.mean_difference.low) == (None, None)
    assert (one_video.moved_up, one_video.moved_down) == ((), ())
    nothing = compare_scores([], [], [])
    assert (nothing.n, nothing.mean_difference.value, nothing.moved_up) == (0, None, ())


# People


def world() -> dict[str, Any]:
    """Ten videos of three captions, of which a good scorer knows much and a bad one little; two raters."""
    rng = np.random.default_rng(3)
    truth = rng.normal(size=30)
    return {
        "first": truth + rng.normal(scale=3, size=30),
        "second": truth + rng.normal(scale=0.3, size=30),
        "by_aspect": {
            "quality": truth[:, None] + rng.normal(scale=0.2, size=(30, 2)),
            "style": rng.normal(size=(30, 1)),
        },
        "videos": np.repeat(np.arange(10), 3).tolist(),
    }


def test_coefficients_with_people_are_scipys() -> None:
    world_ = world()
    quality, style = compare_with_people(**world_)
    assert (quality.n, quality.n_videos, quality.n_raters, style.n_raters) == (30, 10, 2, 1)
    people = world_["by_aspect"]["quality"].mean(axis=1)
    for name, value in scipys(world_["first"], people).items():
        assert quality.first[name].value == approx(value)
        assert quality.second[name].value == approx(scipys(world_["second"], people)[name])
        difference = quality.difference[name]
        assert difference.value == approx(quality.second[name].value - quality.first[name].value)
        assert 0 < difference.low <= difference.value <= difference.high


def test_the_difference_leaves_the_same_videos_out() -> None:
    world_ = world()
    quality = compare_with_people(**world_, n_resamples=50)[0]
    people = world_["by_aspect"]["quality"].mean(axis=1)
    differences = []
    for video in range(10):
        rows = np.array(world_["videos"]) != video
        taus = [stats.kendalltau(world_[name][rows], people[rows]).statistic for name in ("first", "second")]
        differences.append(taus[1] - taus[0])
    found = quality.difference["kendall_b"]
    assert (found.low, found.high) == t_interval(found.value, differences, 2)


def test_the_paired_test_is_that_of_all_swaps_corrected_for_the_aspects() -> None:
    world_ = world()
    # On another scale, which changes no rank.
    world_["second"] = np.exp(world_["second"])
    quality, style = compare_with_people(**world_, n_resamples=2000)
    people = world_["by_aspect"]["quality"].mean(axis=1)
    ranks = [stats.rankdata(world_[name]) for name in ("first", "second")]
    seen = [stats.kendalltau(side, people).statistic for side in ranks]
    differences = []
    for swaps in itertools.product((False, True), repeat=10):
        mask = np.repeat(swaps, 3)
        one, two = np.where(mask, ranks[1], ranks[0]), np.where(mask, ranks[0], ranks[1])
        differences.append(stats.kendalltau(two, people).statistic - stats.kendalltau(one, people).statistic)
    assert quality.p == pytest.approx(np.mean(np.abs(differences) >= abs(seen[1] - seen[0]) - 1e-9))
    assert (quality.p_holm, style.p_holm) == correct_p_values([quality.p, style.p])
    assert quality.p_holm < 0.05 < style.p_holm


def test_the_test_does_not_know_which_scorer_comes_first() -> None:
    world_ = world()
    turned = {**world_, "first": world_["second"], "second": world_["first"]}
    options = {"n_resamples": 2000}
    pairs = zip(compare_with_people(**world_, **options), compare_with_people(**turned, **options), strict=True)
    for one, other in pairs:
        assert one.p == pytest.approx(other.p)
        assert one.difference["pearson"].value == pytest.approx(-other.difference["pearson"].value)


def test_items_without_a_number_are_left_out() -> None:
    world_ = world()
    world_["first"][:3], world_["second"][3] = NAN, NAN
    world_["by_aspect"]["quality"][4:6] = NAN
    quality, style = compare_with_people(**world_)
    assert (quality.n, quality.n_videos, style.n) == (24, 8, 26)
    kept = slice(6, None)
    people = world_["by_aspect"]["quality"][kept].mean(axis=1)
    assert quality.second["spearman"].value == approx(scipys(world_["second"][kept], people)["spearman"])


@pytest.mark.parametrize(
    "changes",
    [
        {"first": np.ones(30)},
        {"by_aspect": {"quality": np.ones((30, 2))}},
        {"by_aspect": {"quality": np.full((30, 2), NAN)}},
        {"second": np.full(30, NAN)},
    ],
)
def test_what_is_constant_or_missing_has_no_test(changes: dict[str, Any]) -> None:
    found = compare_with_people(**(world() | changes), n_resamples=20)[0]
    assert (found.p, found.p_holm) == (None, None)
    assert {each.value for each in found.difference.values()} == {None}


def test_one_video_has_no_test_and_no_interval() -> None:
    found = compare_with_people(**(world() | {"videos": [0] * 30}), n_resamples=20)[0]
    assert (found.p, found.p_holm, found.first["pearson"].low) == (None, None, None)
    assert found.first["pearson"].value is not None
