"""Noise shares, separation and recovered segments against cases by hand and brute force."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, spearmanr

from benchmarks.papers.noise import noise_share, noise_with_interval
from benchmarks.papers.over_raters import over_raters
from benchmarks.papers.recovered import recovered_segments
from benchmarks.papers.separation import FOLDS, accuracy, area, folds_of, thresholds
from benchmarks.qeva_matchers import auc
from metrics_core.intervals import jackknife_estimate


def test_noise_by_hand() -> None:
    scores, noisy = np.array([8.0, 7, 6, 5, 4, 3, 2, 1]), np.array([0, 1, 0, 0, 1, 1, 0, 1], dtype=bool)
    assert noise_share(scores, noisy, 0.25) == 0.5
    assert noise_share(scores, noisy, 0.125) == 0.0
    assert noise_share(scores, noisy, 1.0) == 0.5


def test_constant_scores_let_in_the_noise_of_the_data() -> None:
    noisy = np.array([True, False, False, True, False, False, False, False])
    assert noise_share(np.zeros(8), noisy, 0.125) == 0.25


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=2, max_size=6), st.sampled_from([1, 2]))
def test_ties_are_the_mean_over_their_orders(items: list[tuple[int, bool]], room: int) -> None:
    scores, noisy = np.array([s for s, _ in items], dtype=float), np.array([n for _, n in items])
    orders = [p for p in permutations(range(len(items))) if all(scores[a] >= scores[b] for a, b in pairwise(p))]
    expected = np.mean([noisy[list(order[:room])].mean() for order in orders])
    assert noise_share(scores, noisy, room / len(items)) == pytest.approx(expected)


def test_a_resample_without_a_video_leaves_its_items_out() -> None:
    scores, noisy = np.array([4.0, 3, 2, 1]), np.array([True, True, False, False])
    assert noise_share(scores, noisy, 0.5, np.array([0.0, 0, 1, 1])) == 0.0
    value, low, high = noise_with_interval(scores, noisy, 0.5, ["a", "a", "b", "b"])
    # Without a video the other one's items alone are left: no noise, or nothing else.
    assert (value, low, high) == (1.0, 0.0, 1.0)


def test_area_by_hand() -> None:
    valid = np.array([True, True, False, False])
    found = area(np.array([0.9, 0.4, 0.5, 0.4]), valid, ["a", "b", "a", "b"])
    # Of the four pairs two and a half are ordered: .9 over both, .4 tied with .4.
    assert (found.value, found.n) == (0.625, 4)


def test_the_area_is_that_of_ranks_without_each_group() -> None:
    rng = np.random.default_rng(5)
    scores, valid, groups = rng.integers(0, 6, 60).astype(float), rng.random(60) < 0.4, [str(i // 4) for i in range(60)]
    found = area(scores, valid, groups)
    assert found.value == pytest.approx(auc(scores, valid))
    kept = [np.array(groups) != str(i) for i in range(15)]
    expected = jackknife_estimate(
        found.value, np.array([auc(scores[rows], valid[rows]) for rows in kept]), bounds=(0, 1)
    )
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_a_threshold_comes_from_other_texts() -> None:
    groups = [f"g{i}" for i in range(40) for _ in range(2)]
    scores = np.array([0.8, 0.2] * 40)
    valid = np.array([True, False] * 40)
    own = folds_of(groups) == folds_of(["g0"])[0]
    # In the fold of g0 everything is the other way round: a threshold chosen there would get it right.
    valid[own] = ~valid[own]
    assert set(thresholds(scores, valid, groups)[own]) == {0.8}
    assert accuracy(scores, valid, groups).value == pytest.approx(1 - own.mean())


def test_texts_of_a_group_share_a_fold() -> None:
    assert len(set(folds_of(["a", "a", "a"]).tolist())) == 1
    assert set(folds_of([str(i) for i in range(200)]).tolist()) == set(range(FOLDS))


def test_the_mean_over_raters_is_scipys() -> None:
    rng = np.random.default_rng(3)
    values, ratings = rng.normal(size=30), rng.integers(1, 6, (30, 3)).astype(float)
    found = over_raters(values, ratings, [i // 3 for i in range(30)])
    assert found["kendall_b"].value == pytest.approx(np.mean([kendalltau(values, r).statistic for r in ratings.T]))
    assert found["spearman"].value == pytest.approx(np.mean([spearmanr(values, r).statistic for r in ratings.T]))
    low, high = found["spearman"].low, found["spearman"].high
    assert low is not None
    assert high is not None
    assert low < high


BASE = ["A man in a red coat enters the hall.", "He doesn't look back.", "Two dogs follow him up the stairs."]


def test_reordered_sentences_are_cut_apart() -> None:
    text = "Two dogs follow him up the stairs A man in a red coat enters the hall"
    assert recovered_segments(text, BASE) == [
        "Two dogs follow him up the stairs",
        "A man in a red coat enters the hall",
    ]


def test_words_that_were_changed_stay_with_the_segment_before_them() -> None:
    text = "Two dogs follow him up the stairs He does not look back A man in a red coat enters the hall"
    assert recovered_segments(text, BASE) == [
        "Two dogs follow him up the stairs He does not look back",
        "A man in a red coat enters the hall",
    ]


def test_a_repeated_sentence_is_two_segments() -> None:
    text = "Two dogs follow him up the stairs Two dogs follow him up the stairs"
    assert recovered_segments(text, BASE) == ["Two dogs follow him up the stairs"] * 2


def test_the_order_of_the_base_is_cut_at_its_sentence_ends() -> None:
    text = "A man in a red coat enters the hall He doesnt look back Two dogs follow him up the stairs"
    assert recovered_segments(text, BASE) == [
        "A man in a red coat enters the hall",
        "He doesnt look back",
        "Two dogs follow him up the stairs",
    ]


@given(st.permutations(range(5)), st.integers(0, 3))
def test_no_word_is_lost(order: list[int], skipped: int) -> None:
    sentences = [f"w{i}a w{i}b w{i}c w{i}d." for i in range(5)]
    text = " ".join(sentences[i].rstrip(".") for i in order[skipped:])
    found = recovered_segments(text, sentences)
    assert " ".join(found) == text
    assert found == [sentences[i].rstrip(".") for i in order[skipped:]]


def test_foreign_text_is_one_segment() -> None:
    assert recovered_segments("nothing of this was told", BASE) == ["nothing of this was told"]
    assert recovered_segments("", BASE) == []
