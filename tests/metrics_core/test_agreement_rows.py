"""The list of rows that a table and a report hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchmarks.rank_agreement import mean_correlation, system_agreement
from metrics_core.agreement import (
    AgreementRow,
    build_label_rows,
    compute_agreement_rows,
)
from metrics_core.agreement.coefficients import kendall_p_value
from metrics_core.agreement.raters import MOST_RATERS, compute_alphas
from metrics_core.agreement.row import ONE_RATER, PEOPLE, RATERS

NAN = math.nan
N_VIDEOS, SYSTEMS = 30, ("a", "b", "c", "d")


def world(seed: int = 0) -> dict[str, Any]:
    """Four systems on thirty videos: a metric that follows people, noise, and three raters."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(N_VIDEOS, 1)) + np.arange(4) / 2 + rng.normal(size=(N_VIDEOS, 4))
    ratings = np.clip(np.round(truth.ravel()[:, None] + rng.normal(scale=0.7, size=(N_VIDEOS * 4, 3)) + 3), 1, 5)
    return {
        "metrics": {"good": truth.ravel() + rng.normal(size=N_VIDEOS * 4), "noise": rng.normal(size=N_VIDEOS * 4)},
        "ratings": {"quality": ratings},
        "videos": np.repeat(np.arange(N_VIDEOS), 4).tolist(),
        "systems": list(SYSTEMS) * N_VIDEOS,
        "baselines": {"words": rng.integers(5, 20, N_VIDEOS * 4)},
    }


def keyed(**changes: Any) -> dict[tuple[str, str, str, str], AgreementRow]:
    rows = compute_agreement_rows(**(world() | changes))
    by_key = {(row.metric, row.over, row.against, row.statistic): row for row in rows}
    assert len(by_key) == len(rows)
    return by_key


def rows_of(**changes: Any) -> dict[tuple[str, str, str], AgreementRow]:
    """The rows against people."""
    return {(key[0], key[1], key[3]): row for key, row in keyed(**changes).items() if key[2] == PEOPLE}


OWN = [
    ("captions", PEOPLE, "kendall_b"),
    ("captions", PEOPLE, "tied_pairs"),
    ("captions", PEOPLE, "pairwise_accuracy_calibrated"),
    ("within a video", PEOPLE, "kendall_b"),
    ("systems", PEOPLE, "kendall_b"),
]


def test_every_metric_is_compared_over_captions_videos_and_systems_and_against_its_rivals() -> None:
    rows = keyed()
    against = [
        ("captions", "words", "kendall_b_rival"),
        ("captions", "words", "kendall_b_difference"),
        ("captions", ONE_RATER, "kendall_b"),
        ("captions", ONE_RATER, "kendall_b_rival"),
        ("captions", ONE_RATER, "kendall_b_difference"),
    ]
    for metric, expected in (("good", OWN + against), ("words", OWN), (ONE_RATER, OWN)):
        assert [key[1:] for key in rows if key[0] == metric] == expected
    assert {key[0] for key, row in rows.items() if row.baseline} == {"words"}
    assert {row.n_videos for row in rows.values()} == {N_VIDEOS}


def test_p_values_are_of_tau_b() -> None:
    rows = keyed(systems=["a", "b", "c", "d", "e", "f"] * 20)
    for key, row in rows.items():
        assert (row.p is None) != key[3].startswith("kendall"), key
    of_systems = rows["good", "systems", PEOPLE, "kendall_b"]
    assert (of_systems.n, of_systems.p) == (6, kendall_p_value(of_systems.value, 6))
    own = rows["good", "captions", PEOPLE, "kendall_b"]
    half = (own.high - own.value) / stats.t.ppf(0.975, N_VIDEOS - 1)
    assert own.p == pytest.approx(2 * stats.t.sf(own.value / half, N_VIDEOS - 1))
    assert rows_of()["good", "systems", "kendall_b"].p is None, "four systems are too few"


def test_values_are_those_of_the_single_functions() -> None:
    world_ = world()
    people, rows = world_["ratings"]["quality"].mean(axis=1).round(9), rows_of()
    metric, systems, videos = world_["metrics"]["good"], world_["systems"], world_["videos"]
    assert rows["good", "captions", "kendall_b"].value == pytest.approx(stats.kendalltau(metric, people).statistic)
    means, by_video = mean_correlation(metric, people, videos), rows["good", "within a video", "kendall_b"]
    assert (by_video.value, by_video.n_undefined) == (pytest.approx(means.kendall), means.n_undefined)
    of_systems = system_agreement(metric, people, systems, videos)
    assert rows["good", "systems", "kendall_b"].value == of_systems.kendall
    ordinal = rows[RATERS, "captions", "krippendorff_ordinal"]
    raters = world_["ratings"]["quality"]
    assert ordinal.value == compute_alphas(raters, np.zeros(len(raters), dtype=np.int64)).values["krippendorff_ordinal"]
    assert ordinal.low < ordinal.value < ordinal.high
    ceiling = [
        stats.kendalltau(raters[:, i], np.delete(raters, i, axis=1).mean(axis=1)).statistic
        for i in range(raters.shape[1])
    ]
    assert rows[ONE_RATER, "captions", "kendall_b"].value == pytest.approx(np.mean(ceiling))


def test_intervals_hold_the_value_and_noise_holds_zero() -> None:
    rows = rows_of()
    for key, row in rows.items():
        if row.low is not None:
            assert row.low <= row.value <= row.high, key
    assert rows["good", "captions", "kendall_b"].low > 0
    assert rows["noise", "within a video", "kendall_b"].low < 0 < rows["noise", "within a video", "kendall_b"].high


def test_a_missing_number_leaves_out_its_item_alone() -> None:
    metric = world()["metrics"]["good"].copy()
    metric[:5] = NAN
    rows = rows_of(metrics={"good": metric})
    for key, n, n_undefined in (
        (("good", "captions"), 115, 5),
        (("words", "captions"), 120, 0),
        (("good", "within a video"), 29, 1),
    ):
        row = rows[key[0], key[1], "kendall_b"]
        assert (row.n, row.n_undefined, row.n_videos) == (n, n_undefined, 29 if key[0] == "good" else N_VIDEOS)


@pytest.mark.parametrize(
    "changes",
    [
        {"ratings": {"quality": np.full((120, 3), 3.0)}},
        {"ratings": {"quality": np.full((120, 2), NAN)}},
        {"metrics": {"good": np.full(120, NAN)}},
        {"metrics": {"good": np.ones(120)}},
    ],
)
def test_what_is_constant_or_missing_has_no_coefficient(changes: dict[str, Any]) -> None:
    for key, row in rows_of(**changes).items():
        if key[0] == "good" and key[2] == "kendall_b":
            assert (row.value, row.low, row.high, row.p) == (None, None, None, None), key


def test_of_a_crowd_the_raters_with_most_ratings_count_alone() -> None:
    ratings = np.full((120, MOST_RATERS + 2), NAN)
    rng = np.random.default_rng(2)
    for rater in range(MOST_RATERS + 2):
        # The first rater and the last one gave least.
        n = 3 if rater in (0, MOST_RATERS + 1) else 60
        ratings[rng.choice(120, n, replace=False), rater] = rng.integers(1, 6, n)
    taus, shared = [], []
    for place in range(1, MOST_RATERS + 1):
        rest = np.delete(ratings[:, 1:-1], place - 1, axis=1)
        both = np.isfinite(ratings[:, place]) & np.isfinite(rest).any(axis=1)
        means = np.nanmean(rest[both], axis=1).round(9)
        taus.append(stats.kendalltau(ratings[both, place], means).statistic)
        shared.append(both.sum())
    row = rows_of(ratings={"quality": ratings})[ONE_RATER, "captions", "kendall_b"]
    assert row.value == pytest.approx(np.average(taus, weights=shared))


def test_a_constant_baseline_has_no_tau() -> None:
    rows = rows_of(baselines={"majority": np.zeros(120)})
    defined = {key[2] for key, row in rows.items() if key[0] == "majority" and row.value is not None}
    assert defined == {"tied_pairs", "pairwise_accuracy_calibrated"}
    tied = rows["majority", "captions", "tied_pairs"]
    assert (tied.value, tied.low, tied.high) == (1.0, 1.0, 1.0)


def test_the_share_of_tied_pairs_is_what_counting_gives() -> None:
    metric = np.round(world()["metrics"]["good"])
    tied = rows_of(metrics={"good": metric})["good", "captions", "tied_pairs"]
    assert tied.value == pytest.approx(np.mean([metric[i] == metric[j] for i in range(120) for j in range(i)]))
    assert tied.low >= 0


def test_one_rater_one_system_one_video() -> None:
    one_rater = keyed(ratings={"quality": world()["ratings"]["quality"][:, :1]})
    assert not any(ONE_RATER in key for key in one_rater)
    assert one_rater[RATERS, "captions", PEOPLE, "krippendorff_ordinal"].value is None
    one_system = rows_of(systems=["a"] * 120)["good", "systems", "kendall_b"]
    assert (one_system.value, one_system.n) == (None, 1)
    assert {key[1] for key in keyed(systems=None)} == {"captions", "within a video"}
    one_video = rows_of(videos=[1] * 120)["good", "captions", "kendall_b"]
    assert one_video.value is not None
    assert (one_video.low, one_video.high, one_video.p) == (None, None, None)


def test_equal_seeds_give_equal_rows_and_the_order_of_items_changes_no_value() -> None:
    rows, original = keyed(), world()
    assert rows == keyed()
    shuffled = np.random.default_rng(1).permutation(120)
    changed = keyed(
        metrics={name: values[shuffled] for name, values in original["metrics"].items()},
        ratings={"quality": original["ratings"]["quality"][shuffled]},
        videos=[original["videos"][i] for i in shuffled],
        systems=[original["systems"][i] for i in shuffled],
        baselines={"words": original["baselines"]["words"][shuffled]},
    )
    for key, row in changed.items():
        # It draws at random itself which video is in which half.
        if key[3] != "pairwise_accuracy_calibrated":
            assert row.value == pytest.approx(rows[key].value, abs=1e-9), key


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metrics": {"good": [1.0]}}, "a number for every one of the 120 items"),
        ({"metrics": {"good": np.full(120, np.inf)}}, "infinite"),
        ({"ratings": {"quality": [[1.0]]}}, "ratings of 1 items"),
        ({"baselines": {"good": np.ones(120)}}, "names a metric and a baseline"),
        ({"systems": ["a"]}, "There are 1 systems for 120 items"),
    ],
)
def test_wrong_input_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compute_agreement_rows(**(world() | changes))


# Labels


def test_label_rows_by_hand() -> None:
    labels, predicted = [1, 1, 1, 0, 0, 1], [1, 0, 1, 0, 1, 1]
    rows = build_label_rows({"ECS": predicted}, labels, ["a", "a", "b", "b", "c", "c"])
    found = {(row.metric, row.statistic): row for row in rows}
    assert found["ECS", "accuracy"].value == pytest.approx(4 / 6)
    assert found["ECS", "f1"].value == pytest.approx(3 / 4)
    assert found["ECS", "kappa"].value == pytest.approx(1 / 4)
    assert (found["majority label", "accuracy"].value, found["always yes", "f1"].value) == (pytest.approx(4 / 6), 0.8)
    assert (found["always yes", "mcc"].value, found["always yes", "mcc"].low) == (None, None)
    assert [row.baseline for row in rows] == [False] * 4 + [True] * 8
    assert all(row.n == 6 for row in rows)


def test_label_intervals_are_students_t_over_videos() -> None:
    rng = np.random.default_rng(6)
    labels, predicted = rng.random(40) < 0.5, rng.random(40) < 0.5
    videos = np.repeat(np.arange(8), 5)
    row = build_label_rows({"m": predicted}, labels, videos.tolist(), seed=3)[0]
    by_video = (labels == predicted).reshape(8, 5).mean(axis=1)
    expected = stats.t.interval(0.95, 7, by_video.mean(), stats.sem(by_video))
    assert (row.low, row.high) == pytest.approx(expected)


def test_label_rows_refuse_the_name_of_a_baseline() -> None:
    with pytest.raises(ValueError, match="name of a baseline"):
        build_label_rows({"always yes": [1]}, [1], ["a"])
