"""A metric beside raters and baselines on its own items, against SciPy and a plain bootstrap."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from metrics_core.agreement.same_items import SameItems, on_same_items

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


@pytest.fixture(scope="module")
def found(drawn: dict[str, np.ndarray]) -> SameItems:
    baselines = {"length": drawn["length"], "noise": drawn["noise"]}
    return on_same_items({"m": drawn["metric"]}, baselines, drawn["ratings"], drawn["videos"].tolist())["m"]


def test_everything_is_measured_on_the_metrics_items(drawn: dict[str, np.ndarray], found: SameItems) -> None:
    kept = np.isfinite(drawn["metric"])
    people = np.round(drawn["ratings"][kept].mean(axis=1), 9)
    assert found.found.n == kept.sum() == 64
    assert found.found.value == pytest.approx(stats.kendalltau(drawn["metric"][kept], people).statistic)
    assert found.strongest is not None
    assert found.strongest.name == "length"
    assert found.strongest.value == pytest.approx(-stats.kendalltau(drawn["length"][kept], people).statistic)
    one, other = drawn["ratings"][kept].T
    assert found.ceiling is not None
    assert found.ceiling.value == pytest.approx(stats.kendalltau(one, other).statistic)


def test_the_difference_is_resampled_in_pairs(drawn: dict[str, np.ndarray], found: SameItems) -> None:
    kept = np.isfinite(drawn["metric"])
    metric, length = drawn["metric"][kept], drawn["length"][kept]
    people, video = np.round(drawn["ratings"][kept].mean(axis=1), 9), drawn["videos"][kept]
    rng = np.random.default_rng(5)
    differences = []
    for _ in range(800):
        rows = np.concatenate([np.flatnonzero(video == each) for each in rng.integers(VIDEOS, size=VIDEOS)])
        both = [stats.kendalltau(side[rows], people[rows]).statistic for side in (metric, length)]
        differences.append(both[0] + both[1])
    low, high = np.quantile(differences, [0.025, 0.975])
    assert found.difference is not None
    assert found.difference.low == pytest.approx(low, abs=0.15 * (high - low))
    assert found.difference.high == pytest.approx(high, abs=0.15 * (high - low))


def test_without_a_baseline_or_a_second_rater_there_is_none(drawn: dict[str, np.ndarray]) -> None:
    ratings, videos = drawn["ratings"][:, :1], drawn["videos"].tolist()
    one = on_same_items({"m": drawn["metric"]}, {}, ratings, videos)["m"]
    assert (one.ceiling, one.strongest, one.difference) == (None, None, None)
    constant = on_same_items({"m": np.ones(N)}, {"c": np.zeros(N)}, ratings, videos)["m"]
    assert (constant.found.value, constant.strongest, constant.found.n) == (None, None, N)


def test_an_empty_side_is_undefined() -> None:
    one = on_same_items({"m": [np.nan, np.nan]}, {"c": [1, 2]}, [[1], [2]], ["a", "b"])["m"]
    assert (one.found.value, one.found.n, one.difference) == (None, 0, None)
