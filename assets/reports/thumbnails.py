"""Small images of a video for a page: some frames as JPEG, or the reason why there are none."""

from __future__ import annotations

import io
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assets.media.errors import MediaUnavailable
from assets.media.files import hold_ingested_file
from metrics_core.frames.decoding import get_shared_worker
from metrics_core.frames.fit import PictureFit
from metrics_core.frames.records import FrameReadError

N_FRAMES = 4
HEIGHT = 96
# In heights of the image. Wider images are made smaller, narrower ones stay narrower.
_WIDEST = 2
_QUALITY = 55
TIMEOUT_S = 20.0

Thumbnails = tuple[tuple[tuple[float, bytes], ...], str | None]
"""Frames of a video as (seconds, JPEG bytes), and None; or no frames, and the reason why."""


def read_thumbnails(video: Mapping[str, Any], height: int = HEIGHT) -> Thumbnails:
    """Decode up to four frames of a video at equal distances as JPEG images of at most `height` pixels, as ((seconds,
    bytes) pairs, None); no frames and the reason where its file is missing or unreadable. video: a row of table `video`
    as a mapping, with its key under "video". A remote file is fetched; a reader has 20 seconds.
    """
    if video["status"] == "text_only" or not video["uri"] or video["content_sha256"] is None:
        return (), "text only: this video came without a file"
    if video["status"] == "undecodable":
        return (), f"its file does not decode: {video['error']}"
    every = max(1, (video["n_frames"] or 1) // N_FRAMES)
    try:
        with hold_ingested_file(SimpleNamespace(**{**video, "key": video["video"]})) as held:
            frames = get_shared_worker().read_frames(
                held.path, every=every, cap=N_FRAMES, fit=_compute_fit(video, height), timeout_s=TIMEOUT_S
            )
    except MediaUnavailable as error:
        return (), f"the file cannot be shown: {error}"
    except FrameReadError as error:
        return (), f"the file cannot be shown: {error.reason}"
    return tuple(zip(frames.times_s.tolist(), map(encode_jpeg, frames.pixels), strict=True)), None


def encode_jpeg(pixels: NDArray[np.uint8]) -> bytes:
    """Encode an image, uint8 RGB (H, W, 3), as JPEG bytes of quality 55."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="JPEG", quality=_QUALITY, optimize=True)
    return stream.getvalue()


def _compute_fit(video: Mapping[str, Any], height: int) -> PictureFit:
    """Return how to scale frames to the height of a thumbnail, at their own aspect ratio where it is known."""
    widest = _WIDEST * height
    width = round(height * video["width"] / video["height"]) if video["width"] and video["height"] else widest
    return PictureFit(
        height, min(max(width, 1), widest), resize_mode="longest" if width > widest else "squash", fill=255
    )
