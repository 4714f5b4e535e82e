"""The interval of a mean over clusters against regression on a constant, a table of Student's t, and a bootstrap."""

from __future__ import annotations

import math

import numpy as np
import pytest

from metrics_core.arrays import FloatArray
from metrics_core.intervals import mean_interval

# Of a printed table: 97.5 % of Student's t with so many degrees of freedom.
T_975 = {1: 12.706, 2: 4.303, 3: 3.182, 5: 2.571, 10: 2.228, 30: 2.042}


def standard_error(clusters: list[FloatArray]) -> tuple[float, float]:
    """Mean and cluster-robust error of a regression on a constant, by its matrices: (X'X)^-1 X'uu'X (X'X)^-1."""
    y = np.concatenate(clusters)
    x = np.ones((y.size, 1))
    bread = np.linalg.inv(x.T @ x)
    mean = float((bread @ x.T @ y)[0])
    meat = np.zeros((1, 1))
    for cluster in clusters:
        inside = np.ones((cluster.size, 1))
        moment = inside.T @ (cluster - mean)[:, None]
        meat += moment @ moment.T
    g = len(clusters)
    return mean, math.sqrt(float((bread @ meat @ bread)[0, 0]) * g / (g - 1))


@pytest.mark.parametrize(("degrees", "t"), T_975.items())
def test_half_the_width_is_students_t_times_the_error(degrees: int, t: float) -> None:
    found = mean_interval(0.25, 0.5, degrees + 1)
    assert found is not None
    assert found == pytest.approx((0.25 - 0.5 * t, 0.25 + 0.5 * t), rel=3e-4, abs=3e-4)


def test_with_many_clusters_it_is_the_interval_of_a_bootstrap_over_them() -> None:
    rng = np.random.default_rng(5)
    clusters = [rng.normal(0.6, 0.1) + rng.normal(0, 0.05, size=rng.integers(1, 8)) for _ in range(300)]
    mean, error = standard_error(clusters)
    found = mean_interval(mean, error, len(clusters))
    sums, counts = np.array([c.sum() for c in clusters]), np.array([c.size for c in clusters])
    drawn = rng.integers(len(clusters), size=(4000, len(clusters)))
    low, high = np.quantile(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1), [0.025, 0.975])
    assert found == pytest.approx((low, high), abs=0.05 * (high - low))
    # One sample each: as if all were independent, it would be half as wide.
    every = np.concatenate(clusters)
    assert high - low > 1.5 * 2 * 1.96 * every.std() / math.sqrt(every.size)


def test_it_holds_the_mean_as_often_as_it_says_even_with_few_clusters() -> None:
    rng = np.random.default_rng(6)
    held = 0
    for _ in range(400):
        clusters = [0.5 + rng.normal(0, 0.1) + rng.normal(0, 0.05, size=3) for _ in range(5)]
        mean, error = standard_error(clusters)
        low, high = mean_interval(mean, error, 5) or (math.nan, math.nan)
        held += low <= 0.5 <= high
    assert 0.92 <= held / 400 <= 0.98


def test_no_limit_lies_outside_the_range_of_the_values() -> None:
    assert mean_interval(0.9, 0.1, 2, (0.0, 1.0)) == (0.0, 1.0)
    assert mean_interval(0.9, 0.01, 2, (0.0, 1.0)) == (pytest.approx(0.9 - 0.12706, abs=1e-5), 1.0)


@pytest.mark.parametrize(("error", "n_clusters"), [(None, 1), (None, 0), (0.1, 1), (0.0, 9), (1e-17, 9)])
def test_one_cluster_or_equal_clusters_have_no_interval(error: float | None, n_clusters: int) -> None:
    assert mean_interval(0.5, error, n_clusters) is None
