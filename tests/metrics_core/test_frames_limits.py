"""Tiny, huge and narrow pictures: each gives its frames or the reason why not, in bounded memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from metrics_core.frames import DecodingWorker, FrameReadError, PictureFit
from metrics_core.frames.decord_reader import DecordReader
from metrics_core.frames.memory import estimate_video_bytes
from tests.metrics_core.frames_clips import encode, encode_pictures, write_gif

MIB = 1 << 20


@pytest.fixture
def worker() -> Iterator[DecodingWorker]:
    with DecodingWorker() as worker:
        yield worker


def stripes(height: int, width: int, n: int = 5) -> NDArray[np.uint8]:
    """Upper half white, lower half darker from frame to frame."""
    pictures = np.full((n, height, width, 3), 255, np.uint8)
    pictures[:, height // 2 :] = 200 - 30 * np.arange(n)[:, None, None, None]
    return pictures


@pytest.mark.parametrize(
    ("name", "codec", "pix_fmt", "width", "height"),
    [
        ("h264.mp4", "libx264", "yuv420p", 2, 2),
        ("h264.mp4", "libx264", "yuv420p", 16, 16),
        ("h264.mp4", "libx264", "yuv420p", 24, 64),
        ("h264.mp4", "libx264", "yuv420p", 48, 32),
        ("mjpeg.avi", "mjpeg", "yuvj444p", 1, 1),
        ("mjpeg.avi", "mjpeg", "yuvj444p", 1, 64),
        ("mjpeg.avi", "mjpeg", "yuvj444p", 17, 33),
        ("ffv1.mkv", "ffv1", "bgr0", 1, 1),
    ],
)
def test_narrow_clips_come_out_as_they_are(
    worker: DecodingWorker, tmp_path: Path, name: str, codec: str, pix_fmt: str, width: int, height: int
) -> None:
    pictures = stripes(height, width)
    frames = worker.read_frames(encode_pictures(tmp_path / name, codec, pix_fmt, pictures), every=2)
    assert frames.pixels.shape == (3, height, width, 3)
    assert np.abs(frames.pixels.astype(int) - pictures[::2]).max() <= 12


@pytest.mark.parametrize(
    "fit", [PictureFit(40, 40), PictureFit(30, 50, "longest", "bilinear", 7), PictureFit(20, 30, "squash")]
)
def test_frames_are_cut_down_as_they_would_be_afterwards(
    worker: DecodingWorker, tmp_path: Path, fit: PictureFit
) -> None:
    clip = encode(tmp_path / "clip.mp4", 20)
    whole, fitted = worker.read_frames(clip, every=6), worker.read_frames(clip, every=6, fit=fit)
    np.testing.assert_array_equal(fitted.pixels, [fit(picture) for picture in whole.pixels])
    np.testing.assert_array_equal(fitted.indices, whole.indices)
    assert fitted.reader == whole.reader


@pytest.mark.skipif(find_spec("decord") is None, reason="decord has no wheel for this machine")
def test_decord_is_not_left_to_decode_many_large_pictures_ahead(worker: DecodingWorker, tmp_path: Path) -> None:
    black = np.zeros((200, 720, 1280, 3), np.uint8)
    clip = encode_pictures(tmp_path / "clip.mp4", "libx264", "yuv420p", black, preset="ultrafast")
    fit = PictureFit(32, 32)
    with pytest.raises(FrameReadError, match="decord would decode too many large frames ahead"):
        DecordReader().read(clip, 2, None, fit)
    assert worker.read_frames(clip, every=2, fit=fit, reader="decord").reader == "pyav"
    assert worker.read_frames(clip, every=10, fit=fit, reader="decord").reader == "decord"


@pytest.mark.skipif(sys.platform != "linux", reason="reads a process's peak of memory from /proc")
def test_frames_of_a_huge_picture_are_not_held_whole(worker: DecodingWorker, tmp_path: Path) -> None:
    clip = write_gif(tmp_path / "huge.gif", 3840, 2160, 24)
    frames = worker.read_frames(clip, every=1, fit=PictureFit(32, 32, "squash"))
    assert frames.pixels.shape == (24, 32, 32, 3)
    process = worker.read_frames(clip, reader="frames_fakes:ProcessReader").n_frames
    peak = next(line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("VmHWM"))
    # 24 whole frames would take 569 MiB.
    assert int(peak.split()[1]) * 1024 < 300 * MIB


def test_frames_that_would_fill_the_memory_are_refused_with_the_remedy(worker: DecodingWorker, tmp_path: Path) -> None:
    clip = write_gif(tmp_path / "huge.gif", 3840, 2160, 50)
    reason = r"its 50 sampled frames would take 1,186 MiB, over the limit of 1,024 MiB .*: lower the cap on its frames"
    with pytest.raises(FrameReadError, match=reason):
        worker.read_frames(clip, every=1)
    assert len(worker.read_frames(clip, every=1, cap=2).pixels) == 2


def test_a_picture_over_the_limit_is_refused_with_the_remedy(worker: DecodingWorker, tmp_path: Path) -> None:
    clip = write_gif(tmp_path / "bomb.gif", 16000, 16000, 3)
    reason = r"a frame of 16000 x 16000 is over the limit of 35,651,584 pixels \(8192 x 4352\): scale the video down"
    with pytest.raises(FrameReadError, match=reason):
        worker.read_frames(clip)
    probe = worker.probe_video(clip)
    assert probe.status == "undecodable"
    assert probe.error is not None
    assert "scale the video down" in probe.error


def test_a_strip_too_narrow_for_the_encoder_is_refused(worker: DecodingWorker, tmp_path: Path) -> None:
    with pytest.raises(FrameReadError, match="a frame of 65535 x 1 is too narrow"):
        worker.read_frames(write_gif(tmp_path / "strip.gif", 65535, 1, 3), fit=PictureFit(224, 224))


def test_the_estimate_of_memory_counts_pictures_and_samples() -> None:
    fit = PictureFit(224, 224)
    assert estimate_video_bytes(1920 * 1080, 100, fit) == 60 * 1920 * 1080 + 6 * 100 * 3 * 224 * 224
    assert estimate_video_bytes(100, 10, None) == 60 * 100 + 6 * 10 * 300
    # What is not known, or beyond what is decoded, counts as the most that is.
    most = estimate_video_bytes(None, None, fit)
    assert most == 60 * 8192 * 4352 + 6 * 1024 * MIB
    assert estimate_video_bytes(10**12, 10**12, fit) == most
