"""Missing pictures, found by time stamps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.frames.gaps import lacks_data, list_pauses, list_times_without_picture

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


def test_a_pause_of_a_steady_stream_is_listed() -> None:
    steady = [round(k / 30, 3) for k in range(300)]
    assert list_pauses(steady) == []
    assert list_pauses(steady[:100] + steady[130:]) == [(3.3, pytest.approx(4.333))]
    assert list_pauses(steady[:100] + steady[104:]) == []
    assert list_pauses([]) == list_pauses([1.0]) == []
    assert list_pauses([float(k) for k in range(100)]) == []


def test_a_stream_with_a_variable_rate_is_not_judged() -> None:
    steps = np.random.default_rng(0).uniform(0.02, 2.0, 200)
    assert list_pauses(np.cumsum(steps).tolist()) == []


SOUND = [k / 50 for k in range(500)]


@pytest.mark.parametrize(
    ("key_s", "sound_s", "is_lost"),
    [
        ([], [], False),
        ([0.0], SOUND, False),  # the sound goes on while a picture is held
        ([0.0], SOUND[:160] + SOUND[200:], True),
        ([0.0], SOUND[:160], False),  # it ends before
        ([0.0], SOUND[200:], False),
        ([0.0, 2.0, 4.0, 6.0], [], True),
        ([0.0, 2.0, 5.5, 7.5], [], False),  # an encoder that counts frames
        ([0.0, 2.0, 4.0], [], True),
        ([0.0, 2.0], [], False),
        ([0.0, 1.0, 3.2, 4.0, 9.0], [], False),  # key frames at cuts
        ([5.0, 7.0, 9.0], [], False),  # none before
    ],
)
def test_a_pause_lacks_pictures_only_where_something_shows_it(
    key_s: list[float], sound_s: list[float], is_lost: bool
) -> None:
    assert lacks_data((3.3, 3.95), key_s, sound_s) == is_lost
