"""What a report computes from arrays, against plain Python over the same samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.reports.data import DataSummary, MetricSummary, count_systems
from assets.reports.samples import compute_ranks, list_extreme_samples
from assets.reports.score_rows import compute_share_threshold_rows, compute_spread_rows
from assets.reports.systems import VIDEOS, compute_system_tables
from db.reports.judgements import LABELS_ASPECT, SPANS_ASPECT, Judgements
from db.scores.score_arrays import ScoreArrays
from metrics_core.calibration.search import KEPT_SHARES
from metrics_core.selection.strata import count_in_share

SYSTEMS = ("b", "é", "a")


class Row(NamedTuple):
    """A sample as plain data; its id is its place plus 10."""

    video: int
    shard: int
    system: int
    chance: int
    value: float | None


VALUE = st.none() | st.integers(-4, 4).map(lambda n: n / 4) | st.floats(-2, 2)
ROWS = st.lists(
    st.builds(Row, st.integers(0, 4), st.integers(0, 2), st.integers(0, 2), st.integers(-3, 3), VALUE),
    min_size=1,
    max_size=20,
)


def build_arrays(rows: Sequence[Row]) -> ScoreArrays:
    return ScoreArrays(
        np.arange(len(rows)) + 10,
        np.array([row.video for row in rows]),
        np.array([row.shard for row in rows], dtype=np.int16),
        SYSTEMS,
        np.array([row.system for row in rows]),
        np.array([row.chance for row in rows]),
        {"vcs": np.array([math.nan if row.value is None else row.value for row in rows])},
    )


def judge(ratings: Sequence[tuple[int, str, float]]) -> Judgements:
    """Ratings (place, aspect, value), each of another rater."""
    places = sorted({place for place, _, _ in ratings})
    matrices = {aspect: np.full((len(places), len(ratings)), math.nan) for _, aspect, _ in ratings}
    for rater, (place, aspect, value) in enumerate(ratings):
        matrices[aspect][places.index(place), rater] = value
    ids, nothing = np.array(places, dtype=np.int64) + 10, np.zeros(len(places))
    return Judgements("caption", ids, [], nothing.astype(np.int64), [], nothing, matrices, {}, {})


def summarise(rows: Sequence[Row]) -> MetricSummary:
    values = list(list_values(rows))
    ranges = {"caption": (min(values), max(values))} if values else {}
    return MetricSummary("vcs", "VCS", (), "1", {}, (), len(values), ranges)


def list_values(rows: Sequence[Row]) -> Iterator[float]:
    return (row.value for row in rows if row.value is not None)


@given(ROWS)
def test_spreads_are_those_of_sorted_values(rows: list[Row]) -> None:
    spreads = compute_spread_rows({"caption": build_arrays(rows)}, [summarise(rows)])
    values = sorted(list_values(rows))
    assert len(spreads) == bool(values)
    for spread in spreads:
        (low, high), width = (spread["low"], spread["high"]), (spread["high"] - spread["low"]) / 40
        if values[0] == values[-1]:
            assert (low, high, spread["counts"][20]) == (values[0] - 0.5, values[0] + 0.5, len(values))
        else:
            assert (low, high) == (values[0], values[-1])
        # A value near a limit may be in either of the bins.
        for place in range(41):
            below = sum(spread["counts"][:place])
            limit, slack = low + place * width, 1e-9 * (high - low)
            assert sum(value < limit - slack for value in values) <= below <= sum(v <= limit + slack for v in values)


@given(ROWS, st.lists(st.tuples(st.integers(0, 19), st.sampled_from("xy"), st.integers(1, 5)), max_size=8))
def test_thresholds_keep_the_best_of_every_system(rows: list[Row], given_ratings: list[tuple[int, str, int]]) -> None:
    ratings = [(place % len(rows), aspect, float(rating)) for place, aspect, rating in given_ratings]
    others = [(0, aspect, 1.0) for aspect in (LABELS_ASPECT, SPANS_ASPECT)]
    judgements = {"caption": judge([*ratings, *others])}
    found = compute_share_threshold_rows({"caption": build_arrays(rows)}, [summarise(rows)], judgements)
    best = sorted(list_values(rows), reverse=True)
    assert [row["share"] for row in found] == (list(KEPT_SHARES) if best else [])
    for row in found:
        cut = best[count_in_share(row["share"], len(best)) - 1]
        assert (row["value"], row["n"], row["n_kept"], row["n_at"]) == (
            cut,
            len(best),
            sum(v >= cut for v in best),
            best.count(cut),
        )
        for place, system in enumerate(SYSTEMS):
            own = [r.value for r in rows if r.system == place and r.value is not None]
            assert row["by_system"].get(system, (0, 0)) == (sum(value >= cut for value in own), len(own))
        assert list(row["by_system"]) == sorted(row["by_system"])
        expected = {}
        for aspect in sorted({aspect for _, aspect, _ in ratings}):
            sides: tuple[list[float], list[float]] = ([], [])
            for place, name, rating in ratings:
                value = rows[place].value
                if name == aspect and value is not None:
                    sides[value < cut].append(rating)
            if any(sides):
                expected[aspect] = tuple(pytest.approx(sum(side) / len(side)) if side else None for side in sides)
        assert row["ratings"] == expected


@given(ROWS, st.integers(1, 6), st.booleans())
def test_extremes_are_of_different_videos(rows: list[Row], n: int, best: bool) -> None:
    defined = [(row.value, row.chance, place) for place, row in enumerate(rows) if row.value is not None]
    by_video: dict[int, int] = {}
    for _, _, place in sorted((-value if best else value, chance, place) for value, chance, place in defined):
        by_video.setdefault(rows[place].video, place + 10)
    assert list_extreme_samples(build_arrays(rows), "vcs", n, best=best) == list(by_video.values())[:n]


def test_extremes_beyond_a_video_of_many_samples() -> None:
    """More samples of one video are better than all others than are sorted at first."""
    rows = [Row(0, 0, 0, 0, 1.0 + place) for place in range(700)] + [Row(place, 0, 0, 0, 1 / place) for place in (1, 2)]
    assert list_extreme_samples(build_arrays(rows), "vcs", 2, best=True) == [709, 710]
    assert list_extreme_samples(build_arrays(rows), "vcs", 5, best=True) == [709, 710, 711]


@given(ROWS)
def test_ranks_count_equal_values_half(rows: list[Row]) -> None:
    values = list(list_values(rows))
    expected = {
        place + 10: (row.value, (sum(v < row.value for v in values) + values.count(row.value) / 2) / len(values))
        for place, row in enumerate(rows[1:8], 1)
        if row.value is not None
    }
    ranks = compute_ranks(build_arrays(rows), "vcs", [place + 10 for place in range(len(rows))][1:8])
    assert ranks == {sample_id: (value, pytest.approx(rank)) for sample_id, (value, rank) in expected.items()}


@given(ROWS)
def test_systems_are_counted(more: list[Row]) -> None:
    rows = [*more, *(Row(0, 0, system, 0, None) for system in range(3))]
    counts = {row["system"]: (row["samples"], row["videos"]) for row in count_systems("caption", build_arrays(rows))}
    for place, system in enumerate(SYSTEMS):
        own = [row.video for row in rows if row.system == place]
        assert counts[system] == (len(own), len(set(own)))


@given(ROWS, st.lists(st.tuples(st.integers(0, 19), st.integers(1, 5)), max_size=8))
def test_means_of_systems_are_plain_means(rows: list[Row], given_ratings: list[tuple[int, int]]) -> None:
    ratings = [(place % len(rows), float(rating)) for place, rating in given_ratings]
    judgements = {"caption": judge([(place, "overall", rating) for place, rating in ratings])} if ratings else {}
    data = DataSummary({}, {}, None, (), (), {}, {"overall": len(ratings), "other": 0}, {}, 0, False, 0, {}, {})
    by_metric, by_aspect = compute_system_tables({"caption": build_arrays(rows)}, judgements, data, [summarise(rows)])
    of_sample = {place: [r for p, r in ratings if p == place] for place, _ in ratings}
    means = {place: sum(values) / len(values) for place, values in of_sample.items()}
    scores = {place: row.value for place, row in enumerate(rows) if row.value is not None}
    for tables, name, values, videos in (
        (by_metric, "vcs", scores, {row.video for row in rows}),
        (by_aspect, "overall", means, {rows[place].video for place in means}),
    ):
        assert len(tables) == bool(values)
        for table in tables:
            assert (table.n_videos, table.n_left_out) == (len(videos), 0)
            for place, system in enumerate(SYSTEMS):
                own = [value for row, value in values.items() if rows[row].system == place]
                mean = table.means[system][name]
                assert (mean.n, mean.mean) == (len(own), pytest.approx(sum(own) / len(own)) if own else None)
                assert (system in table.systems) == bool(own)


def test_means_over_more_videos_than_are_summed_at_once() -> None:
    """Samples of a video are far apart, so that a batch of rows would divide videos."""
    rows = [Row(i % (2 * VIDEOS + 1), 0, i % 2, 0, (i % 7) / 7) for i in range(5 * VIDEOS)]
    data = DataSummary({}, {}, None, (), (), {}, {}, {}, 0, False, 0, {}, {})
    ((table,), _) = compute_system_tables({"caption": build_arrays(rows)}, {}, data, [summarise(rows)])
    assert table.n_videos == 2 * VIDEOS + 1
    for place, system in enumerate(SYSTEMS[:2]):
        own = [row.value for row in rows if row.system == place and row.value is not None]
        mean = table.means[system]["vcs"]
        assert (mean.n, mean.mean) == (len(own), pytest.approx(sum(own) / len(own)))
