"""Reads frames with PyAV (FFmpeg): every codec, and damaged files as far as they decode."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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
from metrics_core.frames.fit import Fit
from metrics_core.frames.pictures import Pictures
from metrics_core.frames.records import SampledFrames
from metrics_core.frames.sampling import sample_indices

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.codeccontext import VideoCodecContext
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream
if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream


# Decodes only the parts of a stream that hold wanted frames, where its key frames allow it.

# Codecs whose decoder notices a damaged packet even when it makes no picture of it. With other codecs, damage in a
# skipped part would go unnoticed, and the frames behind it would get wrong numbers. (The decoder of H.264 misses only a
# broken header of valid length, of a picture that no other picture needs.) The decoder of HEVC misses some damage, and
# the decoders of VP9 and AV1 make the picture all the same.
CHECKED_CODECS = ("h264",)


class SeekingFailed(Exception):
    """The stream differs from its timeline: only decoding the whole stream tells which frames it has."""


class Stretch(NamedTuple):
    """Packets ``start`` (a key frame) to ``end - 1``. Frames ``start`` to ``stop - 1`` must be decoded."""

    start: int
    stop: int
    end: int


def plan_stretches(timeline: Timeline, wanted: NDArray[np.int64]) -> list[Stretch]:
    """Cut the stream at key frames, so that as few unwanted frames as possible are decoded.

    A restart of the decoder costs less than decoding one frame. So a stretch begins at the last key frame up to a
    wanted frame, unless this key frame directly follows the wanted frame before. The whole stream is one stretch where
    nothing can be skipped or skipping is not safe: time stamps are missing or repeated, groups of pictures are open,
    packets are or may be lost, or the codec is not in `CHECKED_CODECS`.

    Args:
        timeline: timeline of the stream.
        wanted: frame numbers, shape (T,), strictly increasing from 0.

    Examples:
        >>> timeline = Timeline(
        ...     times_s=np.arange(48) / 30,
        ...     ticks=np.arange(48),
        ...     key_frames=np.array([0, 12, 24, 36]),
        ...     codec="h264",
        ...     bits=8,
        ...     closed_groups=True,
        ...     n_missing=0,
        ...     fully_indexed=True,
        ... )
        >>> for stretch in plan_stretches(timeline, np.array([0, 10, 30, 40])):
        ...     print(stretch)
        Stretch(start=0, stop=11, end=24)
        Stretch(start=24, stop=31, end=36)
        Stretch(start=36, stop=41, end=48)
    """
    starts, stops = [0], []
    if timeline.codec in CHECKED_CODECS and timeline.closed_groups and _is_complete(timeline):
        n_key_frames_so_far = np.searchsorted(timeline.key_frames, wanted, side="right")
        key_frames = np.append(0, timeline.key_frames)[n_key_frames_so_far]
        for before, key_frame in zip(wanted.tolist(), key_frames[1:].tolist(), strict=False):
            if key_frame > before + 1:
                starts.append(key_frame)
                stops.append(before + 1)
    stops.append(int(wanted[-1]) + 1)
    ends = [*starts[1:], len(timeline.times_s)]
    return [Stretch(*numbers) for numbers in zip(starts, stops, ends, strict=True)]


def _is_complete(timeline: Timeline) -> bool:
    """Whether no packet is lost, as far as the container's index or an even rate can tell."""
    steps = np.diff(timeline.ticks)
    is_even = len(steps) > 0 and bool(steps.max() < 1.5 * np.median(steps))
    return not timeline.n_missing and (timeline.fully_indexed or is_even)


def decode_stretches(
    container: InputContainer, stream: VideoStream, timeline: Timeline, stretches: Iterable[Stretch]
) -> Iterator[tuple[int, VideoFrame]]:
    """Yield (number, frame) for the frames of the stretches, in the order in which they are shown.

    There is no seeking in the file: packets that are not needed are read and skipped. That is cheap, works in every
    container, and lets the decoder see their headers.

    Raises:
        SeekingFailed: a packet does not decode, a picture is broken, or a decoded frame is not the next one of the
            timeline. The frames yielded before may be wrong.
    """
    decoder = stream.codec_context
    # Otherwise the decoder hides damage in pictures that it does not make.
    decoder.options = {**decoder.options, "err_detect": "explode"}
    packets = readable_packets(container, stream)
    for start, stop, end in stretches:
        ticks = timeline.ticks[start:stop]
        pictures = decode_needed(decoder, islice(packets, end - start), ticks)
        for number, tick in enumerate(ticks.tolist(), start):
            picture = next(pictures, None)
            if picture is None or picture.pts != tick:
                raise SeekingFailed(f"frame {number} does not come out in its place")
            yield number, picture
        deque(pictures, maxlen=0)  # so that the skipped packets are checked too


def decode_needed(
    decoder: VideoCodecContext, packets: Iterable[Packet[VideoStream]], needed: NDArray[np.int64]
) -> Iterator[VideoFrame]:
    """Decode packets until all with the time stamps ``needed`` are decoded, and skip the rest.

    Yields all pictures that were made: the needed ones, and others before the last needed one in decoding order. The
    decoder is ready for a key frame afterwards.

    Raises:
        SeekingFailed: a packet, decoded or skipped, is damaged, or a picture is broken.
    """
    to_come = set(needed.tolist())
    decoder.skip_frame = "DEFAULT"
    for packet in packets:
        yield from _decode(decoder, packet)
        to_come -= {packet.pts}
        if not to_come:
            decoder.skip_frame = "ALL"
    yield from _decode(decoder, None)
    decoder.flush_buffers()


def _decode(decoder: VideoCodecContext, packet: Packet[VideoStream] | None) -> list[VideoFrame]:
    import av

    try:
        frames = decoder.decode(packet)
    except av.error.FFmpegError as error:
        raise SeekingFailed(f"a packet does not decode ({error.strerror})") from error
    if any(frame.is_corrupt for frame in frames):  # even an unwanted picture, because others need it
        raise SeekingFailed("a picture is broken")
    return frames


class PyAVReader:
    """Decodes the stream in order and keeps the sampled frames. A packet that fails is skipped.

    Parts without a sampled frame are skipped where the key frames allow it, see `plan_stretches`. If anything
    unexpected comes up on the way, the whole stream is decoded instead.
    """

    name = "pyav"

    def read(self, path: Path, every: int, cap: int | None, fit: Fit | None = None) -> SampledFrames:
        """See `FrameReader.read`. In memory are the sampled frames, cut down by ``fit``, and a few whole frames."""
        timeline = read_timeline(path)
        n_packets = len(timeline.times_s)
        wanted = sample_indices(n_packets, every, cap)
        stretches = plan_stretches(timeline, wanted)
        if len(stretches) > 1:
            try:
                pixels = _decode_parts(path, timeline, stretches, wanted, fit)
            except SeekingFailed:
                pass  # only decoding the whole stream tells which frames there are
            else:
                return SampledFrames(wanted, timeline.times_s[wanted], pixels, n_packets, self.name)
        pixels, times_s = decode_in_order(path, wanted, fit)
        n_frames = len(times_s)
        indices = sample_indices(n_frames, every, cap)
        if not np.array_equal(indices, wanted[: len(indices)]):
            # The number of frames, now known, differs from the number of packets, and the cap spreads over all frames.
            pixels, times_s = decode_in_order(path, indices, fit)
        return SampledFrames(indices, times_s[indices], pixels[: len(indices)], n_frames, self.name)


def decode_in_order(
    path: Path, wanted: NDArray[np.int64], fit: Fit | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Decode all frames: returns the pixels (T, H, W, 3) of the wanted frames that exist, and the times of all frames.

    Raises:
        FrameReadError: no frame can be decoded, or `Pictures` refuses a wanted frame.
    """
    stamps: list[int | None] = []

    def numbered(frames: Iterable[VideoFrame]) -> Iterator[tuple[int, VideoFrame]]:
        for number, frame in enumerate(frames):
            stamps.append(frame.pts)
            yield number, frame

    with open_video(path) as (container, stream):
        pixels = _keep(path, numbered(decodable_frames(container, stream)), wanted, fit)
        return pixels, presentation_times(path, stamps, stream)


def _decode_parts(
    path: Path, timeline: Timeline, stretches: list[Stretch], wanted: NDArray[np.int64], fit: Fit | None
) -> NDArray[np.uint8]:
    with open_video(path) as (container, stream):
        return _keep(path, decode_stretches(container, stream, timeline, stretches), wanted, fit)


def _keep(
    path: Path, frames: Iterable[tuple[int, VideoFrame]], wanted: NDArray[np.int64], fit: Fit | None
) -> NDArray[np.uint8]:
    """Keep the wanted frames of a stream of (number, frame), and return their upright pixels."""
    pictures = Pictures(path, len(wanted), fit)
    to_come = deque(wanted.tolist())
    width = height = turns = 0
    for number, frame in frames:
        if not width:
            # Size and rotation may change within a stream. All frames get the size and rotation of the first.
            width, height, turns = frame.width, frame.height, quarter_turns(frame)
        if to_come and number == to_come[0]:
            to_come.popleft()
            picture = frame.reformat(width, height, format="rgb24").to_ndarray()
            pictures.add(np.rot90(picture, turns))
    return pictures.pixels()


def decodable_frames(container: InputContainer, stream: VideoStream) -> Iterator[VideoFrame]:
    """Yield all frames that decode, in the order in which they are shown."""
    import av

    decoder = stream.codec_context
    for packet in chain(readable_packets(container, stream), (None,)):
        try:
            frames = decoder.decode(packet)
        except av.error.FFmpegError:
            continue  # players skip a damaged packet too, and probe_video reports it
        yield from frames
