"""Resamples to first order: exact for the data as they are, right in their slope, and near the exact intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics_core.agreement.coefficients import STATISTICS, coefficients
from metrics_core.agreement.first_order import MANY_LEVELS, first_order_coefficients
from metrics_core.agreement.groupings import EXACT, Sides, of_drawn_videos
from metrics_core.agreement.resampling import draw
from metrics_core.agreement.weighted import resampled_coefficients
from metrics_core.arrays import FloatArray, IntArray


def rated(n_videos: int, per_video: int, levels: int, seed: int) -> tuple[FloatArray, FloatArray, IntArray]:
    """A metric and ratings that know a common quality, in videos that share a part of it."""
    rng = np.random.default_rng(seed)
    video = np.repeat(np.arange(n_videos), per_video)
    quality = rng.normal(size=n_videos)[video] + rng.normal(size=video.size)
    metric = np.round(quality + rng.normal(size=video.size), 2)
    people = np.round((quality + rng.normal(size=video.size)) * levels / 6)
    return metric, people, video


@given(st.integers(2, 12), st.integers(1, 4), st.integers(2, 9), st.integers(0, 99))
@settings(max_examples=30)
def test_the_data_as_they_are_have_their_own_values(n_videos: int, per_video: int, levels: int, seed: int) -> None:
    metric, people, video = rated(n_videos, per_video, levels, seed)
    expected = coefficients(metric, people)
    for name, values in first_order_coefficients(metric, people, video, np.ones((n_videos, 1))).items():
        assert values[0] == pytest.approx(np.nan if expected[name] is None else expected[name], abs=1e-9, nan_ok=True)


@given(st.integers(3, 12), st.integers(1, 4), st.integers(0, 99))
@settings(max_examples=30)
def test_small_changes_of_weights_change_the_values_alike(n_videos: int, per_video: int, seed: int) -> None:
    metric, people, video = rated(n_videos, per_video, 9, seed)
    step = 1e-4
    weights = 1 + step * np.random.default_rng(seed).normal(size=(n_videos, 5))
    exact = resampled_coefficients(metric, people, video, weights)
    for name, values in first_order_coefficients(metric, people, video, weights).items():
        # What first order leaves out is of the order of the step squared; without a slope it would be the step.
        assert values == pytest.approx(exact[name], abs=500 * step**2, nan_ok=True), name


@pytest.mark.parametrize("levels", [3, 9, 4 * MANY_LEVELS])
def test_intervals_of_many_items_are_the_exact_ones(levels: int) -> None:
    metric, people, video = rated(1001, 5, levels, 1)
    weights = draw(1001, 0, "videos", 500, 0).videos.T
    exact = resampled_coefficients(metric, people, video, weights)
    for name, values in first_order_coefficients(metric, people, video, weights).items():
        low, high = np.quantile(exact[name], (0.025, 0.975))
        limits = pytest.approx((low, high), abs=0.04 * (high - low))
        assert tuple(np.quantile(values, (0.025, 0.975))) == limits, name


def test_tau_c_counts_the_levels_of_every_resample() -> None:
    metric, people, video = rated(400, 2, 5, 2)
    people[video == 7] = 40
    weights = draw(400, 0, "videos", 40, 0).videos.T
    exact = resampled_coefficients(metric, people, video, weights)["kendall_c"]
    found = first_order_coefficients(metric, people, video, weights)["kendall_c"]
    absent = weights[7] == 0
    # With a level less tau-c is bigger by some 4 %; first order alone is nearer than that.
    assert absent.any()
    assert found[absent] == pytest.approx(exact[absent], rel=0.02)


def test_more_items_than_are_resampled_exactly_go_to_first_order() -> None:
    draws = draw(1001, 0, "videos", 5, 0)
    for n_videos, compute in ((1000, resampled_coefficients), (1001, first_order_coefficients)):
        metric, people, video = rated(n_videos, EXACT // 1000, 9, 3)
        found = of_drawn_videos(Sides(metric, people, video, video), draws)
        expected = compute(metric, people, video, draws.videos.T)
        assert {name: found[name].tolist() for name in STATISTICS} == {
            name: expected[name].tolist() for name in STATISTICS
        }
