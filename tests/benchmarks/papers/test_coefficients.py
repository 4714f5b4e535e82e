"""Coefficients that only papers print, by hand, against SciPy, and as FRANK has them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchmarks.papers.coefficients import (
    compute_others,
    compute_pairwise_accuracy,
    compute_partial,
    compute_soft_accuracy,
    compute_tau_c,
    correlate,
    subtract_length_trend,
    subtract_system_means,
)
from metrics_core.agreement.groupings import ComparedValues
from metrics_core.arrays import FloatArray, number_groups
from metrics_core.intervals import draw_blocks


def test_tau_c_and_pairwise_accuracy_by_hand() -> None:
    metric, people = np.array([1.0, 2, 3, 4, 5, 5]), np.array([1.0, 3, 2, 4, 4, 6])
    assert compute_tau_c(metric, people) == pytest.approx(0.763889, abs=1e-6)
    assert compute_pairwise_accuracy(metric, people) == 0.8
    assert (compute_tau_c(np.ones(3), np.arange(3.0)), compute_pairwise_accuracy(np.ones(1), np.ones(1))) == (
        None,
        None,
    )


def test_correlations_leave_out_missing_values_and_have_intervals_over_videos() -> None:
    rng = np.random.default_rng(3)
    people = rng.integers(1, 6, 60).astype(float)
    metric = people + rng.normal(scale=2, size=60)
    metric[:6] = np.nan
    cells = correlate(metric, people, np.repeat(np.arange(20), 3).tolist())
    by_scipy = {"spearman": stats.spearmanr, "pearson": stats.pearsonr, "kendall_b": stats.kendalltau}
    for name, function in by_scipy.items():
        assert cells[name]["ours"] == pytest.approx(function(metric[6:], people[6:]).statistic)
    assert {cell["n"] for cell in cells.values()} == {54}
    assert all(cell["low"] < cell["ours"] < cell["high"] for cell in cells.values())


def test_all_other_coefficients_have_a_value() -> None:
    rng = np.random.default_rng(4)
    ratings = rng.integers(1, 6, (24, 2)).astype(float)
    groups = np.repeat(np.arange(8), 3).tolist(), np.tile(np.arange(3), 8).tolist()
    found = compute_others(rng.normal(size=24), ratings, *groups, rng.integers(3, 9, 24).astype(float))
    assert len(found) == 12
    assert None not in found.values()


def soft_accuracy(metric: FloatArray, people: FloatArray, n_resamples: int = 1000) -> float | None:
    """The soft pairwise accuracy of values and ratings by system and video."""
    system, video = (index.ravel() for index in np.indices(metric.shape))
    return compute_soft_accuracy(metric.ravel(), people.ravel(), system, video, n_resamples, seed=0)


def test_soft_pairwise_accuracy_by_hand() -> None:
    metric, people = np.array([[0.9, 0.4, 0.6], [0.5, 0.5, 0.5]]), np.array([[3, 4, 5], [2, 3, 5]])
    assert soft_accuracy(metric, people) == 0.875


def p_by_hand(first: list[float], second: list[float]) -> float:
    gaps = np.subtract(first, second)
    flips = [float(np.dot(signs, gaps)) for signs in itertools.product((1, -1), repeat=len(gaps))]
    return float(np.mean([total >= gaps.sum() - 1e-9 for total in flips]))


def test_soft_pairwise_accuracy_of_three_systems() -> None:
    rng = np.random.default_rng(1)
    metric, people = rng.normal(size=(3, 5)), rng.integers(1, 6, (3, 5)).astype(float)
    gaps = [
        abs(p_by_hand(people[i], people[j]) - p_by_hand(metric[i], metric[j]))
        for i, j in itertools.combinations(range(3), 2)
    ]
    assert soft_accuracy(metric, people) == pytest.approx(1 - np.mean(gaps), abs=1e-12)


def test_soft_pairwise_accuracy_by_sampling_is_near_the_exact_one() -> None:
    rng = np.random.default_rng(2)
    metric, people = rng.normal(size=(2, 12)), rng.normal(size=(2, 12))
    exact = 1 - abs(p_by_hand(people[0], people[1]) - p_by_hand(metric[0], metric[1]))
    assert soft_accuracy(metric, people, n_resamples=20000) == pytest.approx(exact, abs=0.02)


def test_systems_without_a_common_video_have_no_soft_accuracy() -> None:
    sides = np.array([1.0, 2]), np.array([1.0, 2])
    assert compute_soft_accuracy(*sides, np.array([0, 1]), np.array([0, 1]), 1000, seed=0) is None
    assert compute_soft_accuracy(*sides, np.array([0, 0]), np.array([0, 1]), 1000, seed=0) is None


def test_removed_length_is_a_linear_regression() -> None:
    rng = np.random.default_rng(5)
    lengths, values = rng.integers(3, 30, 40).astype(float), rng.normal(size=40)
    values += lengths / 4
    line = stats.linregress(lengths, values)
    expected = values - line.intercept - line.slope * lengths
    assert subtract_length_trend(values, lengths) == pytest.approx(expected, abs=1e-9)


def test_what_only_depends_on_length_has_nothing_left() -> None:
    assert not subtract_length_trend([0.3, 0.6, 0.9, 1.5], [1, 2, 3, 5]).any()


def test_frank(shared_data: Path) -> None:
    """The partial correlations of the FRANK paper, and the plain ones beside them by SciPy."""
    people = json.loads((shared_data / "frank" / "human_annotations.json").read_text())
    outputs = json.loads((shared_data / "frank" / "baseline_factuality_metrics_outputs.json").read_text())
    by_key = {(row["hash"], row["model_name"]): row for row in outputs}
    expected = {"FactCC": (0.2039, 0.3041), "BertScore P Art": (0.2711, 0.2432), "Meteor": (0.1370, 0.1053)}
    metrics = {name: [by_key[row["hash"], row["model_name"]][name] for row in people] for name in expected}
    truth = [row["Factuality"] for row in people]
    video, system = number_groups([row["hash"] for row in people]), number_groups([row["model_name"] for row in people])
    for name, (pearson, spearman) in expected.items():
        sides = ComparedValues(np.array(metrics[name]), np.array(truth), video, system, draw_blocks(video, 0))
        partial = compute_partial(sides, lambda side, rows: subtract_system_means(side, system[rows]))
        assert list(partial.values.values()) == [pytest.approx(each, abs=5e-5) for each in (pearson, spearman)]
        for each in map(partial.compute_estimate, partial.values):
            assert each.low <= each.value <= each.high
        plain = correlate(metrics[name], truth, video.tolist())["kendall_b"]
        assert (plain["ours"], plain["n"]) == (pytest.approx(stats.kendalltau(metrics[name], truth)[0]), 2246)
    assert subtract_system_means([1.0, 3.0, 5.0], np.array([0, 0, 1])).tolist() == [-1, 1, 0]


def test_of_two_videos_nothing_is_left_without_system_means() -> None:
    metric, people = np.array([1.0, 2, 3, 5, 4, 9]), np.array([1.0, 2, 2, 4, 3, 5])
    video, system = np.repeat([0, 1], 3), np.tile([0, 1, 2], 2)
    sides = ComparedValues(metric, people, video, system, video)
    partial = compute_partial(sides, lambda side, rows: subtract_system_means(side, system[rows]))
    # Without one of the videos each system has one caption, which is its mean.
    estimates = [partial.compute_estimate(name) for name in partial.values]
    assert {(each.low, each.high) for each in estimates} == {(None, None)}
    assert [each.value for each in estimates] == [pytest.approx(1.0, abs=0.2)] * 2
