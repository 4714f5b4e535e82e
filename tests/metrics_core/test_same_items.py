"""A metric beside raters and baselines on its own items, against SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from metrics_core.agreement import compute_agreement_rows
from metrics_core.agreement.baseline_comparison import BaselineComparison, build_baseline_comparisons

N, VIDEOS = 80, 16


@pytest.fixture(scope="module")
def drawn() -> dict[str, np.ndarray]:
    """Quality, a metric close to it that lacks some values, a negative baseline, and two raters."""
    rng = np.random.default_rng(3)
    quality = rng.normal(size=N)
    metric = quality + rng.normal(scale=0.4, size=N)
    metric[::5] = np.nan
    return {
        "metric": metric,
        "length": -quality + rng.normal(scale=1.0, size=N),
        "noise": rng.normal(size=N),
        "ratings": np.round(np.stack([quality, quality]) + rng.normal(scale=0.5, size=(2, N)), 1).T,
        "videos": np.arange(N) % VIDEOS,
    }


def on_same_items(metric: Any, baselines: dict[str, Any], ratings: Any, videos: list[Any]) -> BaselineComparison:
    """How metric m stands beside baselines and raters, as the agreement table has it."""
    return build_baseline_comparisons(
        compute_agreement_rows({"m": metric}, {"q": ratings}, videos, baselines=baselines)
    )["q", "m"]


@pytest.fixture(scope="module")
def found(drawn: dict[str, np.ndarray]) -> BaselineComparison:
    baselines = {"length": drawn["length"], "noise": drawn["noise"]}
    return on_same_items(drawn["metric"], baselines, drawn["ratings"], drawn["videos"].tolist())


def test_everything_is_measured_on_the_metrics_items(drawn: dict[str, np.ndarray], found: BaselineComparison) -> None:
    kept = np.isfinite(drawn["metric"])
    people = np.round(drawn["ratings"][kept].mean(axis=1), 9)
    assert found.coefficient.n == kept.sum() == 64
    assert found.coefficient.value == pytest.approx(stats.kendalltau(drawn["metric"][kept], people).statistic)
    assert found.strongest_baseline is not None
    assert found.strongest_baseline.name == "length"
    assert found.strongest_baseline.value == pytest.approx(-stats.kendalltau(drawn["length"][kept], people).statistic)
    one, other = drawn["ratings"][kept].T
    assert found.ceiling is not None
    assert found.ceiling.value == pytest.approx(stats.kendalltau(one, other).statistic)


def t_interval(value: float, without: list[float]) -> tuple[float, float]:
    """Student's t from the values without each video."""
    n = len(without)
    half = stats.t.ppf(0.975, n - 1) * np.sqrt((n - 1) * np.var(without))
    return value - half, value + half


def test_the_differences_leave_the_same_videos_out(drawn: dict[str, np.ndarray], found: BaselineComparison) -> None:
    kept = np.isfinite(drawn["metric"])
    metric, length, ratings = drawn["metric"][kept], drawn["length"][kept], drawn["ratings"][kept]
    people, video = np.round(ratings.mean(axis=1), 9), drawn["videos"][kept]
    from_baseline, from_rater = [], []
    for each in range(VIDEOS):
        rows = video != each
        tau = stats.kendalltau(metric[rows], people[rows]).statistic
        from_baseline.append(tau + stats.kendalltau(length[rows], people[rows]).statistic)
        # Of two raters, one more rater and the metric are both held against the other one.
        beside = [stats.kendalltau(metric[rows], rater).statistic for rater in ratings[rows].T]
        from_rater.append(np.mean(beside) - stats.kendalltau(*ratings[rows].T).statistic)
    assert found.n_videos == VIDEOS
    for above, without in ((found.above_baseline, from_baseline), (found.above_rater, from_rater)):
        assert above is not None
        assert above.value is not None
        assert (above.low, above.high) == pytest.approx(t_interval(above.value, without))
        t = above.value / np.sqrt((VIDEOS - 1) * np.var(without))
        assert above.p == pytest.approx(2 * stats.t.sf(abs(t), VIDEOS - 1))


def test_without_a_baseline_or_a_second_rater_there_is_none(drawn: dict[str, np.ndarray]) -> None:
    ratings, videos = drawn["ratings"][:, :1], drawn["videos"].tolist()
    one = on_same_items(drawn["metric"], {}, ratings, videos)
    assert (one.ceiling, one.strongest_baseline, one.above_baseline, one.above_rater) == (None, None, None, None)
    constant = on_same_items(np.ones(N), {"c": np.zeros(N)}, ratings, videos)
    assert (constant.coefficient.value, constant.strongest_baseline, constant.coefficient.n) == (None, None, N)


def test_an_empty_side_is_undefined() -> None:
    one = on_same_items([np.nan, np.nan], {"c": [1, 2]}, [[1], [2]], ["a", "b"])
    assert (one.coefficient.value, one.coefficient.n, one.above_baseline, one.n_videos) == (None, 0, None, 0)


def test_the_rows_have_the_sign_of_a_baseline_and_the_chances(
    drawn: dict[str, np.ndarray], found: BaselineComparison
) -> None:
    baselines = {"length": drawn["length"], "noise": drawn["noise"]}
    rows = compute_agreement_rows(
        {"m": drawn["metric"]}, {"q": drawn["ratings"]}, drawn["videos"].tolist(), baselines=baselines
    )
    by_key = {(row.metric, row.against, row.statistic): row for row in rows if row.over == "captions"}
    own = by_key["m", "length", "kendall_b_rival"]
    assert found.strongest_baseline is not None
    assert (own.value, own.low, own.high) == (
        -found.strongest_baseline.value,
        -found.strongest_baseline.high,
        -found.strongest_baseline.low,
    )
    assert (own.baseline, own.n, own.n_undefined) == (False, 64, 16)
    # Of all captions, the baseline is another number.
    assert own.value != by_key["length", "people", "kendall_b"].value
    difference = by_key["m", "length", "kendall_b_difference"]
    assert found.above_baseline is not None
    assert (difference.p, difference.n_videos) == (found.above_baseline.p, VIDEOS)
