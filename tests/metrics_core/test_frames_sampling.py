"""Which frames are sampled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.frames import choose_frame_indices


def test_golden_cases() -> None:
    assert choose_frame_indices(91).tolist() == [0, 30, 60, 90]
    assert choose_frame_indices(90).tolist() == [0, 30, 60]
    assert choose_frame_indices(1).tolist() == [0]
    assert choose_frame_indices(0).tolist() == []
    assert choose_frame_indices(300, every=30, cap=3).tolist() == [0, 90, 180]
    assert choose_frame_indices(300, every=30, cap=1).tolist() == [0]
    assert choose_frame_indices(300, every=30, cap=10).tolist() == choose_frame_indices(300, every=30).tolist()
    assert choose_frame_indices(7, every=2).dtype == np.int64


@given(st.integers(0, 5000), st.integers(1, 100))
def test_without_a_cap_it_is_every_lth_frame(n_frames: int, every: int) -> None:
    assert choose_frame_indices(n_frames, every).tolist() == [k for k in range(n_frames) if k % every == 0]


@given(st.integers(1, 5000), st.integers(1, 50), st.integers(1, 40))
def test_a_cap_keeps_the_first_and_spreads_the_rest_evenly(n_frames: int, every: int, cap: int) -> None:
    everything = choose_frame_indices(n_frames, every)
    kept = choose_frame_indices(n_frames, every, cap)
    assert kept[0] == 0
    assert len(kept) == min(cap, len(everything))
    assert set(kept) <= set(everything)
    steps = np.diff([*kept, len(everything) * every])
    assert steps.min() >= every
    assert steps.max() - steps.min() <= every


@pytest.mark.parametrize("arguments", [(-1, 30, None), (10, 0, None), (10, 30, 0)])
def test_arguments_out_of_range_are_refused(arguments: tuple[int, int, int | None]) -> None:
    with pytest.raises(ValueError, match=r"n_frames|every|cap"):
        choose_frame_indices(*arguments)
