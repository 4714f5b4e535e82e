"""A metric beside raters and baselines on its own items, against SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from metrics_core.agreement import compute_agreement_rows
from metrics_core.agreement.row import DIFFERENCE, ONE_RATER, PEOPLE, RIVAL, SIMPLE, AgreementRow, index_comparisons

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


Rows = dict[tuple[str, str], AgreementRow]


def on_same_items(metric: Any, baselines: dict[str, Any], ratings: Any, videos: list[Any]) -> Rows:
    """How metric m stands beside baselines and raters, as the agreement table has it."""
    rows = compute_agreement_rows({"m": metric}, {"q": ratings}, videos, baselines=baselines)
    return index_comparisons(row for row in rows if row.metric == "m")


@pytest.fixture(scope="module")
def found(drawn: dict[str, np.ndarray]) -> Rows:
    baselines = {"length": drawn["length"], "noise": drawn["noise"]}
    return on_same_items(drawn["metric"], baselines, drawn["ratings"], drawn["videos"].tolist())


def test_everything_is_measured_on_the_metrics_items(drawn: dict[str, np.ndarray], found: Rows) -> None:
    kept = np.isfinite(drawn["metric"])
    people = np.round(drawn["ratings"][kept].mean(axis=1), 9)
    own, strongest = found[PEOPLE, "kendall_b"], found[SIMPLE, RIVAL]
    assert own.n == kept.sum() == 64
    assert own.value == pytest.approx(stats.kendalltau(drawn["metric"][kept], people).statistic)
    # The strongest simple score keeps its sign, and is another number than of all captions.
    assert (strongest.against, strongest.baseline, strongest.n, strongest.n_undefined) == ("length", False, 64, 16)
    assert strongest.value == pytest.approx(stats.kendalltau(drawn["length"][kept], people).statistic)
    one, other = drawn["ratings"][kept].T
    assert found[ONE_RATER, RIVAL].value == pytest.approx(stats.kendalltau(one, other).statistic)


def t_interval(value: float, without: list[float]) -> tuple[float, float]:
    """Student's t from the values without each video."""
    n = len(without)
    half = stats.t.ppf(0.975, n - 1) * np.sqrt((n - 1) * np.var(without))
    return value - half, value + half


def test_the_differences_leave_the_same_videos_out(drawn: dict[str, np.ndarray], found: Rows) -> None:
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
    for rival, without in ((SIMPLE, from_baseline), (ONE_RATER, from_rater)):
        above = found[rival, DIFFERENCE]
        assert above.value is not None
        assert above.n_videos == VIDEOS
        assert (above.low, above.high) == pytest.approx(t_interval(above.value, without))
        t = above.value / np.sqrt((VIDEOS - 1) * np.var(without))
        assert above.p == pytest.approx(2 * stats.t.sf(abs(t), VIDEOS - 1))


def test_without_a_baseline_or_a_second_rater_there_is_none(drawn: dict[str, np.ndarray]) -> None:
    ratings, videos = drawn["ratings"][:, :1], drawn["videos"].tolist()
    one = on_same_items(drawn["metric"], {}, ratings, videos)
    assert {rival for rival, _ in one} == {PEOPLE}
    constant = on_same_items(np.ones(N), {"c": np.zeros(N)}, ratings, videos)
    assert {rival for rival, _ in constant} == {PEOPLE}
    assert (constant[PEOPLE, "kendall_b"].value, constant[PEOPLE, "kendall_b"].n) == (None, N)


def test_an_empty_side_is_undefined() -> None:
    one = on_same_items([np.nan, np.nan], {"c": [1, 2]}, [[1], [2]], ["a", "b"])
    row = one[PEOPLE, "kendall_b"]
    assert ({rival for rival, _ in one}, row.value, row.n, row.n_videos) == ({PEOPLE}, None, 0, 0)
