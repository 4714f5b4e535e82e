"""Facts and frames from one pass over a video equal those of two, and a decoder that dies costs only its own video."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from metrics_core.frames import DecodedFrames, DecodingWorker, FrameReadError, PictureFit
from metrics_core.frames.features import FrameEncoder, FrameFeatures, VideoToEncode, compute_frame_features
from metrics_core.frames.memory import estimate_video_bytes
from metrics_core.frames.pool import DecoderPool, TakeDecoder, compute_time_limit
from metrics_core.frames.records import DecoderFailed
from tests.metrics_core.frames_clips import encode, encode_sound, scribble, truncate
from tests.metrics_core.test_frames_encoding import MeanColour

FAKES = "tests.metrics_core.frames_fakes"
REAL_CLIPS = ["coloured_eggs.mp4", "eye_makeup.avi", "testcard_av1.mkv", "keyboard_rotated90.mov", "tiny_unordered.mov"]


def check_one_pass(worker: DecodingWorker, path: Path, **sampling: Any) -> DecodedFrames:
    """Compare one pass with two, bit for bit, and return its frames."""
    measurement, frames = worker.measure_and_read(path, **sampling)
    alone = worker.read_frames(path, **sampling, reader="pyav")
    assert measurement == worker.measure_video(path)
    for name in ("indices", "times_s", "pixels"):
        np.testing.assert_array_equal(getattr(frames, name), getattr(alone, name))
    assert (frames.n_frames, frames.reader) == (alone.n_frames, alone.reader)
    return frames


@pytest.mark.parametrize("clip", REAL_CLIPS)
def test_one_pass_over_real_clips_gives_what_two_give(worker: DecodingWorker, shared_data: Path, clip: str) -> None:
    path = shared_data / "clips" / "videos" / clip
    frames = check_one_pass(worker, path, every=30, cap=128, fit=PictureFit(32, 32))
    # By decord, where it is installed and takes the file.
    other = worker.read_frames(path, every=30, fit=PictureFit(32, 32), reader="decord")
    np.testing.assert_array_equal(frames.pixels, other.pixels)


@pytest.mark.parametrize(("every", "cap", "n"), [(1, None, 90), (7, None, 13), (7, 4, 4), (200, None, 1)])
def test_one_pass_samples_as_two_do(
    worker: DecodingWorker, tmp_path: Path, every: int, cap: int | None, n: int
) -> None:
    path = encode(tmp_path / "clip.mp4", 90)
    assert len(check_one_pass(worker, path, every=every, cap=cap, fit=None).indices) == n


@pytest.mark.parametrize("cap", [None, 4])
def test_one_pass_over_a_damaged_clip_finds_which_frames_are_sampled(
    worker: DecodingWorker, tmp_path: Path, cap: int | None
) -> None:
    path = scribble(encode(tmp_path / "clip.mp4", 90), 0.5, 6000)
    assert check_one_pass(worker, path, every=5, cap=cap, fit=None).n_frames < 90
    half = truncate(encode(tmp_path / "half.mkv", 90), 0.5)
    assert check_one_pass(worker, half, every=5, cap=cap, fit=None).n_frames < 90


def test_a_clip_that_is_only_sound_has_neither(worker: DecodingWorker, tmp_path: Path) -> None:
    with pytest.raises(FrameReadError, match="holds no video stream"):
        worker.measure_and_read(encode_sound(tmp_path / "sound.mp4"), fit=None)


def test_facts_come_with_the_frames_of_the_videos_that_want_them(worker: DecodingWorker, tmp_path: Path) -> None:
    paths = [encode(tmp_path / f"{n}.mp4", n) for n in (20, 40)]
    text = tmp_path / "text.mp4"
    text.write_text("no video")
    videos = [VideoToEncode(path.name, path, wants_facts=path.name != "40.mp4") for path in (*paths, text)]
    encoded = dict(compute_frame_features(FrameEncoder(MeanColour(), every=9), videos))
    plain = dict(compute_frame_features(FrameEncoder(MeanColour(), every=9), [VideoToEncode("20.mp4", paths[0])]))
    with_facts, without, error = encoded["20.mp4"], encoded["40.mp4"], encoded["text.mp4"]
    assert isinstance(with_facts, FrameFeatures)
    assert isinstance(without, FrameFeatures)
    assert isinstance(error, FrameReadError)
    assert not isinstance(error, DecoderFailed)
    assert with_facts.measurement == worker.measure_video(paths[0])
    assert without.measurement is None
    alone = plain["20.mp4"]
    assert isinstance(alone, FrameFeatures)
    # decord, which reads frames without facts, may differ by two grey levels where colours are converted.
    np.testing.assert_allclose(with_facts.features, alone.features, atol=2)


def test_frames_that_one_pass_refuses_are_read_and_explained_as_without_facts(tmp_path: Path) -> None:
    video = VideoToEncode("clip", encode(tmp_path / "clip.mp4", 20), wants_facts=True)
    narrow = MeanColour()
    narrow.fit = PictureFit(8192, 1)  # type: ignore[assignment]  # no picture has room for it
    ((_, error),) = compute_frame_features(FrameEncoder(narrow), [video])
    assert isinstance(error, FrameReadError)
    assert "too narrow" in str(error)


def test_a_decoder_that_dies_among_eight_costs_its_own_clip(tmp_path: Path) -> None:
    clip = encode(tmp_path / "clip.mp4", 9)

    def read(take_decoder: TakeDecoder, number: int) -> DecodedFrames | FrameReadError:
        reader = f"{FAKES}:CrashingReader" if number == 17 else "pyav"
        try:
            with take_decoder() as worker:
                return worker.read_frames(clip, reader=reader)
        except FrameReadError as error:
            return error

    results = list(DecoderPool(8).decode_in_order(range(20), read, lambda _: 1))
    assert [number for number, _ in results] == list(range(20))
    (dead,) = (number for number, result in results if isinstance(result, FrameReadError))
    assert dead == 17
    assert isinstance(results[17][1], DecoderFailed)
    assert str(results[17][1]).startswith(f"{clip}: ")
    assert "SIGSEGV" in str(results[17][1])


def test_a_file_is_fetched_while_the_decoders_work() -> None:
    """The one decoder is only given back when the second video has been opened."""
    is_open = Event()

    def decode(take_decoder: TakeDecoder, number: int) -> bool:
        if number == 1:
            is_open.set()
        with take_decoder():
            return is_open.wait(20)

    assert list(DecoderPool(1).decode_in_order(range(2), decode, lambda _: 1)) == [(0, True), (1, True)]


def test_a_pool_holds_no_more_videos_than_its_memory() -> None:
    asked: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(9):
            asked.append(number)
            yield number

    pool = DecoderPool(4, memory_bytes=30)
    decoding = pool.decode_in_order(numbers(), lambda _, number: number, lambda number: 40 if number == 5 else 10)
    assert next(decoding) == (0, 0)
    # Three are held, so that the fourth waits for the first.
    assert asked == [0, 1, 2, 3]
    assert [number for number, _ in decoding] == list(range(1, 9))


def test_limits() -> None:
    assert (compute_time_limit(None), compute_time_limit(10.0)) == (60.0, 100.0)
    # Twenty whole pictures in three bytes a pixel; no sampled frame.
    assert estimate_video_bytes(100, 0, None) == 6000
