"""Means over clusters in batches: the plain means, and Student's t of everything at once."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy import stats

from metrics_core.arrays import FloatArray
from metrics_core.intervals import ClusterMean, compute_cluster_means

VIDEOS, MEASURES, GROUPS = 60, 2, 3


def batches(sums: FloatArray, counts: FloatArray, size: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    for start in range(0, len(sums), size):
        yield sums[start : start + size], counts[start : start + size]


@pytest.fixture
def data() -> tuple[FloatArray, FloatArray]:
    """Sums and counts of videos, some of which hold no value of some group."""
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 4, (VIDEOS, MEASURES, GROUPS)).astype(np.float64)
    return counts * rng.normal(size=(VIDEOS, MEASURES, GROUPS)), counts


def residuals(sums: FloatArray, counts: FloatArray, measure: int, group: int) -> FloatArray:
    """By how much each cluster moves a mean: (clusters,)."""
    own, n = sums[:, measure, group], counts[:, measure, group]
    return (own - own.sum() / n.sum() * n) / n.sum()


@pytest.mark.parametrize("size", [7, 60, 1000])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_means_and_intervals_are_cluster_robust(data: tuple[FloatArray, FloatArray], size: int, shift: float) -> None:
    sums, counts = data[0] + shift * data[1], data[1]
    found = compute_cluster_means(batches(sums, counts, size), (VIDEOS, MEASURES, GROUPS))
    means = data[0].sum(axis=0) / counts.sum(axis=0)
    for measure in range(MEASURES):
        for group in range(GROUPS):
            one, filled = found[measure][group], int((counts[:, measure, group] > 0).sum())
            error = math.sqrt(filled / (filled - 1) * (residuals(*data, measure, group) ** 2).sum())
            half = stats.t.ppf(0.975, filled - 1) * error
            assert (one.n, one.n_clusters) == (counts[:, measure, group].sum(), filled)
            expected = (means[measure, group] - half, means[measure, group], means[measure, group] + half)
            assert (one.low, one.mean, one.high) == pytest.approx([each + shift for each in expected], abs=1e-6)


def test_a_lead_is_a_paired_test_against_the_nearest_group() -> None:
    rng = np.random.default_rng(4)
    # What makes a video hard for all groups does not count.
    sums = rng.normal(size=(20, 1, 1)) * 5 + rng.normal(size=(20, 1, 3)) + np.array([0.5, 1.2, 0.4])
    found = compute_cluster_means([(sums, np.ones_like(sums))], (20, 1, 3))[0]
    chances = [stats.ttest_rel(sums[:, 0, 1], sums[:, 0, other]).pvalue for other in (0, 2)]
    assert [each.lead for each in found] == [None, pytest.approx(max(chances)), None]
    tied = compute_cluster_means([(np.ones((9, 1, 2)), np.ones((9, 1, 2)))], (9, 1, 2))[0]
    assert [each.lead for each in tied] == [1.0, None]
    clear = np.ones((9, 1, 2)) * np.array([0.5, 0.7])
    assert [each.lead for each in compute_cluster_means([(clear, np.ones_like(clear))], (9, 1, 2))[0]] == [None, 0.0]


def test_what_is_undefined_stays_undefined() -> None:
    sums, counts = np.ones((5, 1, 3)), np.ones((5, 1, 3))
    counts[:, 0, 0] = 0
    counts[1:, 0, 1] = 0
    sums[counts == 0] = 0
    none, single, full = compute_cluster_means([(sums, counts)], (5, 1, 3))[0]
    assert none == ClusterMean(None, None, None, 0, 0)
    assert single == ClusterMean(1.0, None, None, 1, 1)
    assert (full.low, full.high, full.lead) == (1.0, 1.0, None)


@pytest.mark.parametrize("shape", [(VIDEOS + 1, MEASURES, GROUPS), (VIDEOS - 1, MEASURES, GROUPS), (VIDEOS, 2, 2)])
def test_batches_of_another_shape_are_refused(data: tuple[FloatArray, FloatArray], shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"clusters"):
        compute_cluster_means(batches(*data, 7), shape)
