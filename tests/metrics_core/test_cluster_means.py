"""Means over clusters in batches: the plain means, and intervals as of a bootstrap that holds everything at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from metrics_core.agreement.cluster_means import ClusterMean, cluster_means
from metrics_core.arrays import FloatArray

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


def by_hand(sums: FloatArray, counts: FloatArray, n: int = 4000) -> tuple[FloatArray, FloatArray]:
    """The limits of a plain bootstrap: (2, measures, groups)."""
    rng = np.random.default_rng(99)
    drawn = [rng.integers(len(sums), size=len(sums)) for _ in range(n)]
    means = np.array([sums[each].sum(axis=0) / counts[each].sum(axis=0) for each in drawn])
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return low, high


@pytest.mark.parametrize("size", [7, 20, 60, 1000])
def test_means_and_intervals_are_those_of_a_bootstrap_over_videos(
    data: tuple[FloatArray, FloatArray], size: int
) -> None:
    found = cluster_means(batches(*data, size), (VIDEOS, MEASURES, GROUPS), n_resamples=4000)
    low, high = by_hand(*data)
    means = data[0].sum(axis=0) / data[1].sum(axis=0)
    for measure in range(MEASURES):
        for group in range(GROUPS):
            one = found[measure][group]
            assert one.mean == pytest.approx(means[measure, group])
            assert one.n == data[1][:, measure, group].sum()
            # Two bootstraps of 4,000 resamples differ by some hundredths of the interval's width.
            width = high[measure, group] - low[measure, group]
            assert one.low == pytest.approx(low[measure, group], abs=0.08 * width)
            assert one.high == pytest.approx(high[measure, group], abs=0.08 * width)


def test_best_is_the_share_of_resamples_that_a_group_leads() -> None:
    sums = np.zeros((40, 1, 3))
    sums[:, 0, 0], sums[:, 0, 1] = 1.0, 0.5
    sums[0, 0, 2] = 1.0
    found = cluster_means([(sums, np.ones_like(sums))], (40, 1, 3))[0]
    assert [each.best for each in found] == [1.0, 0.0, 0.0]
    tied = cluster_means([(np.ones((9, 1, 2)), np.ones((9, 1, 2)))], (9, 1, 2))[0]
    assert [each.best for each in tied] == [0.5, 0.5]


def test_what_is_undefined_stays_undefined() -> None:
    sums, counts = np.ones((5, 1, 3)), np.ones((5, 1, 3))
    counts[:, 0, 0] = 0
    counts[1:, 0, 1] = 0
    sums[counts == 0] = 0
    none, single, full = cluster_means([(sums, counts)], (5, 1, 3))[0]
    assert none == ClusterMean(None, None, None, 0, None)
    assert single == ClusterMean(1.0, None, None, 1, None)
    assert (full.low, full.high, full.best) == (1.0, 1.0, 1.0)


def test_the_same_each_time(data: tuple[FloatArray, FloatArray]) -> None:
    shape = (VIDEOS, MEASURES, GROUPS)
    assert cluster_means(batches(*data, 9), shape) == cluster_means(batches(*data, 9), shape)


@pytest.mark.parametrize("shape", [(VIDEOS + 1, MEASURES, GROUPS), (VIDEOS - 1, MEASURES, GROUPS), (VIDEOS, 2, 2)])
def test_batches_of_another_shape_are_refused(data: tuple[FloatArray, FloatArray], shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"clusters"):
        cluster_means(batches(*data, 7), shape)
