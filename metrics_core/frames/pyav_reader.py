"""Read frames with PyAV (FFmpeg): of every codec, and of damaged files the frames that decode."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from metrics_core.frames.container import (
    Timeline,
    compute_presentation_times,
    count_quarter_turns,
    open_video,
    read_packets,
    read_timeline,
)
from metrics_core.frames.fit import PictureFit
from metrics_core.frames.pictures import PictureBuffer
from metrics_core.frames.records import DecodedFrames
from metrics_core.frames.sampling import choose_frame_indices
from metrics_core.frames.stretches import SeekingFailed, Stretch, choose_stretches, decode_stretches

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream


class PyAVReader:
    """A `FrameReader` that decodes with FFmpeg and skips packets that fail to decode. Parts without a sampled frame are
    skipped where the key frames allow it, see `choose_stretches`. If anything unexpected comes up on the way, the whole
    stream is decoded instead.
    """

    name = "pyav"

    def read(self, path: Path, every: int, cap: int | None, fit: PictureFit | None = None) -> DecodedFrames:
        """Return the sampled frames of ``path``, decoded by PyAV, in the order shown. every: the distance between two
        sampled frames. cap: the most of them, None for no limit. fit: the part of a frame to keep; None keeps whole
        frames. Raises FrameReadError where no frame decodes or the frames take too much memory.

        In memory are the sampled frames, cut down by ``fit``, and a few whole frames.
        """
        timeline = read_timeline(path)
        n_packets = len(timeline.times_s)
        wanted = choose_frame_indices(n_packets, every, cap)
        stretches = choose_stretches(timeline, wanted)
        if len(stretches) > 1:
            try:
                pixels = _decode_stretches(path, timeline, stretches, wanted, fit)
            except SeekingFailed:
                pass  # only decoding the whole stream shows which frames there are
            else:
                return DecodedFrames(wanted, timeline.times_s[wanted], pixels, n_packets, self.name)
        with open_video(path) as (container, stream):
            return sample_frames(path, stream, decode_frames(container, stream), every, cap, fit, wanted)


def sample_frames(
    path: Path,
    stream: VideoStream,
    frames: Iterable[VideoFrame],
    every: int,
    cap: int | None,
    fit: PictureFit | None,
    wanted: NDArray[np.int64],
) -> DecodedFrames:
    """Return the sampled frames of an open stream from all its frames, in the order shown. wanted: the numbers of the
    frames that are sampled if every packet gives one; if not, the stream may be decoded again. every, cap, fit: as in
    `PyAVReader.read`. Raises FrameReadError without any frame, or if `PictureBuffer` refuses one.
    """
    stamps: list[int | None] = []

    def number_frames() -> Iterator[tuple[int, VideoFrame]]:
        for number, frame in enumerate(frames):
            stamps.append(frame.pts)
            yield number, frame

    pixels = _collect_pixels(path, number_frames(), wanted, fit)
    times_s = compute_presentation_times(path, stamps, stream)
    n_frames = len(times_s)
    indices = choose_frame_indices(n_frames, every, cap)
    if not np.array_equal(indices, wanted[: len(indices)]):
        # The number of frames, now known, differs from the number of packets, and the cap spreads over all frames.
        with open_video(path) as (container, again):
            return sample_frames(path, again, decode_frames(container, again), every, cap, fit, indices)
    return DecodedFrames(indices, times_s[indices], pixels[: len(indices)], n_frames, PyAVReader.name)


def _decode_stretches(
    path: Path, timeline: Timeline, stretches: list[Stretch], wanted: NDArray[np.int64], fit: PictureFit | None
) -> NDArray[np.uint8]:
    with open_video(path) as (container, stream):
        return _collect_pixels(path, decode_stretches(container, stream, timeline, stretches), wanted, fit)


def _collect_pixels(
    path: Path, frames: Iterable[tuple[int, VideoFrame]], wanted: NDArray[np.int64], fit: PictureFit | None
) -> NDArray[np.uint8]:
    """Return the upright pixels (T, H, W, 3) of the wanted frames of a stream of (number, frame), in their order."""
    pictures = PictureBuffer(path, len(wanted), fit)
    to_come = deque(wanted.tolist())
    width = height = turns = 0
    for number, frame in frames:
        if not width:
            # Size and rotation may change within a stream. All frames get the size and rotation of the first.
            width, height, turns = frame.width, frame.height, count_quarter_turns(frame)
        if to_come and number == to_come[0]:
            to_come.popleft()
            picture = frame.reformat(width, height, format="rgb24").to_ndarray()
            pictures.add(np.rot90(picture, turns))
    return pictures.require_pixels()


def decode_frames(container: InputContainer, stream: VideoStream) -> Iterator[VideoFrame]:
    """Yield all frames that decode, in the order in which they are shown. Packets that fail to decode are skipped."""
    import av

    decoder = stream.codec_context
    for packet in chain(read_packets(container, stream), (None,)):
        try:
            frames = decoder.decode(packet)
        except av.error.FFmpegError:
            continue  # players skip a damaged packet too, and probe_video reports it
        yield from frames
