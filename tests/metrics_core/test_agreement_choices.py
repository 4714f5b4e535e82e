"""Preferences between two captions, and how many more ratings are needed: by brute force, by hand, by simulation."""

from __future__ import annotations

import itertools
import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.agreement import compare_with_people
from metrics_core.agreement.preferences import (
    PREFERENCE_ACCURACY,
    Preferences,
    build_preference_rows,
    compute_preference_accuracy,
    compute_preference_ceiling,
)
from metrics_core.agreement.progress import compute_items_needed, compute_rating_progress
from metrics_core.intervals import draw_blocks, jackknife_means

ANSWERS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from([-1, 0, 1]), st.sampled_from("ab")), max_size=12
)
VALUES = st.lists(st.sampled_from([0.0, 0.5, 1.0, math.nan]), min_size=5, max_size=5)


def choices_of(answers: list[tuple[int, int, int, str]]) -> Preferences:
    first, second, better, raters = zip(*answers, strict=True) if answers else ((), (), (), ())
    return Preferences.build(first, second, better, raters, [min(pair) for pair in zip(first, second, strict=True)])


@given(ANSWERS, VALUES)
def test_accuracy_is_what_counting_gives(answers: list[tuple[int, int, int, str]], values: list[float]) -> None:
    found = compute_preference_accuracy(np.array(values), choices_of(answers))
    points = []
    for first, second, better, _ in answers:
        if better and not math.isnan(values[first] + values[second]):
            winner, loser = (first, second) if better == 1 else (second, first)
            points.append(1.0 if values[winner] > values[loser] else 0.5 if values[winner] == values[loser] else 0.0)
    assert found.values[PREFERENCE_ACCURACY] == (pytest.approx(sum(points) / len(points)) if points else None)
    assert (found.n[PREFERENCE_ACCURACY], found.n_undefined[PREFERENCE_ACCURACY]) == (
        len(points),
        len(answers) - len(points),
    )


@given(ANSWERS)
def test_the_ceiling_is_what_counting_pairs_of_raters_gives(answers: list[tuple[int, int, int, str]]) -> None:
    decided = [each for each in dict.fromkeys(answers) if each[2]]
    same: dict[int, list[bool]] = {}
    for (place, one), (_, other) in permutations(enumerate(decided), 2):
        if one[:2] == other[:2]:
            same.setdefault(place, []).append(one[2] == other[2])
    shares = [sum(each) / len(each) for each in same.values()]
    found = compute_preference_ceiling(choices_of(decided))
    assert found.values[PREFERENCE_ACCURACY] == (pytest.approx(sum(shares) / len(shares)) if shares else None)


def test_rows_name_metrics_baselines_and_raters_and_leave_out_whole_videos() -> None:
    better, videos = [1, 1, -1, 1, 1, -1], ["v", "v", "w", "w", "x", "x"]
    choices = Preferences.build([0] * 6, [1] * 6, better, ["ann", "bob"] * 3, videos)
    rows = build_preference_rows({"m": [2, 1]}, {"length": [3, 3]}, choices, "coverage")
    assert [(row.metric, row.value, row.baseline, row.n) for row in rows] == [
        ("m", pytest.approx(4 / 6), False, 6),
        ("length", 0.5, True, 6),
        ("one rater", pytest.approx(7 / 15), False, 6),
    ]
    m = rows[0]
    assert (m.aspect, m.over, m.statistic) == ("coverage", "pairs", "preference_accuracy")
    # Without v 2 of 4 are right, without w or x 3 of 4: the jackknife by hand.
    left = np.array([0.5, 0.75, 0.75])
    error = math.sqrt(2 * left.var())
    assert m.low == pytest.approx(max(0.0, 4 / 6 - 4.302653 * error), abs=1e-6)


def test_two_scorers_are_compared_on_the_answers_that_both_can_give() -> None:
    choices = Preferences.build(
        [0, 0, 2, 2], [1, 1, 3, 3], [1, 1, -1, 0], ["ann", "bob", "ann", "bob"], ["v", "v", "w", "w"]
    )
    found = compare_with_people([2, 1, math.nan, 1], [1, 2, 1, 2], {"coverage": choices}, "vvww")[0]
    assert (found.n, found.n_videos, found.n_raters) == (2, 1, 2)
    estimates = [side[PREFERENCE_ACCURACY] for side in (found.first, found.second, found.difference)]
    assert [each.value for each in estimates] == [1.0, 0.0, -1.0]
    assert (found.p, estimates[2].low) == (None, None)


def test_the_paired_test_swaps_both_scorers_answers_video_by_video() -> None:
    rng = np.random.default_rng(8)
    n_videos, per_video = 8, 3
    first, second = np.arange(0, 2 * n_videos * per_video, 2), np.arange(1, 2 * n_videos * per_video, 2)
    videos = np.repeat(np.arange(n_videos), per_video)
    choices = Preferences.build(first, second, np.ones(first.size), ["ann"] * first.size, videos.tolist())
    one, other = rng.normal(size=2 * first.size), rng.normal(size=2 * first.size)
    one[first] += 3
    other[first] += 0.5
    right = [(side[first] > side[second]).astype(float) for side in (one, other)]
    seen = (right[1] - right[0]).sum()
    swaps = np.array(list(itertools.product((1, -1), repeat=n_videos)))[:, videos]
    p = np.mean(np.abs((swaps * (right[1] - right[0])).sum(axis=1)) >= abs(seen))
    aspects = {"coverage": choices, "constant": choices.filter_rows(np.zeros(first.size, dtype=np.bool_))}
    found, nothing = compare_with_people(one, other, aspects, range(one.size))
    assert 0 < found.p < 0.9
    assert (found.p, found.p_holm) == (pytest.approx(p), found.p), "one test alone needs no correction"
    assert (nothing.p, nothing.p_holm) == (None, None)


@pytest.mark.parametrize(("second", "better"), [([1, 1], [1]), ([1], [2])])
def test_answers_that_are_none_are_refused(second: list[int], better: list[int]) -> None:
    with pytest.raises(ValueError, match=r"give as many of each|which caption is better"):
        Preferences.build([0], second, better, ["ann"], ["v"])


# How many more ratings are needed.


def test_the_forecast_shrinks_the_error_with_the_square_root_of_the_ratings() -> None:
    left = np.random.default_rng(0).normal(0.2, 0.01, 50)
    n_more = compute_items_needed(0.05, left, 100)
    assert n_more is not None
    error = math.sqrt(49 * left.var()) / math.sqrt((100 + n_more) / 100)
    # Quantiles of Student's t with 49 degrees of freedom.
    assert 0.05 / error == pytest.approx(2.009575 + 0.848978, rel=0.01)
    assert compute_items_needed(-0.05, left, 100) == n_more
    assert compute_items_needed(5.0, left, 100) == 0
    assert compute_items_needed(0.0, left, 100) is None
    assert compute_items_needed(0.1, np.full(50, np.nan), 100) is None


def worlds(n: int, shares: tuple[float, float], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The difference of two accuracies on n answers, (n,), and each answer's block: a video for every answer."""
    rng = np.random.default_rng(seed)
    one, other = (rng.random(n) < share for share in shares)
    return one.astype(float) - other, draw_blocks(np.arange(n), seed)


def test_in_simulation_the_forecast_is_about_right() -> None:
    shares = (0.7, 0.6)
    wanted = (2.009575 + 0.848978) ** 2 * (0.7 * 0.3 + 0.6 * 0.4) / 0.1**2
    forecasts, n_found = [], 0
    for seed in range(200):
        difference, block = worlds(100, shares, seed)
        n_more = compute_items_needed(float(difference.mean()), jackknife_means(difference, block), 100)
        forecasts.append(math.inf if n_more is None else 100 + n_more)
        difference, block = worlds(round(wanted), shares, 1000 + seed)
        left = jackknife_means(difference, block)
        n_found += abs(difference.mean()) > 2.009575 * math.sqrt(49 * left.var())
    assert 0.7 < np.median(forecasts) / wanted < 1.4
    assert 0.72 < n_found / 200 < 0.88, "so many ratings find the difference with a chance of 80 %"


def test_in_simulation_looking_again_and_again_rarely_tells_equal_metrics_apart() -> None:
    n_wrong = 0
    for seed in range(150):
        difference, _ = worlds(300, (0.65, 0.65), seed)
        looks = [(difference[:n], draw_blocks(np.arange(n), 0)) for n in range(30, 301, 30)]
        n_wrong += any(
            compute_items_needed(float(d.mean()), jackknife_means(d, block), d.size) == 0 for d, block in looks
        )
    assert n_wrong / 150 < 0.08


def test_the_best_metric_races_the_best_of_all_others() -> None:
    rng = np.random.default_rng(3)
    truth = rng.normal(size=400)
    values = {"good": truth + rng.normal(size=400), "noise": rng.normal(size=400)}
    baselines = {"length": truth + 3 * rng.normal(size=400), "cosine": np.full(400, np.nan)}
    ratings = np.stack([truth + rng.normal(size=400) for _ in range(2)], axis=1)
    found = compute_rating_progress(values, baselines, ratings, [place // 2 for place in range(400)])
    assert list(found.estimates) == ["good", "length", "noise", "cosine"]
    assert (found.estimates["cosine"][0].value, found.estimates["cosine"][1]) == (None, 0)
    assert found.lead is not None
    assert (found.lead.first, found.lead.second, found.lead.state, found.lead.n_more) == (
        "good",
        "length",
        "apart",
        None,
    )
    assert found.ceiling is not None
    assert found.ceiling.value == pytest.approx(0.33, abs=0.08)


def test_equal_metrics_end_as_alike_and_few_videos_claim_nothing() -> None:
    rng = np.random.default_rng(4)
    truth = rng.normal(size=3000)
    a = truth + rng.normal(size=3000)
    ratings = (truth + rng.normal(size=3000))[:, None]
    found = compute_rating_progress({"a": a, "b": a + rng.normal(scale=0.01, size=3000)}, {}, ratings, range(3000))
    assert found.lead is not None
    assert (found.lead.state, found.lead.n_more, found.ceiling) == ("alike", None, None)
    few = compute_rating_progress({"a": a[:18], "b": -a[:18]}, {}, ratings[:18], [place % 9 for place in range(18)])
    assert few.lead is not None
    assert (few.lead.state, few.lead.n_videos) == ("few videos", 9)
    assert [(each.low, each.high) for each, _ in few.estimates.values()] == [(None, None)] * 2
    # Only those that people judged count.
    two = np.stack([np.where(np.arange(60) < 36, ratings[:60, 0], np.nan)] * 2, axis=1)
    videos = [place // 4 for place in range(60)]
    judged = compute_rating_progress({"a": a[:60]}, {}, two, videos)
    assert judged.ceiling is not None
    assert (judged.estimates["a"][0].low, judged.ceiling.low) == (None, None)
    two[36] = 1.0
    judged = compute_rating_progress({"a": a[:60]}, {}, two, videos)
    assert judged.ceiling is not None
    assert None not in (judged.estimates["a"][0].low, judged.ceiling.low)
    assert compute_rating_progress({"a": a[:9]}, {}, ratings[:9], range(9)).lead is None


def test_preferences_race_alike() -> None:
    rng = np.random.default_rng(5)
    truth = rng.normal(size=(200, 2))
    choices = Preferences.build(
        range(0, 400, 2), range(1, 400, 2), np.sign(truth[:, 0] - truth[:, 1]), ["ann"] * 200, range(200)
    )
    values = {"a": truth.ravel() + rng.normal(size=400), "b": rng.normal(size=400)}
    found = compute_rating_progress(values, {}, choices, range(400))
    assert found.lead is not None
    assert (found.lead.first, found.lead.state, found.ceiling) == ("a", "apart", None)
