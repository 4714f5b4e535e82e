"""Missing pictures, found by time stamps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.frames.gaps import list_gaps, list_times_without_picture

SECOND = [k / 30 for k in range(30)]


def test_a_packet_whose_picture_is_missing_is_named_wherever_it_stands() -> None:
    for missing in SECOND:
        assert list_times_without_picture(SECOND, [time_s for time_s in SECOND if time_s != missing]) == [missing]


def test_hidden_frames_and_half_pictures_are_not_missing() -> None:
    hidden = [time_s - 0.001 for time_s in SECOND[10::10]]
    assert list_times_without_picture([*SECOND, *hidden], SECOND) == []
    halves = [k / 60 for k in range(60)]
    assert list_times_without_picture(halves, halves[::2]) == []
    assert list_times_without_picture(SECOND, []) == []


@given(st.lists(st.floats(0, 1000), max_size=50), st.randoms(use_true_random=False))
def test_nothing_is_missing_where_every_packet_gave_a_picture(times_s: list[float], random: object) -> None:
    assert list_times_without_picture(times_s, times_s[::-1]) == []


def test_a_gap_of_a_steady_stream_is_found() -> None:
    steady = [round(k / 30, 3) for k in range(300)]
    assert list_gaps(steady) == []
    assert list_gaps(steady[:100] + steady[130:]) == [(3.3, pytest.approx(4.333))]
    assert list_gaps(steady[:100] + steady[104:]) == []
    assert list_gaps([]) == list_gaps([1.0]) == []
    assert list_gaps([float(k) for k in range(100)]) == []


def test_a_stream_with_a_variable_rate_is_not_judged() -> None:
    steps = np.random.default_rng(0).uniform(0.02, 2.0, 200)
    assert list_gaps(np.cumsum(steps).tolist()) == []
