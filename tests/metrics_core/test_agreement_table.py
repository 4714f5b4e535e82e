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
from metrics_core.agreement.coefficients import SMALL, compute_coefficients, compute_group_taus
from metrics_core.agreement.groupings import (
    ComparedValues,
    compute_per_system,
    compute_per_video,
    compute_pooled,
)
from metrics_core.intervals import BLOCKS, JackknifeStatistics

# Few different values, so that ties are common; a video, a system.
ITEMS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=14
)


STATISTICS = ("pearson", "spearman", "kendall_b", "tied_pairs")
EVERYTHING = np.ones(14, dtype=np.bool_)


def sides_of(items: list[tuple[int, int, int, int]]) -> ComparedValues:
    """The items, of which every video is a block of its own."""
    metric, people, video, system = np.array(items).T
    return ComparedValues(metric / 1.0, people / 1.0, video, system, video + 7)


def written_out(metric: list[float], people: list[float]) -> dict[str, float]:
    """Every statistic by SciPy, and tied pairs by a loop over pairs; NaN where undefined."""
    found = dict.fromkeys(STATISTICS, math.nan)
    if len(set(metric)) > 1 and len(set(people)) > 1:
        found = {
            "pearson": stats.pearsonr(metric, people).statistic,
            "spearman": stats.spearmanr(metric, people).statistic,
            "kendall_b": stats.kendalltau(metric, people).statistic,
        }
    tied = [one == other for one, other in combinations(metric, 2)]
    return {**found, "tied_pairs": float(np.mean(tied)) if tied else math.nan}


def of_items(sides: ComparedValues, kept: Any) -> dict[str, float]:
    return written_out(sides.metric[kept].tolist(), sides.people[kept].tolist())


def of_videos(sides: ComparedValues, kept: Any) -> dict[str, float]:
    """The mean of the videos that have a value; NaN without any."""
    taus = [of_items(sides, kept & (sides.video == video))["kendall_b"] for video in range(4)]
    known = [tau for tau in taus if math.isfinite(tau)]
    return {"kendall_b": float(np.mean(known)) if known else math.nan}


def of_system_means(sides: ComparedValues, kept: Any) -> dict[str, float]:
    present = [system for system in range(3) if (sides.system == system).any()]
    rows = [kept & (sides.system == system) for system in present]
    if not all(each.any() for each in rows):
        return {"kendall_b": math.nan}
    metric, people = ([round(float(side[each].mean()), 9) for each in rows] for side in (sides.metric, sides.people))
    return {"kendall_b": written_out(metric, people)["kendall_b"]}


def same(found: dict[str, Any], expected: dict[str, float]) -> None:
    assert {name: float(found[name]) for name in expected} == pytest.approx(expected, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize(
    ("compare", "write_out"),
    [
        (lambda sides: compute_pooled(sides, STATISTICS), of_items),
        (lambda sides: compute_per_video(sides, 4), of_videos),
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
        expected = write_out(sides, ~held) if held.any() else dict.fromkeys(found.values, math.nan)
        if write_out is of_videos:
            # Videos without a value do not move a mean over videos, and tell nothing.
            own = of_items(sides, held)
            expected = {name: value if math.isfinite(own[name]) else math.nan for name, value in expected.items()}
        same({name: each[block] for name, each in found.jackknife_values.items()}, expected)


@given(ITEMS)
def test_points_are_scipys(items: list[tuple[int, int, int, int]]) -> None:
    sides = sides_of(items)
    found = {
        name: math.nan if value is None else value
        for name, value in compute_coefficients(sides.metric, sides.people, STATISTICS).items()
    }
    same(found, of_items(sides, EVERYTHING[: sides.video.size]))
    taus = compute_group_taus(sides.metric, sides.people, sides.video, 4)
    expected = [of_items(sides, sides.video == video)["kendall_b"] for video in range(4)]
    assert taus.tolist() == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_large_groups_have_the_values_of_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    metric, people = rng.integers(0, 9, (2, SMALL + 9)) / 1.0
    group = np.arange(SMALL + 9) % 2 * 3
    small = compute_group_taus(metric, people, group, 5)
    monkeypatch.setattr(engine, "SMALL", 3)
    taus = compute_group_taus(metric, people, group, 5)
    assert taus == pytest.approx(small, abs=1e-12, nan_ok=True)
    assert np.isfinite(taus).tolist() == [True, False, False, True, False]
