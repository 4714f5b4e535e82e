"""The agreement table's engine: statistics without some videos against items written out and given to SciPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metrics_core.agreement import coefficients as engine
from metrics_core.agreement.coefficients import SMALL, STATISTICS, compute_coefficients, compute_group_coefficients
from metrics_core.agreement.groupings import (
    ComparedValues,
    compute_per_system,
    compute_per_video,
    compute_pooled,
    compute_within_system,
)
from metrics_core.intervals import BLOCKS, JackknifeStatistics

# Few different values, so that ties are common; a video, a system.
ITEMS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=14
)


EVERYTHING = np.ones(14, dtype=np.bool_)


def sides_of(items: list[tuple[int, int, int, int]]) -> ComparedValues:
    """The items, of which every video is a block of its own."""
    metric, people, video, system = np.array(items).T
    return ComparedValues(metric / 1.0, people / 1.0, video, system, video + 7)


def written_out(metric: list[float], people: list[float]) -> dict[str, float]:
    """Every statistic by SciPy, and pairwise accuracy by a loop over pairs; NaN where undefined."""
    names = ("pearson", "spearman", "kendall_b", "kendall_c")
    found = dict.fromkeys(names, math.nan)
    if len(set(metric)) > 1 and len(set(people)) > 1:
        found = {
            "pearson": stats.pearsonr(metric, people).statistic,
            "spearman": stats.spearmanr(metric, people).statistic,
            "kendall_b": stats.kendalltau(metric, people).statistic,
            "kendall_c": stats.kendalltau(metric, people, variant="c").statistic,
        }
    pairs = list(combinations(range(len(metric)), 2))
    right = [np.sign(metric[i] - metric[j]) == np.sign(people[i] - people[j]) for i, j in pairs]
    tied = [metric[i] == metric[j] for i, j in pairs]
    of_pairs = {"pairwise_accuracy": right, "tied_pairs": tied}
    return {**found, **{name: float(np.mean(each)) if pairs else math.nan for name, each in of_pairs.items()}}


def of_items(sides: ComparedValues, kept: Any) -> dict[str, float]:
    return written_out(sides.metric[kept].tolist(), sides.people[kept].tolist())


def mean_of(groups: list[dict[str, float]]) -> dict[str, float]:
    """The mean of the groups that have a value; NaN without any."""
    values = {name: [group[name] for group in groups if math.isfinite(group[name])] for name in STATISTICS}
    return {name: float(np.mean(each)) if each else math.nan for name, each in values.items()}


def of_videos(sides: ComparedValues, kept: Any) -> dict[str, float]:
    return mean_of([of_items(sides, kept & (sides.video == video)) for video in range(4)])


def of_systems(sides: ComparedValues, kept: Any) -> dict[str, float]:
    return mean_of([of_items(sides, kept & (sides.system == system)) for system in range(3)])


def of_system_means(sides: ComparedValues, kept: Any) -> dict[str, float]:
    present = [system for system in range(3) if (sides.system == system).any()]
    rows = [kept & (sides.system == system) for system in present]
    if not all(each.any() for each in rows):
        return dict.fromkeys(STATISTICS, math.nan)
    return written_out(
        *([round(float(side[each].mean()), 9) for each in rows] for side in (sides.metric, sides.people))
    )


def same(found: dict[str, Any], expected: dict[str, float]) -> None:
    assert {name: float(found[name]) for name in expected} == pytest.approx(expected, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize(
    ("compare", "write_out"),
    [
        (compute_pooled, of_items),
        (lambda sides: compute_per_video(sides, 4), of_videos),
        (compute_within_system, of_systems),
        (compute_per_system, of_system_means),
    ],
)
@given(ITEMS)
def test_statistics_without_a_video_are_those_written_out(
    compare: Callable[[ComparedValues], JackknifeStatistics], write_out: Any, items: list[tuple[int, int, int, int]]
) -> None:
    sides = sides_of(items)
    found = compare(sides)
    same(
        {name: math.nan if value is None else value for name, value in found.values.items()},
        write_out(sides, EVERYTHING[: sides.video.size]),
    )
    for block in range(BLOCKS):
        held = sides.block == block
        expected = write_out(sides, ~held) if held.any() else dict.fromkeys(STATISTICS, math.nan)
        if compare not in (compute_pooled, compute_within_system, compute_per_system):
            # Videos without a value do not move a mean over videos, and tell nothing.
            own = of_items(sides, held)
            expected = {name: value if math.isfinite(own[name]) else math.nan for name, value in expected.items()}
        same({name: each[block] for name, each in found.jackknife_values.items()}, expected)


@given(ITEMS)
def test_points_are_scipys(items: list[tuple[int, int, int, int]]) -> None:
    sides = sides_of(items)
    found = {
        name: math.nan if value is None else value
        for name, value in compute_coefficients(sides.metric, sides.people).items()
    }
    same(found, of_items(sides, EVERYTHING[: sides.video.size]))
    groups = compute_group_coefficients(sides.metric, sides.people, sides.video, 4)
    for video in range(4):
        same({name: groups[name][video] for name in STATISTICS}, of_items(sides, sides.video == video))


def test_large_groups_have_the_values_of_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    metric, people = rng.integers(0, 9, (2, SMALL + 9)) / 1.0
    group = np.arange(SMALL + 9) % 2 * 3
    small = compute_group_coefficients(metric, people, group, 5)
    monkeypatch.setattr(engine, "SMALL", 3)
    for name, values in compute_group_coefficients(metric, people, group, 5).items():
        assert values == pytest.approx(small[name], abs=1e-12, nan_ok=True)
        assert np.isfinite(values).tolist() == [True, False, False, True, False]
