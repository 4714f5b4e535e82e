"""The jackknife over videos: Student's t on means, and intervals that hold the truth as often as they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from metrics_core.agreement.groupings import ComparedValues, compute_pooled
from metrics_core.arrays import FloatArray
from metrics_core.intervals import (
    BLOCKS,
    Estimate,
    JackknifeStatistics,
    average_over_raters,
    draw_blocks,
    jackknife_estimate,
    jackknife_means,
    jackknife_p_value,
)


def test_up_to_so_many_videos_are_blocks_of_their_own() -> None:
    video = np.repeat(np.arange(BLOCKS), 3)
    blocks = draw_blocks(video, 5)
    assert len(set(zip(video.tolist(), blocks.tolist(), strict=True))) == BLOCKS == len(set(blocks.tolist()))


def test_more_videos_are_dealt_evenly_and_alike_for_equal_seeds() -> None:
    video = np.arange(3 * BLOCKS + 7)
    assert set(np.bincount(draw_blocks(video, 5)).tolist()) == {3, 4}
    assert (draw_blocks(video, 5) == draw_blocks(video, 5)).all()
    assert (draw_blocks(video, 5) != draw_blocks(video, 6)).any()


def test_the_interval_of_a_mean_is_students() -> None:
    values = np.random.default_rng(0).normal(size=7)
    left_out = jackknife_means(values, np.arange(7) + 3)
    found = jackknife_estimate(float(values.mean()), left_out, (-9, 9))
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, 6, values.mean(), stats.sem(values)))
    assert jackknife_p_value(float(values.mean()), left_out) == pytest.approx(stats.ttest_1samp(values, 0).pvalue)


@pytest.mark.parametrize("left_out", [[], [0.5], [np.nan, 0.5, np.nan]])
def test_one_block_tells_nothing(left_out: list[float]) -> None:
    assert jackknife_estimate(0.4, np.array(left_out)) == Estimate(0.4, None, None)
    assert jackknife_p_value(0.4, np.array(left_out)) is None


def test_without_a_value_nothing_is_said() -> None:
    assert jackknife_estimate(None, np.array([0.1, 0.2])) == Estimate(None, None, None)
    assert jackknife_p_value(None, np.array([0.1, 0.2])) is None


def world(rng: np.random.Generator, n_videos: int, knowledge: float) -> tuple[FloatArray, FloatArray]:
    """A metric and people (videos, 4) whose captions resemble each other inside a video, on both sides."""
    shared, own, other = (rng.normal(size=(n_videos, 1)) + rng.normal(size=(n_videos, 4)) for _ in range(3))
    return knowledge * shared + own, knowledge * shared + other


@pytest.mark.parametrize(("n_videos", "knowledge"), [(3, 0.0), (5, 1.0), (12, 0.0), (12, 2.0)])
def test_the_interval_holds_the_truth_as_often_as_it_says(n_videos: int, knowledge: float) -> None:
    rng = np.random.default_rng(7)
    truth = stats.kendalltau(*(side.ravel() for side in world(rng, 20_000, knowledge))).statistic if knowledge else 0.0
    video, held = np.repeat(np.arange(n_videos), 4), 0
    for _ in range(300):
        metric, people = (side.ravel() for side in world(rng, n_videos, knowledge))
        found = compute_pooled(ComparedValues(metric, people, video, video, video), ("kendall_b",)).compute_estimate(
            "kendall_b"
        )
        assert found.low is not None
        assert found.high is not None
        held += found.low <= truth <= found.high
    # Three standard errors of 300 draws are .038.
    assert 0.91 <= held / 300 <= 0.99


def of_rater(value: float | None, left_out: list[float]) -> dict[str, JackknifeStatistics]:
    padded = np.full(BLOCKS, np.nan)
    padded[: len(left_out)] = left_out
    return {"pooled": JackknifeStatistics({"x": value}, {"x": padded}, {"x": 4}, {"x": 0}, 2)}


def test_raters_are_averaged_block_by_block() -> None:
    # The second rater rated nothing of the first block: without it their value stays.
    found = average_over_raters([of_rater(0.2, [0.1, 0.3]), of_rater(0.6, [np.nan, 0.5]), of_rater(None, [])])["pooled"]
    assert found.values["x"] == pytest.approx(0.4)
    assert found.jackknife_values["x"][:3] == pytest.approx([0.35, 0.4, np.nan], nan_ok=True)
    assert average_over_raters([]) == {}


def test_raters_count_by_their_weights() -> None:
    raters = [of_rater(0.2, [0.1, 0.3]), of_rater(0.6, [np.nan, 0.5]), of_rater(None, [])]
    found = average_over_raters(raters, [3, 1, 9])["pooled"]
    assert found.values["x"] == pytest.approx(0.3)
    assert found.jackknife_values["x"][:3] == pytest.approx([0.225, 0.35, np.nan], nan_ok=True)
