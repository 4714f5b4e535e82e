"""The sampled frames of one video. Every frame is checked and cut down as soon as it is decoded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metrics_core.frames.fit import MAX_PIXELS, PictureFit, PictureRefused
from metrics_core.frames.records import FrameReadError

# The most memory for the sampled frames of one video as they leave the decoder: 7,133 frames of 224 x 224 pixels, or
# 172 of 1920 x 1080.
MAX_FRAMES_BYTES = 1 << 30


class PictureBuffer:
    """One array for at most `n` sampled frames of one video, which are checked and cut down one by one as they are
    added.

    Args:
        path: the video, for errors.
        n: the largest number of frames.
        fit: the part of a frame to keep; None keeps whole frames.
    """

    def __init__(self, path: Path, n: int, fit: PictureFit | None) -> None:
        self._path = path
        self._n = n
        self._fit = fit
        self._kept = 0
        self._pixels: NDArray[np.uint8] | None = None

    def add(self, picture: NDArray[np.uint8]) -> None:
        """Check one more frame, cut it down by the fit, and append it. Raises FrameReadError for a frame that is
        not fit, or of another size than the first, and where the limit of memory would be passed.

        Raises:
            FrameReadError: the frame is not uint8 (H, W, 3), is too large or too narrow, or differs in size from the
                first one; or all frames together would take more than `MAX_FRAMES_BYTES`.
        """
        try:
            _check_picture(picture)
            fitted = self._fit(picture) if self._fit else picture
        except PictureRefused as refused:
            raise FrameReadError(self._path, str(refused)) from refused
        if self._pixels is None:
            _check_memory(self._path, self._n, fitted.nbytes)
            self._pixels = np.empty((self._n, *fitted.shape), dtype=np.uint8)
        if fitted.shape != self._pixels.shape[1:]:
            raise FrameReadError(self._path, "its frames change their size")
        self._pixels[self._kept] = fitted
        self._kept += 1

    def require_pixels(self) -> NDArray[np.uint8]:
        """Return all frames added so far, uint8 (T, H, W, 3), in the order added. Raises FrameReadError without any."""
        if self._pixels is None:
            raise FrameReadError(self._path, "no frame of the video can be decoded")
        return self._pixels[: self._kept]


def _check_picture(picture: NDArray[np.uint8]) -> None:
    """Raise `PictureRefused` unless the array is a frame: uint8 (H, W, 3), not empty, at most `MAX_PIXELS` pixels."""
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
        raise PictureRefused(
            f"the decoder returned a frame of {picture.dtype} {picture.shape}, not of uint8 (height, width, 3)"
        )
    check_picture_size(picture.shape[1], picture.shape[0])


def check_picture_size(width: int, height: int) -> None:
    """Raise `PictureRefused` where a frame of this size has more than `MAX_PIXELS` pixels."""
    if width * height > MAX_PIXELS:
        raise PictureRefused(
            f"a frame of {width} x {height} is over the limit of {MAX_PIXELS:,} pixels (8192 x 4352): "
            "scale the video down"
        )


def _check_memory(path: Path, n: int, bytes_per_picture: int) -> None:
    """Raise `FrameReadError` where n frames take more memory than `MAX_FRAMES_BYTES` (1 GiB), the limit for one
    video. path: the video, for the message.
    """
    if n * bytes_per_picture > MAX_FRAMES_BYTES:
        raise FrameReadError(
            path,
            f"its {n:,} sampled {'frame' if n == 1 else 'frames'} would take {n * bytes_per_picture >> 20:,} MiB, "
            f"over the limit of {MAX_FRAMES_BYTES >> 20:,} MiB for one video: "
            "lower the cap on its frames or sample them farther apart",
        )
