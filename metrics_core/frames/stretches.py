"""Decode only the parts of a stream that hold wanted frames, where its key frames allow it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metrics_core.frames.container import Timeline, read_packets

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.codeccontext import VideoCodecContext
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

# Codecs whose decoder notices a damaged packet even when it makes no frame of it. With other codecs, damage in a
# skipped part would go unnoticed, and the frames behind it would get wrong numbers. (The decoder of H.264 misses only a
# broken header of valid length, of a frame that no other frame needs.) The decoder of HEVC misses some damage, and
# the decoders of VP9 and AV1 make the frame all the same.
SKIPPABLE_CODECS = ("h264",)


class SeekingFailed(Exception):
    """Raised when a stream differs from its timeline: only decoding all of it shows which frames it has."""


class Stretch(NamedTuple):
    """A part of a stream that is decoded from a key frame on: packets ``start`` to ``packet_stop - 1``. Frames
    ``start`` to ``frame_stop - 1`` of it are decoded, and the packets after them skipped.
    """

    start: int
    frame_stop: int
    packet_stop: int


def choose_stretches(timeline: Timeline, wanted: NDArray[np.int64]) -> list[Stretch]:
    """Split a stream at key frames into parts, in order, so that as few unwanted frames as possible are decoded.
    wanted: numbers of the wanted frames. The whole stream is one part where skipping saves nothing or is not safe.

    A restart of the decoder costs less than decoding one frame. So a stretch begins at the last key frame up to a
    wanted frame, unless this key frame directly follows the wanted frame before. The whole stream is one stretch where
    nothing can be skipped or skipping is not safe: time stamps are missing or repeated, groups of pictures are open,
    packets are or may be lost, or the codec is not in `SKIPPABLE_CODECS`.

    Args:
        timeline: timeline of the stream.
        wanted: frame numbers, shape (T,), strictly increasing from 0.

    Examples:
        >>> timeline = Timeline(
        ...     times_s=np.arange(48) / 30,
        ...     ticks=np.arange(48),
        ...     key_frames=np.array([0, 12, 24, 36]),
        ...     codec="h264",
        ...     bits_per_component=8,
        ...     has_closed_groups=True,
        ...     n_missing_packets=0,
        ...     is_fully_indexed=True,
        ... )
        >>> for stretch in choose_stretches(timeline, np.array([0, 10, 30, 40])):
        ...     print(stretch)
        Stretch(start=0, frame_stop=11, packet_stop=24)
        Stretch(start=24, frame_stop=31, packet_stop=36)
        Stretch(start=36, frame_stop=41, packet_stop=48)
    """
    starts, stops = [0], []
    if timeline.codec in SKIPPABLE_CODECS and timeline.has_closed_groups and _is_complete(timeline):
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
    """Whether no packet is lost, judged by the container's index or by an even rate."""
    steps = np.diff(timeline.ticks)
    is_even = len(steps) > 0 and bool(steps.max() < 1.5 * np.median(steps))
    return not timeline.n_missing_packets and (timeline.is_fully_indexed or is_even)


def decode_stretches(
    container: InputContainer, stream: VideoStream, timeline: Timeline, stretches: Iterable[Stretch]
) -> Iterator[tuple[int, VideoFrame]]:
    """Decode the needed frames of these parts of a stream, and yield (number, frame), in the order in which they are
    shown. Raises SeekingFailed where the stream differs from its timeline; then frames yielded before may be wrong.

    There is no seeking in the file: packets that are not needed are read and skipped. That is cheap, works in every
    container, and lets the decoder see their headers.

    Raises:
        SeekingFailed: a packet does not decode, a frame is broken, or a decoded frame is not the next one of the
            timeline. The frames yielded before may be wrong.
    """
    decoder = stream.codec_context
    # Otherwise the decoder hides damage in frames that it does not make.
    decoder.options = {**decoder.options, "err_detect": "explode"}
    packets = read_packets(container, stream)
    for start, stop, end in stretches:
        ticks = timeline.ticks[start:stop]
        pictures = decode_until_needed(decoder, islice(packets, end - start), ticks)
        for number, tick in enumerate(ticks.tolist(), start):
            picture = next(pictures, None)
            if picture is None or picture.pts != tick:
                raise SeekingFailed(f"decoding after a seek did not return frame {number}")
            yield number, picture
        deque(pictures, maxlen=0)  # so that the skipped packets are checked too


def decode_until_needed(
    decoder: VideoCodecContext, packets: Iterable[Packet[VideoStream]], needed: NDArray[np.int64]
) -> Iterator[VideoFrame]:
    """Decode packets until all those with the time stamps ``needed`` are decoded, skip the rest, and yield the decoded
    frames. Raises SeekingFailed for a damaged packet, also a skipped one, and for a broken frame.

    Besides the needed frames, it yields others that come before the last needed one in decoding order. The decoder is
    ready for a key frame afterwards.

    Raises:
        SeekingFailed: a packet, decoded or skipped, is damaged, or a frame is broken.
    """
    to_come = set(needed.tolist())
    decoder.skip_frame = "DEFAULT"
    for packet in packets:
        yield from _decode_packet(decoder, packet)
        to_come -= {packet.pts}
        if not to_come:
            decoder.skip_frame = "ALL"
    yield from _decode_packet(decoder, None)
    decoder.flush_buffers()


def _decode_packet(decoder: VideoCodecContext, packet: Packet[VideoStream] | None) -> list[VideoFrame]:
    import av

    try:
        frames = decoder.decode(packet)
    except av.error.FFmpegError as error:
        raise SeekingFailed(f"a packet does not decode ({error.strerror})") from error
    if any(frame.is_corrupt for frame in frames):  # even an unwanted frame, because others need it
        raise SeekingFailed("a frame is broken")
    return frames
