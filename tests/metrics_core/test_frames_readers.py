"""decord and PyAV give the same frames, and the right ones."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import av
import numpy as np
import pytest

from metrics_core.frames import DecodedFrames, DecodingWorker, FrameReadError, choose_frame_indices
from metrics_core.frames.decord_reader import DecordReader
from tests.metrics_core.frames_clips import (
    RATE,
    X264,
    cut_start_by_edit_list,
    encode,
    remux,
    scribble,
    set_rotation,
    shown_number,
    truncate,
)

needs_decord = pytest.mark.skipif(find_spec("decord") is None, reason="decord has no wheel for this machine")
READERS = [pytest.param("decord", marks=needs_decord), "pyav"]
REAL_CLIPS = [
    *("arm_wrestling.mp4", "basketball_gym.mp4", "coloured_eggs.mp4", "great_wall_aerial.mp4", "hair_brushing.mp4"),
    *("lobby_fern.mp4", "pancake_flip.mkv", "pool_cleaning.mp4", "traffic_bangkok.mp4", "eye_makeup.avi"),
    *("tiny_unordered.mov", "keyboard_rotated90.mov"),
]


def numbers(frames: DecodedFrames) -> list[int]:
    return [shown_number(picture) for picture in frames.pixels]


@needs_decord
@pytest.mark.parametrize("clip", REAL_CLIPS)
def test_both_readers_give_the_same_frames_of_real_clips(worker: DecodingWorker, shared_data: Path, clip: str) -> None:
    path = shared_data / "clips" / "videos" / clip
    by_decord = worker.read_frames(path, every=7, cap=20, reader="decord")
    by_pyav = worker.read_frames(path, every=7, cap=20, reader="pyav")
    assert (by_decord.reader, by_pyav.reader) == ("decord", "pyav")
    assert by_decord.n_frames == by_pyav.n_frames
    assert np.array_equal(by_decord.indices, by_pyav.indices)
    assert np.abs(by_decord.times_s - by_pyav.times_s).max() <= 1e-3
    assert by_decord.pixels.shape == by_pyav.pixels.shape
    assert np.abs(by_decord.pixels.astype(int) - by_pyav.pixels).max() <= 2


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("clip.mp4", "libx264", None),
        ("clip.mkv", "libx264", None),
        ("clip.mp4", "libx265", {"x265-params": "log-level=none:keyint=30:open-gop=0"}),
        ("clip.avi", "mpeg4", {"bf": "0"}),
        ("clip.webm", "libvpx-vp9", {"g": "30", "cpu-used": "8"}),
    ],
)
def test_every_sampled_frame_is_the_one_it_says(
    worker: DecodingWorker, tmp_path: Path, reader: str, name: str, codec: str, options: dict[str, str] | None
) -> None:
    path = encode(tmp_path / name, 64, codec, options)
    frames = worker.read_frames(path, every=9, reader=reader)
    assert frames.indices.tolist() == [0, 9, 18, 27, 36, 45, 54, 63]
    assert numbers(frames) == frames.indices.tolist()
    assert np.allclose(frames.times_s, frames.indices / RATE, atol=1e-3)
    assert frames.n_frames == 64
    assert frames.reader == reader
    assert (frames.indices.dtype, frames.times_s.dtype, frames.pixels.dtype) == (np.int64, np.float64, np.uint8)
    capped = worker.read_frames(path, every=9, cap=3, reader=reader)
    assert numbers(capped) == capped.indices.tolist() == choose_frame_indices(64, 9, 3).tolist()


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("clip.mp4", "libx265", {"x265-params": "log-level=none:keyint=30:open-gop=1"}),
        ("clip.mp4", "libx264", {"x264-params": "open-gop=1:keyint=30:bframes=2:b-adapt=0:scenecut=0"}),
        ("clip.avi", "mpeg4", {"bf": "2"}),
        ("clip.webm", "libvpx", {"g": "30", "cpu-used": "8"}),
    ],
)
def test_files_in_which_decord_takes_wrong_frames_are_left_to_pyav(
    worker: DecodingWorker, tmp_path: Path, name: str, codec: str, options: dict[str, str]
) -> None:
    path = encode(tmp_path / name, 64, codec, options)
    frames = worker.read_frames(path, every=9, reader="decord")
    assert frames.reader == "pyav"
    assert numbers(frames) == frames.indices.tolist() == [0, 9, 18, 27, 36, 45, 54, 63]
    assert np.allclose(frames.times_s, frames.indices / RATE, atol=1e-3)


@needs_decord
@pytest.mark.parametrize("clip", ["counter_h265.mp4", "testpattern_10bit.mp4"])
def test_decord_refuses_real_clips_that_it_would_read_wrongly(
    worker: DecodingWorker, shared_data: Path, clip: str
) -> None:
    path = shared_data / "clips" / "videos" / clip
    with pytest.raises(FrameReadError, match="decord would take other frames than PyAV shows"):
        DecordReader().read(path, 30, None)
    assert worker.read_frames(path, reader="decord").reader == "pyav"


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("quarter_turns", [0, 1, 2, 3])
def test_pictures_are_upright(worker: DecodingWorker, tmp_path: Path, reader: str, quarter_turns: int) -> None:
    plain = encode(tmp_path / "plain.mp4", 3)
    turned = set_rotation(encode(tmp_path / "turned.mp4", 3), quarter_turns)
    stored = worker.read_frames(plain, every=1, reader=reader).pixels
    upright = worker.read_frames(turned, every=1, reader=reader).pixels
    clockwise = stored
    for _ in range(quarter_turns):  # the left column, read upwards, becomes the first row
        clockwise = clockwise.transpose(0, 2, 1, 3)[:, :, ::-1]
    assert np.array_equal(upright, clockwise)


def test_an_edit_list_cuts_the_start_off(worker: DecodingWorker, tmp_path: Path) -> None:
    path = cut_start_by_edit_list(encode(tmp_path / "clip.mp4", 64), 10)
    frames = worker.read_frames(path, every=9)
    assert frames.reader == "pyav"
    assert frames.n_frames == 54
    assert numbers(frames) == [10, 19, 28, 37, 46, 55]
    assert np.allclose(frames.times_s, frames.indices / RATE)


def test_a_clip_cut_inside_an_open_group_of_pictures(worker: DecodingWorker, tmp_path: Path) -> None:
    options = {"x264-params": "open-gop=1:keyint=30:bframes=2:b-adapt=0:scenecut=0"}
    path = remux(encode(tmp_path / "whole.mp4", 90, options=options), tmp_path / "cut.mp4", first_key_frame=1)
    frames = worker.read_frames(path, every=1)
    assert frames.reader == "pyav"
    assert numbers(frames) == list(range(90 - frames.n_frames, 90))
    assert np.allclose(frames.times_s, frames.indices / RATE)


@pytest.mark.parametrize("cap", [None, 4])
def test_a_damaged_file_is_read_as_far_as_it_decodes(worker: DecodingWorker, tmp_path: Path, cap: int | None) -> None:
    path = scribble(encode(tmp_path / "clip.mp4", 90), 0.5, 6000)
    frames = worker.read_frames(path, every=5, cap=cap)
    assert frames.reader == "pyav"
    assert 30 < frames.n_frames < 90
    assert frames.indices.tolist() == choose_frame_indices(frames.n_frames, 5, cap).tolist()
    shown, times_in_frames = np.array(numbers(frames)), frames.times_s * RATE
    whole = times_in_frames < 30  # the key frames at 0 and 60 bound what the damage in the middle can reach
    assert np.array_equal(shown[whole], np.round(times_in_frames[whole]))
    assert np.array_equal(shown[times_in_frames >= 60], np.round(times_in_frames[times_in_frames >= 60]))


def test_a_truncated_file_is_read_as_far_as_it_goes(worker: DecodingWorker, tmp_path: Path) -> None:
    whole = encode(tmp_path / "whole.mp4", 90)
    path = truncate(remux(whole, tmp_path / "clip.mp4", movflags="+faststart"), 0.5)
    frames = worker.read_frames(path, every=10)
    assert frames.reader == "pyav"
    assert 30 <= frames.n_frames < 60
    assert numbers(frames) == frames.indices.tolist()


def test_a_clip_whose_pictures_change_size_keeps_the_first_size(worker: DecodingWorker, tmp_path: Path) -> None:
    path = tmp_path / "clip.h264"
    with path.open("wb") as joined:
        for size in [(160, 96), (320, 192)]:
            encoder = av.CodecContext.create("libx264", "w")
            encoder.width, encoder.height, encoder.pix_fmt, encoder.framerate = *size, "yuv420p", RATE
            encoder.time_base, encoder.options = 1 / encoder.framerate, X264
            picture = np.full((size[1], size[0], 3), 128, np.uint8)
            for packet in [*encoder.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")), *encoder.encode()]:
                joined.write(bytes(packet))
    assert worker.read_frames(path, every=1).pixels.shape == (2, 96, 160, 3)


def test_av1_is_read_by_pyav(worker: DecodingWorker, shared_data: Path) -> None:
    path = shared_data / "clips" / "videos" / "testcard_av1.mkv"
    frames = worker.read_frames(path, every=30)
    assert (frames.reader, frames.n_frames, frames.indices.tolist()) == ("pyav", 125, [0, 30, 60, 90, 120])
    if find_spec("decord"):
        with pytest.raises(FrameReadError, match=r"testcard_av1\.mkv: decord cannot decode it"):
            DecordReader().read(path, 30, None)


def test_decord_reads_only_where_it_is_named(worker: DecodingWorker, shared_data: Path) -> None:
    """Its FFmpeg is old, and a stranger's file may be made to break it."""
    clip = shared_data / "clips" / "videos" / "coloured_eggs.mp4"
    assert worker.read_frames(clip, every=100).reader == "pyav"
    named = worker.read_frames(clip, every=100, reader="decord").reader
    assert named == ("decord" if find_spec("decord") else "pyav")
