"""Frames through PyAV (FFmpeg): every codec, damaged files as far as they go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from metrics_core.frames.container import (
    open_video,
    presentation_times,
    quarter_turns,
    read_timeline,
    readable_packets,
)
from metrics_core.frames.records import FrameReadError, SampledFrames
from metrics_core.frames.sampling import sample_indices

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream


class PyAVReader:
    """Decodes the whole stream in order and keeps the sampled frames; a packet that fails is left out."""

    name = "pyav"

    def read(self, path: Path, every: int, cap: int | None) -> SampledFrames:
        """See `FrameReader.read`. Memory: the sampled frames and a handful more."""
        wanted = sample_indices(len(read_timeline(path).times_s), every, cap)
        pixels, times_s = _decode(path, wanted)
        n_frames = len(times_s)
        indices = sample_indices(n_frames, every, cap)
        if not np.array_equal(indices, wanted[: len(indices)]):
            # Fewer or more frames than packets, and a cap spreads over the number of frames: now that is known.
            pixels, times_s = _decode(path, indices)
        return SampledFrames(indices, times_s[indices], pixels[: len(indices)], n_frames, self.name)


def _decode(path: Path, wanted: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Pixels of the wanted frames, shape (len(wanted), H, W, 3), and the times of all frames of the video."""
    pixels: NDArray[np.uint8] | None = None
    stamps: list[int | None] = []
    kept = 0
    with open_video(path) as (container, stream):
        for frame in _decodable_frames(container, stream):
            if pixels is None:
                width, height, turns = frame.width, frame.height, quarter_turns(frame)
                upright = (width, height) if turns % 2 else (height, width)
                pixels = np.empty((len(wanted), *upright, 3), dtype=np.uint8)
            if kept < len(wanted) and len(stamps) == wanted[kept]:
                # The size may change within a stream: the first frame's size holds for all.
                picture = frame.reformat(width, height, format="rgb24").to_ndarray()
                pixels[kept] = np.rot90(picture, turns)
                kept += 1
            stamps.append(frame.pts)
        if pixels is None:
            raise FrameReadError(path, "no frame of the video can be decoded")
        return pixels, presentation_times(path, stamps, stream)


def _decodable_frames(container: InputContainer, stream: VideoStream) -> Iterator[VideoFrame]:
    """All frames that decode, in the order in which they are shown."""
    import av

    decoder = stream.codec_context
    for packet in (*readable_packets(container, stream), None):
        try:
            frames = decoder.decode(packet)
        except av.error.FFmpegError:
            continue  # a damaged packet: players skip it too, and probe_video reports it
        yield from frames
