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
from metrics_core.agreement.raters import MOST_RATERS, compute_alphas
from metrics_core.agreement.row import ONE_RATER, RATERS
from metrics_core.arrays import FloatArray

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
        "lengths": rng.integers(5, 20, N_VIDEOS * 4),
        "baselines": {"words": rng.integers(5, 20, N_VIDEOS * 4)},
    }


def rows_of(n_resamples: int = 200, **changes: Any) -> dict[tuple[str, str, str], AgreementRow]:
    rows = compute_agreement_rows(**(world() | changes), n_resamples=n_resamples)
    keyed = {(row.metric, row.grouping, row.statistic): row for row in rows}
    assert len(keyed) == len(rows)
    return keyed


def test_every_grouping_has_its_statistics() -> None:
    rows = rows_of(20)
    groupings = {grouping: sum(key[:2] == ("good", grouping) for key in rows) for _, grouping, _ in rows}
    assert groupings == {
        "pooled": 8,
        "above one rater": 2,
        "above words": 2,
        "beside one rater": 2,
        "where good has a value": 0,
        "where noise has a value": 0,
        "pooled by rater": 6,
        "pooled without one rater": 1,
        "per_video": 7,
        "per_system": 7,
        "within_system": 6,
        "pooled without length": 2,
        "pooled without system means": 2,
    }
    assert {metric: rows[metric, "pooled", "pearson"].baseline for metric in ("good", "words", ONE_RATER)} == {
        "good": False,
        "words": True,
        ONE_RATER: False,
    }


def test_values_are_those_of_the_single_functions() -> None:
    world_ = world()
    people, rows = world_["ratings"]["quality"].mean(axis=1).round(9), rows_of()
    metric, systems, videos = world_["metrics"]["good"], world_["systems"], world_["videos"]
    assert rows["good", "pooled", "kendall_b"].value == pytest.approx(stats.kendalltau(metric, people).statistic)
    for grouping, groups in (("per_video", videos), ("within_system", systems)):
        means = mean_correlation(metric, people, groups)
        assert rows["good", grouping, "spearman"].value == pytest.approx(means.spearman)
        assert rows["good", grouping, "kendall_b"].value == pytest.approx(means.kendall)
        assert rows["good", grouping, "kendall_b"].n_undefined == means.n_undefined
    of_systems = system_agreement(metric, people, systems, videos)
    assert rows["good", "per_system", "kendall_b"].value == of_systems.kendall
    ordinal = rows[RATERS, "pooled", "krippendorff_ordinal"]
    raters = world_["ratings"]["quality"]
    assert ordinal.value == compute_alphas(raters, np.zeros(len(raters), dtype=np.int64)).values["krippendorff_ordinal"]
    assert ordinal.low < ordinal.value < ordinal.high
    by_rater = rows["good", "pooled by rater", "kendall_b"]
    taus = [stats.kendalltau(metric, rater).statistic for rater in raters.T]
    assert (by_rater.value, by_rater.n) == (pytest.approx(np.mean(taus)), 120)
    assert by_rater.low < by_rater.value < by_rater.high
    ceiling = [
        stats.pearsonr(raters[:, i], np.delete(raters, i, axis=1).mean(axis=1)).statistic
        for i in range(raters.shape[1])
    ]
    assert rows[ONE_RATER, "pooled", "pearson"].value == pytest.approx(np.mean(ceiling))


def test_intervals_hold_the_value_and_noise_holds_zero() -> None:
    rows = rows_of()
    for (metric, grouping, statistic), row in rows.items():
        if row.low is not None and grouping.startswith("pooled"):
            assert row.low <= row.value <= row.high, (metric, grouping, statistic)
    assert rows["good", "pooled", "kendall_b"].low > 0
    assert rows["noise", "within_system", "kendall_b"].low < 0 < rows["noise", "within_system", "kendall_b"].high


def test_a_missing_number_leaves_out_its_item_alone() -> None:
    metric = world()["metrics"]["good"].copy()
    metric[:5] = NAN
    rows = rows_of(20, metrics={"good": metric})
    assert (rows["good", "pooled", "pearson"].n, rows["good", "pooled", "pearson"].n_undefined) == (115, 5)
    assert (rows["words", "pooled", "pearson"].n, rows["words", "pooled", "pearson"].n_undefined) == (120, 0)
    assert (rows["good", "per_video", "pearson"].n, rows["good", "per_video", "pearson"].n_undefined) == (29, 1)


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
    for key, row in rows_of(10, **changes).items():
        if key[0] == "good" and not key[2].startswith(("tied", "pairwise", "soft")):
            assert (row.value, row.low, row.high) == (None, None, None), key


def test_of_a_crowd_the_raters_with_most_ratings_count_alone() -> None:
    ratings = np.full((120, MOST_RATERS + 2), NAN)
    rng = np.random.default_rng(2)
    for rater in range(MOST_RATERS + 2):
        # The first rater and the last one gave least.
        n = 3 if rater in (0, MOST_RATERS + 1) else 60
        ratings[rng.choice(120, n, replace=False), rater] = rng.integers(1, 6, n)
    row = rows_of(5, ratings={"quality": ratings})["good", "pooled by rater", "pearson"]
    metric = world()["metrics"]["good"]
    expected = []
    for rater in ratings.T[1:-1]:
        given = np.isfinite(rater)
        expected.append(stats.pearsonr(metric[given], rater[given]).statistic)
    assert row.value == pytest.approx(np.mean(expected))
    assert row.n == 60


def test_a_constant_baseline_has_pairwise_accuracies_alone() -> None:
    rows = rows_of(10, baselines={"majority": np.zeros(120)})
    people = world()["ratings"]["quality"].mean(axis=1).round(9)
    ties = np.mean([people[i] == people[j] for i in range(120) for j in range(i)])
    assert rows["majority", "pooled", "pairwise_accuracy"].value == pytest.approx(ties)
    defined = {key[2] for key, row in rows.items() if key[0] == "majority" and row.value is not None}
    of_pairs = {"tied_pairs", "pairwise_accuracy", "pairwise_accuracy_calibrated"}
    assert defined == {*of_pairs, "soft_pairwise_accuracy"}
    tied = rows["majority", "pooled", "tied_pairs"]
    assert (tied.value, tied.low, tied.high) == (1.0, 1.0, 1.0)


def test_the_share_of_tied_pairs_is_what_counting_gives() -> None:
    metric = np.round(world()["metrics"]["good"])
    rows, systems = rows_of(10, metrics={"good": metric}), np.array(world()["systems"])

    def tied(values: FloatArray) -> float:
        return float(np.mean([values[i] == values[j] for i in range(values.size) for j in range(i)]))

    assert rows["good", "pooled", "tied_pairs"].value == pytest.approx(tied(metric))
    by_video = [tied(each) for each in metric.reshape(N_VIDEOS, 4)]
    assert rows["good", "per_video", "tied_pairs"].value == pytest.approx(np.mean(by_video))
    of_systems = [tied(metric[systems == system]) for system in SYSTEMS]
    assert rows["good", "within_system", "tied_pairs"].value == pytest.approx(np.mean(of_systems))
    assert rows["good", "pooled", "tied_pairs"].low >= 0


def test_one_rater_one_system_one_video() -> None:
    one_rater = rows_of(10, ratings={"quality": world()["ratings"]["quality"][:, :1]})
    assert not any(metric == ONE_RATER or grouping == "pooled by rater" for metric, grouping, _ in one_rater)
    assert one_rater[RATERS, "pooled", "krippendorff_ordinal"].value is None
    one_system = rows_of(10, systems=["a"] * 120)
    assert one_system["good", "per_system", "kendall_b"].value is None
    assert one_system["good", "per_system", "kendall_b"].n == 1
    values = [one_system["good", grouping, "pearson"].value for grouping in ("within_system", "pooled")]
    assert values[0] == pytest.approx(values[1])
    no_system = rows_of(10, systems=None)
    assert {grouping for _, grouping, _ in no_system} == {
        "pooled",
        "pooled by rater",
        "pooled without one rater",
        "per_video",
        "pooled without length",
        "above one rater",
        "above words",
        "beside one rater",
        "where good has a value",
        "where noise has a value",
    }
    one_video = rows_of(10, videos=[1] * 120)["good", "pooled", "pearson"]
    assert one_video.value is not None
    assert (one_video.low, one_video.high) == (None, None)


def test_equal_seeds_give_equal_rows_and_the_order_of_items_changes_no_value() -> None:
    rows, original = rows_of(20), world()
    assert rows == rows_of(20)
    shuffled = np.random.default_rng(1).permutation(120)
    changed = rows_of(
        20,
        metrics={name: values[shuffled] for name, values in original["metrics"].items()},
        ratings={"quality": original["ratings"]["quality"][shuffled]},
        videos=[original["videos"][i] for i in shuffled],
        systems=[original["systems"][i] for i in shuffled],
        lengths=original["lengths"][shuffled],
        baselines={"words": original["baselines"]["words"][shuffled]},
    )
    for key, row in changed.items():
        # These two draw at random themselves: which video is in which half, and which signs are flipped.
        if key[2] not in ("pairwise_accuracy_calibrated", "soft_pairwise_accuracy"):
            assert row.value == pytest.approx(rows[key].value, abs=1e-9), key


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metrics": {"good": [1.0]}}, "a number for every one of the 120 items"),
        ({"metrics": {"good": np.full(120, np.inf)}}, "infinite"),
        ({"ratings": {"quality": [[1.0]]}}, "ratings of 1 items"),
        ({"baselines": {"good": np.ones(120)}}, "names a metric and a baseline"),
        ({"lengths": np.full(120, NAN)}, "A length is NaN"),
        ({"systems": ["a"]}, "There are 1 systems for 120 items"),
    ],
)
def test_wrong_input_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compute_agreement_rows(**(world() | changes), n_resamples=2)


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


def test_of_two_videos_nothing_is_left_without_system_means() -> None:
    metric, people = [1.0, 2, 3, 5, 4, 9], [[1.0], [2], [2], [4], [3], [5]]
    rows = compute_agreement_rows({"m": metric}, {"q": people}, ["a"] * 3 + ["b"] * 3, ["x", "y", "z"] * 2)
    found = {row.statistic: row for row in rows if row.grouping == "pooled without system means" and row.metric == "m"}
    # Without one of the videos each system has one caption, which is its mean.
    assert {(row.low, row.high) for row in found.values()} == {(None, None)}
    assert all(row.value == pytest.approx(1.0, abs=0.2) for row in found.values())
