"""The agreement table's engine: resamples by weights against resamples written out and given to SciPy."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from metrics_core.agreement import weighted
from metrics_core.agreement.coefficients import STATISTICS, coefficients
from metrics_core.agreement.groupings import Sides, per_system, per_video, pooled, within_system
from metrics_core.agreement.groups import SMALL, by_group
from metrics_core.agreement.inversions import discordant_pairs, merges_of
from metrics_core.agreement.resampling import Draws, dense_ranks, draw
from metrics_core.agreement.weighted import resampled_coefficients

# Few different values, so that ties are common; a video, a system.
ITEMS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=14
)


def sides_of(items: list[tuple[int, int, int, int]]) -> Sides:
    metric, people, video, system = np.array(items).T
    return Sides(metric / 1.0, people / 1.0, video, system)


def written_out(metric: list[float], people: list[float], copy_of: list[int]) -> dict[str, float]:
    """Every statistic by SciPy, and pairwise accuracy by a loop over pairs of different items; NaN where undefined."""
    names = ("pearson", "spearman", "kendall_b", "kendall_c")
    found = dict.fromkeys(names, math.nan)
    if len(set(metric)) > 1 and len(set(people)) > 1:
        found = {
            "pearson": stats.pearsonr(metric, people).statistic,
            "spearman": stats.spearmanr(metric, people).statistic,
            "kendall_b": stats.kendalltau(metric, people).statistic,
            "kendall_c": stats.kendalltau(metric, people, variant="c").statistic,
        }
    pairs = [(i, j) for i, j in combinations(range(len(metric)), 2) if copy_of[i] != copy_of[j]]
    right = [np.sign(metric[i] - metric[j]) == np.sign(people[i] - people[j]) for i, j in pairs]
    return {**found, "pairwise_accuracy": float(np.mean(right)) if pairs else math.nan}


def of_items(sides: Sides, rows: list[int]) -> dict[str, float]:
    return written_out(sides.metric[rows].tolist(), sides.people[rows].tolist(), rows)


def drawn_rows(sides: Sides, draws: Draws, resample: int, only: Any = True) -> list[int]:
    """The items of a resample, each as often as it was drawn."""
    times = draws.videos[resample][sides.video]
    if draws.systems is not None:
        times = times * np.where(sides.system >= 0, draws.systems[resample][sides.system], 0)
    return np.repeat(np.arange(sides.video.size), (times * only).astype(int)).tolist()


def same(found: dict[str, Any], expected: dict[str, float]) -> None:
    assert {name: float(found[name]) for name in expected} == pytest.approx(expected, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("resampled", ["videos", "videos and systems"])
@given(ITEMS, st.integers(0, 5))
@settings(max_examples=40)
def test_pooled_resamples_are_those_written_out(
    resampled: Any, items: list[tuple[int, int, int, int]], seed: int
) -> None:
    sides = sides_of(items)
    draws = draw(4, 3, resampled, 5, seed)
    found = pooled(sides, draws)
    for resample in range(5):
        rows = drawn_rows(sides, draws, resample)
        same({name: found.resampled[name][resample] for name in STATISTICS}, of_items(sides, rows))


@given(ITEMS, st.integers(0, 5))
@settings(max_examples=40)
def test_points_are_scipys(items: list[tuple[int, int, int, int]], seed: int) -> None:
    sides = sides_of(items)
    whole = of_items(sides, list(range(sides.video.size)))
    found = {
        name: math.nan if value is None else value for name, value in coefficients(sides.metric, sides.people).items()
    }
    same(found, whole)
    groups = by_group(sides.metric, sides.people, sides.video, 4)
    for video in range(4):
        rows = np.flatnonzero(sides.video == video).tolist()
        same({name: groups[name][video] for name in STATISTICS}, of_items(sides, rows))


def test_large_groups_have_the_values_of_small_ones() -> None:
    rng = np.random.default_rng(3)
    metric, people = rng.integers(0, 9, (2, SMALL + 1)) / 1.0
    sides = Sides(metric, people, np.zeros(SMALL + 1, dtype=np.int64), np.zeros(SMALL + 1, dtype=np.int64))
    large = by_group(sides.metric, sides.people, sides.video, 1)
    weights = np.ones((1, 1))
    for name, values in resampled_coefficients(metric, people, sides.video, weights).items():
        assert values[0] == pytest.approx(large[name][0], abs=1e-12)


def grouped(sides: Sides, draws: Draws, resample: int, group: Any, weight: Any) -> dict[str, float]:
    """The weighted mean of the groups' statistics in a resample, each group written out."""
    sums = {name: [0.0, 0.0] for name in STATISTICS}
    for number in range(4):
        if weight[number] == 0:
            continue
        found = of_items(sides, drawn_rows(sides, draws, resample, group == number))
        for name, value in found.items():
            if math.isfinite(value):
                sums[name][0] += weight[number] * value
                sums[name][1] += weight[number]
    return {name: total / count if count else math.nan for name, (total, count) in sums.items()}


@pytest.mark.parametrize("resampled", ["videos", "videos and systems"])
@given(ITEMS, st.integers(0, 5))
@settings(max_examples=40)
def test_grouped_resamples_are_those_written_out(
    resampled: Any, items: list[tuple[int, int, int, int]], seed: int
) -> None:
    sides = sides_of(items)
    draws = draw(4, 3, resampled, 4, seed)
    inside_video = Draws(np.ones((4, 4)), draws.systems, 0)
    inside_system = Draws(draws.videos, None, 0)
    for resample in range(4):
        by_video = grouped(sides, inside_video, resample, sides.video, draws.videos[resample])
        same({name: values[resample] for name, values in per_video(sides, draws).resampled.items()}, by_video)
        weight = np.ones(4) if draws.systems is None else np.append(draws.systems[resample], 0)
        by_system = grouped(sides, inside_system, resample, sides.system, weight)
        same({name: values[resample] for name, values in within_system(sides, draws).resampled.items()}, by_system)


@pytest.mark.parametrize("resampled", ["videos", "videos and systems"])
@given(ITEMS, st.integers(0, 5))
@settings(max_examples=40)
def test_resampled_system_means_are_those_written_out(
    resampled: Any, items: list[tuple[int, int, int, int]], seed: int
) -> None:
    sides = sides_of(items)
    draws = draw(4, 3, resampled, 4, seed)
    found = per_system(sides, draws).resampled
    present = [system for system in range(3) if (sides.system == system).any()]
    for resample in range(4):
        times = np.ones(3) if draws.systems is None else draws.systems[resample]
        drawn = np.repeat(present, times[present].astype(int)).tolist()
        means = []
        for system in drawn:
            weights = draws.videos[resample][sides.video] * (sides.system == system)
            total = weights.sum()
            means.append(
                [
                    round(float(weights @ side) / total, 9) if total else math.nan
                    for side in (sides.metric, sides.people)
                ]
            )
        expected = dict.fromkeys(STATISTICS, math.nan)
        if means and not np.isnan(means).any():
            metric, people = np.array(means).T.tolist()
            expected = written_out(metric, people, drawn)
        same({name: values[resample] for name, values in found.items()}, expected)


def test_discordant_pairs_are_those_of_all_pairs() -> None:
    rng = np.random.default_rng(0)
    for n_x, n_y, n in ((5, 5, 30), (40, 3, 60), (2, 50, 33), (1, 9, 12), (64, 64, 64)):
        x, y = dense_ranks(rng.integers(0, n_x, n)), dense_ranks(rng.integers(0, n_y, n))
        weights = rng.integers(0, 3, (n, 6)) / 1.0
        expected = np.zeros(6)
        for i, j in combinations(range(n), 2):
            if (x[i] - x[j]) * (y[i] - y[j]) < 0:
                expected += weights[i] * weights[j]
        assert discordant_pairs(merges_of(x, y), weights).tolist() == expected.tolist()


def test_batches_of_resamples_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    metric, people, cluster = rng.integers(0, 9, 40) / 1.0, rng.integers(0, 5, 40) / 1.0, rng.integers(0, 7, 40)
    weights = rng.integers(0, 3, (7, 6)) / 1.0
    whole = resampled_coefficients(metric, people, cluster, weights)
    for cells in (90, 1):
        monkeypatch.setattr(weighted, "CELLS", cells)
        for name, values in resampled_coefficients(metric, people, cluster, weights).items():
            assert values.tolist() == pytest.approx(whole[name].tolist(), nan_ok=True)
