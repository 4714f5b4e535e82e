"""Frames through PyAV (FFmpeg): every codec, damaged files as far as they go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from metrics_core.frames.container import (
    Timeline,
    open_video,
    presentation_times,
    quarter_turns,
    read_timeline,
    readable_packets,
)
from metrics_core.frames.records import FrameReadError, SampledFrames
from metrics_core.frames.sampling import sample_indices
from metrics_core.frames.seeking import SeekingFailed, Stretch, decode_stretches, plan_stretches

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream


class PyAVReader:
    """Decodes the stream in order and keeps the sampled frames; a packet that fails is left out.

    Parts without a sampled frame are passed over where the key frames allow it, see `plan_stretches`. As soon as that
    meets anything unexpected, the whole stream is decoded after all.
    """

    name = "pyav"

    def read(self, path: Path, every: int, cap: int | None) -> SampledFrames:
        """See `FrameReader.read`. Memory: the sampled frames and a handful more."""
        timeline = read_timeline(path)
        n_packets = len(timeline.times_s)
        wanted = sample_indices(n_packets, every, cap)
        stretches = plan_stretches(timeline, wanted)
        if len(stretches) > 1:
            try:
                pixels = _decode_parts(path, timeline, stretches, wanted)
            except SeekingFailed:
                pass  # decoding everything tells which frames there are
            else:
                return SampledFrames(wanted, timeline.times_s[wanted], pixels, n_packets, self.name)
        pixels, times_s = decode_in_order(path, wanted)
        n_frames = len(times_s)
        indices = sample_indices(n_frames, every, cap)
        if not np.array_equal(indices, wanted[: len(indices)]):
            # Fewer or more frames than packets, and a cap spreads over the number of frames: now that is known.
            pixels, times_s = decode_in_order(path, indices)
        return SampledFrames(indices, times_s[indices], pixels[: len(indices)], n_frames, self.name)


def decode_in_order(path: Path, wanted: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Pixels of the wanted frames, shape (len(wanted), H, W, 3), and the times of all frames of the video.

    Raises:
        FrameReadError: no frame can be decoded.
    """
    stamps: list[int | None] = []

    def numbered(frames: Iterable[VideoFrame]) -> Iterator[tuple[int, VideoFrame]]:
        for number, frame in enumerate(frames):
            stamps.append(frame.pts)
            yield number, frame

    with open_video(path) as (container, stream):
        pixels = _keep(path, numbered(_decodable_frames(container, stream)), wanted)
        return pixels, presentation_times(path, stamps, stream)


def _decode_parts(
    path: Path, timeline: Timeline, stretches: list[Stretch], wanted: NDArray[np.int64]
) -> NDArray[np.uint8]:
    with open_video(path) as (container, stream):
        return _keep(path, decode_stretches(container, stream, timeline, stretches), wanted)


def _keep(path: Path, frames: Iterable[tuple[int, VideoFrame]], wanted: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Upright pixels of the wanted ones of these frames, which come with their numbers."""
    pixels: NDArray[np.uint8] | None = None
    kept = 0
    for number, frame in frames:
        if pixels is None:
            width, height, turns = frame.width, frame.height, quarter_turns(frame)
            upright = (width, height) if turns % 2 else (height, width)
            pixels = np.empty((len(wanted), *upright, 3), dtype=np.uint8)
        if kept < len(wanted) and number == wanted[kept]:
            # The size may change within a stream: the first frame's size holds for all.
            picture = frame.reformat(width, height, format="rgb24").to_ndarray()
            pixels[kept] = np.rot90(picture, turns)
            kept += 1
    if pixels is None:
        raise FrameReadError(path, "no frame of the video can be decoded")
    return pixels


def _decodable_frames(container: InputContainer, stream: VideoStream) -> Iterator[VideoFrame]:
    """All frames that decode, in the order in which they are shown."""
    import av

    decoder = stream.codec_context
    for packet in chain(readable_packets(container, stream), (None,)):
        try:
            frames = decoder.decode(packet)
        except av.error.FFmpegError:
            continue  # a damaged packet: players skip it too, and probe_video reports it
        yield from frames
