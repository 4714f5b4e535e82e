"""Passing over what is not sampled changes no frame, and is left where it could."""

from __future__ import annotations

import shutil
from dataclasses import replace
from fractions import Fraction
from itertools import islice, pairwise
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from metrics_core.frames import choose_frame_indices
from metrics_core.frames.container import Timeline, open_video, read_packets, read_timeline
from metrics_core.frames.pyav_reader import PyAVReader
from metrics_core.frames.stretches import SeekingFailed, choose_stretches, decode_stretches, decode_until_needed
from tests.metrics_core.frames_clips import (
    X264,
    cut_start_by_edit_list,
    encode,
    numbered_picture,
    overwrite,
    remux,
    shown_number,
    truncate,
)

SAMPLINGS = [(1, None), (7, None), (30, None), (100, None), (1, 5)]
PYRAMID = "bframes=4:b-pyramid=normal:b-adapt=0:ref=4:scenecut=0"


def h264(path: Path, n_frames: int = 130, parameters: str = PYRAMID, key_frame_every: int = 12) -> Path:
    return encode(path, n_frames, options={"x264-params": f"keyint={key_frame_every}:{parameters}"})


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return h264(tmp_path_factory.mktemp("seeking") / "clip.mp4")


@pytest.fixture
def clip(encoded: Path, tmp_path: Path) -> Path:
    """130 frames, a key frame every 12, B-frames that hang on B-frames; the test may spoil it."""
    return Path(shutil.copy(encoded, tmp_path))


def decoded_by_av(path: Path) -> tuple[list[av.VideoFrame], NDArray[np.float64]]:
    """All decodable frames and their times, straight from PyAV."""
    frames: list[av.VideoFrame] = []
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        for packet in container.demux(stream):
            try:
                frames += packet.decode()
            except av.error.FFmpegError:
                continue
        ticks = np.array([frame.pts for frame in frames]) - frames[0].pts
        return frames, ticks * float(stream.time_base)


def check(path: Path, every: int, cap: int | None, whole: tuple[list[av.VideoFrame], NDArray[np.float64]]) -> None:
    """What the reader gives are the frames of ``whole``, bit for bit."""
    pictures, times_s = whole
    frames = PyAVReader().read(path, every, cap)
    assert frames.n_frames == len(pictures)
    assert frames.indices.tolist() == choose_frame_indices(len(pictures), every, cap).tolist()
    assert np.allclose(frames.times_s, times_s[frames.indices], atol=1e-9)
    for index, pixels in zip(frames.indices, frames.pixels, strict=True):
        assert np.array_equal(pixels, pictures[index].to_ndarray(format="rgb24"))


def n_stretches(path: Path, every: int, cap: int | None = None) -> int:
    timeline = read_timeline(path)
    return len(choose_stretches(timeline, choose_frame_indices(len(timeline.times_s), every, cap)))


def seek(path: Path, every: int) -> list[int]:
    """Numbers of the frames that come out when the reader seeks."""
    timeline = read_timeline(path)
    stretches = choose_stretches(timeline, choose_frame_indices(len(timeline.times_s), every))
    assert len(stretches) > 1
    with open_video(path) as (container, stream):
        return [number for number, _ in decode_stretches(container, stream, timeline, stretches)]


def timeline_of(n_frames: int, key_frames: list[int]) -> Timeline:
    ticks = np.arange(n_frames)
    return Timeline(ticks / 30, ticks, np.array(key_frames, dtype=np.int64), "h264", 8, True, 0, True)


@pytest.mark.parametrize("name", ["hair_brushing.mp4", "arm_wrestling.mp4", "pancake_flip.mkv"])
def test_frames_of_real_clips_are_those_of_sequential_decoding(shared_data: Path, name: str) -> None:
    path = shared_data / "clips" / "videos" / name
    whole = decoded_by_av(path)
    for every, cap in [(30, None), (100, None), (1, 5)]:
        assert n_stretches(path, every, cap) > 1
        check(path, every, cap, whole)


@pytest.mark.parametrize("key_frame_every", [1, 12, 250])
def test_frames_are_those_of_sequential_decoding_at_every_spacing(tmp_path: Path, key_frame_every: int) -> None:
    path = h264(tmp_path / "clip.mp4", 270, key_frame_every=key_frame_every)
    assert np.diff(read_timeline(path).key_frames).max() == key_frame_every
    whole = decoded_by_av(path)
    for every, cap in SAMPLINGS:
        check(path, every, cap, whole)
        assert (n_stretches(path, every, cap) > 1) == (every > 1 or cap is not None) or key_frame_every == 250
    assert n_stretches(path, 7) == {1: 39, 12: 20, 250: 2}[key_frame_every]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("clip.mkv", PYRAMID),
        ("clip.ts", PYRAMID),
        ("clip.mov", f"{PYRAMID}:slices=4"),
        ("clip.mp4", f"{PYRAMID}:tff=1"),
        ("clip.mp4", "bframes=0:ref=4:scenecut=0:open-gop=1"),  # key frames that do not clear the list of references
    ],
)
def test_frames_are_those_of_sequential_decoding_in_every_container(tmp_path: Path, name: str, parameters: str) -> None:
    path = h264(tmp_path / name, parameters=parameters)
    assert n_stretches(path, 30) == 5
    check(path, 30, None, decoded_by_av(path))
    assert [shown_number(picture) for picture in PyAVReader().read(path, 30, None).pixels] == [0, 30, 60, 90, 120]


def test_frames_that_no_wanted_frame_needs_are_not_decoded(tmp_path: Path) -> None:
    path = h264(tmp_path / "clip.mp4", parameters="bframes=0:scenecut=0")
    assert seek(path, 30) == [0, *range(24, 31), 60, *range(84, 91), 120]
    ticks = read_timeline(path).ticks
    with open_video(path) as (container, stream):
        packets = read_packets(container, stream)
        for start, stop, end in [(0, 1, 24), (24, 31, 60), (60, 61, 130)]:
            pictures = decode_until_needed(stream.codec_context, islice(packets, end - start), ticks[start:stop])
            assert [picture.pts for picture in pictures] == ticks[start:stop].tolist()


def test_few_of_the_frames_that_b_frames_hang_on_are_decoded_besides(encoded: Path) -> None:
    with open_video(encoded) as (container, stream):
        packets = islice(read_packets(container, stream), 24)
        pictures = list(decode_until_needed(stream.codec_context, packets, read_timeline(encoded).ticks[:2]))
    assert 2 <= len(pictures) <= 4


@given(st.sets(st.integers(1, 199)), st.sets(st.integers(1, 199)))
def test_stretches_hold_every_wanted_frame_once_and_begin_at_key_frames(keys: set[int], numbers: set[int]) -> None:
    key_frames, wanted = sorted({0, *keys}), sorted({0, *numbers})
    stretches = choose_stretches(timeline_of(200, key_frames), np.array(wanted))
    assert (stretches[0].start, stretches[-1].packet_stop) == (0, 200)
    assert all(before.packet_stop == after.start for before, after in pairwise(stretches))
    assert {stretch.start for stretch in stretches} <= set(key_frames)
    decoded = [number for start, stop, _ in stretches for number in range(start, stop)]
    assert set(wanted) <= set(decoded)
    # The fewest there are: everything from the last key frame before a wanted frame on must be decoded.
    needed = {n for frame in wanted for n in range(max(key for key in key_frames if key <= frame), frame + 1)}
    assert decoded == sorted(needed)


def test_only_a_stream_known_to_be_whole_is_cut() -> None:
    timeline, wanted = timeline_of(90, [0, 30, 60]), choose_frame_indices(90, 45)
    uneven = np.delete(np.arange(91), 40)
    assert len(choose_stretches(timeline, wanted)) == 2
    assert len(choose_stretches(replace(timeline, is_fully_indexed=False), wanted)) == 2
    for unsafe in [
        replace(timeline, has_closed_groups=False),
        replace(timeline, n_missing_packets=1),
        replace(timeline, is_fully_indexed=False, ticks=uneven),
        replace(timeline, codec="hevc"),
        replace(timeline, key_frames=timeline.key_frames[:0]),
    ]:
        assert choose_stretches(unsafe, wanted) == [(0, 46, 90)]


def test_open_groups_are_decoded_in_order(tmp_path: Path) -> None:
    path = h264(tmp_path / "clip.mp4", parameters="open-gop=1:bframes=2:b-adapt=0:scenecut=0")
    assert n_stretches(path, 30) == 1
    check(path, 30, None, decoded_by_av(path))


@pytest.mark.parametrize(("name", "stretches"), [("clip.mp4", 4), ("clip.mkv", 1), ("clip.flv", 1)])
def test_a_variable_rate_is_only_trusted_where_an_index_lists_all_packets(
    tmp_path: Path, name: str, stretches: int
) -> None:
    path, steps = tmp_path / name, np.random.default_rng(0).integers(10, 400, 120)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt, stream.options = 160, 96, "yuv420p", X264
        stream.codec_context.time_base = Fraction(1, 1000)
        for number, time_ms in enumerate(np.cumsum(steps).tolist()):
            frame = av.VideoFrame.from_ndarray(numbered_picture(number), format="rgb24")
            frame.pts, frame.time_base = time_ms, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    assert n_stretches(path, 35) == stretches
    check(path, 35, None, decoded_by_av(path))
    assert np.allclose(PyAVReader().read(path, 35, None).times_s, np.cumsum([0, *steps[1:]])[::35] / 1000, atol=2e-3)


def test_streams_without_usable_time_stamps_are_decoded_in_order(clip: Path, tmp_path: Path) -> None:
    bare = h264(tmp_path / "clip.h264")
    cut = cut_start_by_edit_list(clip, 10)
    for path in (bare, cut):
        assert n_stretches(path, 30) == 1
    assert [shown_number(picture) for picture in PyAVReader().read(bare, 30, None).pixels] == [0, 30, 60, 90, 120]
    assert [shown_number(picture) for picture in PyAVReader().read(cut, 30, None).pixels] == [10, 40, 70, 100]


def move_stamps(path: Path, target: Path, moved: dict[int, float]) -> Path:
    """A copy in which packets, by their number, are shown so many frames later."""
    with av.open(str(path)) as source, av.open(str(target), "w") as container:
        stream = container.add_stream_from_template(source.streams.video[0])
        for number, packet in enumerate(source.demux(source.streams.video[0])):
            if packet.size:
                assert packet.pts is not None
                packet.pts += round(moved.get(number, 0) / 30 / packet.time_base)
                packet.stream = stream
                container.mux(packet)
    return target


def test_a_time_stamp_that_comes_twice_rules_seeking_out(tmp_path: Path) -> None:
    path = h264(tmp_path / "clip.mp4", parameters="bframes=0:scenecut=0")
    assert n_stretches(move_stamps(path, tmp_path / "twice.mp4", {5: 1}), 30) == 1


def test_a_key_frame_with_a_packet_before_it_that_is_shown_later_is_no_start(tmp_path: Path) -> None:
    path = h264(tmp_path / "clip.mp4", parameters="bframes=0:scenecut=0")
    late = read_timeline(move_stamps(path, tmp_path / "late.mp4", {20: 4.5}))
    assert late.has_closed_groups
    assert late.key_frames[:4].tolist() == [0, 12, 36, 48]


def place_of_packet(path: Path, number: int) -> tuple[int, int]:
    """Where a packet, counted in decoding order, begins in the file, and how many bytes it has."""
    with av.open(str(path)) as container:
        packets = [packet for packet in container.demux(container.streams.video[0]) if packet.size]
        assert packets[number].pos is not None
        return packets[number].pos, packets[number].size


def test_a_file_that_breaks_off_is_decoded_in_order(clip: Path, tmp_path: Path) -> None:
    whole = remux(clip, tmp_path / "whole.mp4", movflags="+faststart")
    assert n_stretches(whole, 30) == 5
    path = truncate(whole, 0.7)
    assert n_stretches(path, 30) == 1
    check(path, 30, None, decoded_by_av(path))


def test_packets_lost_without_an_index_are_seen_by_the_gap(clip: Path, tmp_path: Path) -> None:
    path = remux(clip, tmp_path / "clip.mkv")
    assert n_stretches(path, 30) == 5
    overwrite(path, place_of_packet(path, 40)[0] - 8, bytes(3000))
    assert len(read_timeline(path).times_s) < 130
    assert n_stretches(path, 30) == 1
    check(path, 30, None, decoded_by_av(path))


@pytest.mark.parametrize("cap", [None, 3])
@pytest.mark.parametrize(
    ("number", "n_spared"),
    [(5, 0), (6, 5), (28, 0), (24, 0), (129, 0)],  # passed over; the same, its kind still legible; decoded; key; last
)
def test_a_packet_that_does_not_decode_is_seen_wherever_it_is(
    clip: Path, number: int, n_spared: int, cap: int | None
) -> None:
    place, size = place_of_packet(clip, number)
    overwrite(clip, place + n_spared, b"\xff" * (size - n_spared))
    with pytest.raises(SeekingFailed, match="does not decode"):
        seek(clip, 30)
    whole = decoded_by_av(clip)
    assert len(whole[0]) < 130
    check(clip, 30, cap, whole)


def test_damage_that_is_not_seen_leaves_the_number_of_packets(clip: Path) -> None:
    """The price of passing over: the kind of a picture that no other is drawn from is not read."""
    place, size = place_of_packet(clip, 5)
    overwrite(clip, place + 4, b"\xff" * (size - 4))
    assert len(decoded_by_av(clip)[0]) == 129
    assert PyAVReader().read(clip, 30, None).n_frames == 130
    assert PyAVReader().read(clip, 1, None).n_frames == 129


def test_a_broken_picture_that_a_wanted_one_hangs_on_is_seen(tmp_path: Path) -> None:
    path = h264(tmp_path / "clip.mp4", parameters="bframes=2:b-adapt=0:scenecut=0")
    place, size = place_of_packet(path, 25)  # shown as number 27, and 25 is drawn from it
    overwrite(path, place + size // 2, b"\xff" * (size * 2 // 5))
    with pytest.raises(SeekingFailed, match="a frame is broken"):
        seek(path, 25)
    whole = decoded_by_av(path)
    assert len(whole[0]) == 130
    check(path, 25, None, whole)


def test_key_frames_that_do_not_show_a_whole_picture_are_seen(tmp_path: Path) -> None:
    """With a gradual refresh the pictures become whole only some frames behind the one called a key frame."""
    path = h264(tmp_path / "clip.mp4", parameters="intra-refresh=1:bframes=0:scenecut=0", key_frame_every=30)
    assert read_timeline(path).key_frames.tolist() == [0, 30, 60, 90, 120]
    with pytest.raises(SeekingFailed, match="decoding after a seek did not return frame 90"):
        seek(path, 100)
    check(path, 100, None, decoded_by_av(path))


def test_stamps_on_the_wrong_frames_are_seen(tmp_path: Path) -> None:
    path = h264(tmp_path / "clip.avi")  # AVI stores no order of showing
    with pytest.raises(SeekingFailed, match="decoding after a seek did not return frame"):
        seek(path, 30)
    frames = PyAVReader().read(path, 30, None)
    assert [shown_number(picture) for picture in frames.pixels] == [0, 30, 60, 90, 120]
