"""The results of reading a video: sampled frames, facts about the file, or an error with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from metrics_core.frames.fit import PictureFit


class FrameReadError(Exception):
    """Raised when the frames of the video at ``path`` cannot be read; ``reason`` says why."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class DecoderFailed(FrameReadError):
    """Raised when a decoder crashed, ran out of time or met an unexpected error. The file may be healthy."""


class NotAVideo(FrameReadError):
    """Raised for a file without a video stream, such as an empty file, text, sound or a still image, and for a path
    that is not a file.
    """


@dataclass(frozen=True, eq=False)
class DecodedFrames:
    """The decoded pixels of one video's sampled frames, with their frame numbers and times, in the order shown.

    Attributes:
        indices: int64, shape (T,): positions of the frames among all decodable frames of the video.
        times_s: float64, shape (T,): seconds since the first frame of the video.
        pixels: uint8, shape (T, H, W, 3): RGB, upright (a rotation flag is applied), in stored pixels (non-square
            pixels are not stretched); cut down where a `PictureFit` was given.
        n_frames: number of decodable frames of the whole video, at least 1.
        reader: name of the reader that decoded the frames.
    """

    indices: NDArray[np.int64]
    times_s: NDArray[np.float64]
    pixels: NDArray[np.uint8]
    n_frames: int
    reader: str


class FrameReader(Protocol):
    """A decoder that reads sampled frames of a video, or refuses the file. All readers give the same frames for the
    same healthy file that they do not refuse.
    """

    @property
    def name(self) -> str:
        """Return the reader's short name, which is stored with all features of the frames that it read."""

    def read(self, path: Path, every: int, cap: int | None, fit: PictureFit | None) -> DecodedFrames:
        """Return the sampled frames of ``path`` in the order shown: the numbers ``choose_frame_indices(n_frames, every,
        cap)``, cut down by ``fit``; None keeps whole frames.

        Raises:
            FrameReadError: this reader cannot decode the file or cannot guarantee the right frames, or the frames
                take too much memory.
            ValueError: ``every`` or ``cap`` is below 1.
        """


@dataclass(frozen=True)
class VideoProbe:
    """Facts about a video file, such as duration, size and codec; an unknown fact is None, never 0. Its status is "ok",
    "damaged" or "undecodable", and `error` gives the fault.

    Attributes:
        duration_s: time from the first frame shown to the end of the last one, from the packets' time stamps.
        fps: frames per second that the container states, else the counted ones.
        n_frames: number of frames to show, without frames of the fully decoded part that fail to decode.
        width, height: in stored pixels after rotation.
        codec: name of the codec, such as ``h264`` or ``av1``.
        status: ``ok``; ``damaged``: some frames are missing or broken, or the file breaks off; ``undecodable``: the
            first frame cannot be decoded, or the decoder crashed or ran out of time.
        error: the fault and its place in seconds; None when ok.
    """

    duration_s: float | None
    fps: float | None
    n_frames: int | None
    width: int | None
    height: int | None
    codec: str | None
    status: Literal["ok", "damaged", "undecodable"]
    error: str | None
