"""What reading a video gives: sampled frames, facts about the file, or an error that says why not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from metrics_core.frames.fit import Fit


class FrameReadError(Exception):
    """No frame can be read from ``path``, for ``reason``."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class DecoderFailed(FrameReadError):
    """A decoder crashed, ran out of time or met an unexpected error on ``path``: perhaps it is not the file's fault."""


class NotAVideo(FrameReadError):
    """The file holds no video stream at all: text, sound only, a still picture, nothing."""


@dataclass(frozen=True, eq=False)
class SampledFrames:
    """The sampled frames of one video, in the order in which they are shown.

    Attributes:
        indices: int64, shape (T,): position of each frame among the decodable frames of the video.
        times_s: float64, shape (T,): seconds since the first frame of the video.
        pixels: uint8, shape (T, H, W, 3): RGB, upright (a rotation flag is applied), in stored pixels (non-square
            pixels are not stretched), or cut down by the `Fit` that was asked for.
        n_frames: decodable frames of the whole video, at least 1.
        reader: name of the reader that decoded them.
    """

    indices: NDArray[np.int64]
    times_s: NDArray[np.float64]
    pixels: NDArray[np.uint8]
    n_frames: int
    reader: str


class FrameReader(Protocol):
    """A decoder that can sample a video. Readers give the same frames for the same healthy file."""

    @property
    def name(self) -> str:
        """Short name, stored with everything that was computed from the frames."""

    def read(self, path: Path, every: int, cap: int | None, fit: Fit | None) -> SampledFrames:
        """The frames ``sample_indices(n_frames, every, cap)`` of ``path``, each cut down by ``fit`` as it is decoded.

        Raises:
            FrameReadError: this reader cannot decode the file, or cannot promise the right frames of it, or they
                take too much memory.
            ValueError: ``every`` or ``cap`` is below 1.
        """


@dataclass(frozen=True)
class VideoProbe:
    """Facts about a video file. What is not known is None, never 0.

    Attributes:
        duration_s: from the first frame shown to the end of the last one, counted from the packets.
        fps: frames per second as the container states it, else counted.
        n_frames: frames that are to be shown. Frames that fail to decode in the part decoded in full are not
            counted.
        width, height: in stored pixels after rotation.
        codec: name of the coding, such as ``h264`` or ``av1``.
        content_sha256: of the bytes of the file, in hexadecimal.
        status: ``ok``; ``damaged``: some frames are missing or broken, or the file breaks off; ``undecodable``: the
            first frame cannot be decoded, or the decoder crashed or ran out of time.
        error: what is wrong and where (seconds), None when ok.
    """

    duration_s: float | None
    fps: float | None
    n_frames: int | None
    width: int | None
    height: int | None
    codec: str | None
    content_sha256: str
    status: Literal["ok", "damaged", "undecodable"]
    error: str | None
