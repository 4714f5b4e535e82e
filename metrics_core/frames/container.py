"""Open a media file with PyAV and read its packets. Playlists and network addresses are refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from metrics_core.frames.fit import MAX_PIXELS, PictureRefused
from metrics_core.frames.pictures import check_picture_size
from metrics_core.frames.records import FrameReadError, NotAVideo
from metrics_core.git_lfs import GIT_LFS_REMEDY, is_git_lfs_pointer

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Stream
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

AnyStream = TypeVar("AnyStream", bound="Stream")

# Playlists (HLS, DASH, concat) would make the decoder open other files or hosts, and FFmpeg also takes plain text and
# still images for video: only these demuxers may open a file.
ALLOWED_DEMUXERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,asf,ogg,mxf,rm,nut,ivf,obu,h264,hevc,gif,dv"
)

# A higher rate stands for the resolution of time stamps, such as milliseconds.
MAX_USUAL_RATE = 120

# (offset, bytes) at the beginning of video containers. They distinguish a broken video from a file of another type.
VIDEO_SIGNATURES = (
    *((4, box) for box in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip")),
    (0, b"\x1a\x45\xdf\xa3"),  # Matroska, WebM
    (8, b"AVI "),
    (0, b"FLV\x01"),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11"),  # ASF, WMV
    (0, b"\x00\x00\x01\xba"),  # MPEG programme stream
    (188, b"\x47"),  # MPEG transport stream: a sync byte opens each packet of 188 bytes
)


@dataclass(frozen=True, eq=False)
class Timeline:
    """The time stamps and key frames of one video stream, read from its packets without decoding. `times_s` are sorted
    seconds since the first frame; `key_frames` are frame numbers from 0, empty where they are not certain.

    Attributes:
        times_s: float64, shape (n,), sorted, seconds since the first frame.
        ticks: int64, shape (n,), sorted: the time stamps in the stream's unit; empty if a packet has none.
        key_frames: int64, shape (k,), increasing: numbers, from 0, of the key frames that are shown after all packets
            before them; empty if time stamps are missing or repeated, or if some packets are not to be shown.
        codec: name of the codec.
        bits_per_component: bits per colour component.
        has_closed_groups: whether the stream begins with a key frame and no packet behind a key frame is shown before
            it. Such a packet needs the group before the key frame (x265 writes such open groups by default).
        n_missing_packets: number of packets that the container's index lists but that cannot be read.
        is_fully_indexed: whether the index lists every packet that was read (in MP4 and AVI), so that no loss is
            hidden.
    """

    times_s: NDArray[np.float64]
    ticks: NDArray[np.int64]
    key_frames: NDArray[np.int64]
    codec: str
    bits_per_component: int
    has_closed_groups: bool
    n_missing_packets: int
    is_fully_indexed: bool


@contextmanager
def open_video(path: Path) -> Iterator[tuple[InputContainer, VideoStream]]:
    """Open a video file for decoding, and yield its container and its main video stream. Both close after the `with`
    block. Raises NotAVideo or FrameReadError where there is no video stream that can be opened.

    The stream decodes in one thread. With more threads, the frames of a damaged stream would depend on the number of
    cores.

    Raises:
        NotAVideo: there is no video stream in the file.
        FrameReadError: there is a video stream, but it cannot be opened, or its frames are too large.
    """
    import av
    from av.stream import Disposition
    from av.video.stream import VideoStream

    options = {"protocol_whitelist": "file", "format_whitelist": ALLOWED_DEMUXERS}
    try:
        # An absolute path, because FFmpeg reads "name:rest" as a protocol.
        container = av.open(str(path.absolute()), options=options, metadata_errors="ignore")
    except av.error.FFmpegError as error:
        with path.open("rb") as file:
            head = file.read(256)
        if any(head[offset:].startswith(signature) for offset, signature in VIDEO_SIGNATURES):
            raise FrameReadError(path, f"the container cannot be opened ({error.strerror})") from error
        is_pointer = is_git_lfs_pointer(head, path.stat().st_size)
        raise NotAVideo(path, f"it is {GIT_LFS_REMEDY}" if is_pointer else "it is not a video container") from error
    with container:
        stream = container.streams.best("video")
        # A still image inside a sound file, its cover, counts as a stream too.
        if not isinstance(stream, VideoStream) or stream.disposition & Disposition.attached_pic:
            raise NotAVideo(path, "the file holds no video stream")
        if stream.codec_context is None:
            raise FrameReadError(path, "no decoder is available for its video stream")
        try:
            check_picture_size(stream.codec_context.width, stream.codec_context.height)
        except PictureRefused as refused:
            raise FrameReadError(path, str(refused)) from refused
        # Frames may become larger within a stream.
        stream.codec_context.options = {"max_pixels": str(MAX_PIXELS)}
        stream.codec_context.thread_type = "NONE"
        yield container, stream


def read_packets(container: InputContainer, stream: AnyStream) -> Iterator[Packet[AnyStream]]:
    """Yield the packets of ``stream`` that hold data, in decoding order. Ends without an error where the rest of the
    file cannot be read.
    """
    import av

    try:
        for packet in container.demux(stream):
            if packet.size:
                yield cast("Packet[AnyStream]", packet)
    except av.error.FFmpegError:
        return  # the packets so far are the video; probe_video reports the break


def read_timeline(path: Path) -> Timeline:
    """Read all packets of a video file without decoding them, and return their times, key frames and codec. Raises
    NotAVideo for a file without a video stream, FrameReadError for a stream that cannot be opened or has no packets to
    show.
    """
    with open_video(path) as (container, stream):
        packets = [(p.pts, p.is_keyframe, p.is_discard) for p in read_packets(container, stream)]
        stamps = [pts for pts, _, is_discard in packets if not is_discard]
        if not stamps:
            raise FrameReadError(path, "the video stream is empty")
        decoder = stream.codec_context
        n_indexed = count_indexed_packets(stream)
        return Timeline(
            times_s=compute_presentation_times(path, stamps, stream),
            ticks=np.sort(np.array([] if None in stamps else stamps, dtype=np.int64)),
            key_frames=_find_key_frames(packets),
            codec=decoder.codec.canonical_name,
            bits_per_component=decoder.format.components[0].bits if decoder.format else 8,
            has_closed_groups=_has_closed_groups([(pts, is_key) for pts, is_key, _ in packets]),
            n_missing_packets=max(n_indexed - len(packets), 0),
            is_fully_indexed=n_indexed >= len(packets),
        )


def _has_closed_groups(packets: list[tuple[int | None, bool]]) -> bool:
    """Whether the first packet (time stamp, is key) is a key frame, and every key frame is shown before later ones."""
    earliest_behind: int | None = None
    for pts, is_key in reversed(packets):
        if pts is not None:
            if is_key and earliest_behind is not None and earliest_behind < pts:
                return False
            earliest_behind = pts if earliest_behind is None else min(pts, earliest_behind)
    return packets[0][1]


def _find_key_frames(packets: list[tuple[int | None, bool, bool]]) -> NDArray[np.int64]:
    """Return `Timeline.key_frames` for packets (time stamp, is key, is discarded) in decoding order."""
    stamps = np.array([pts for pts, _, _ in packets if pts is not None], dtype=np.int64)
    if len(set(stamps.tolist())) < len(packets) or any(is_discard for _, _, is_discard in packets):
        return np.empty(0, dtype=np.int64)
    keys = np.array([place for place, (_, is_key, _) in enumerate(packets) if is_key], dtype=np.int64)
    n_shown_before = np.searchsorted(np.sort(stamps), stamps[keys])
    return np.asarray(keys[n_shown_before == keys])


def compute_presentation_times(path: Path, stamps: Sequence[int | None], stream: VideoStream) -> NDArray[np.float64]:
    """Convert the time stamps of a stream's frames to seconds since the first frame: float64, shape (n,), sorted.
    stamps: in the stream's unit, in any order; if one is missing (None), all times are computed from the frame rate.
    path: for the message. Raises FrameReadError without stamps and rate.

    Sorting is right because frames are shown in the order of their stamps, and AVI attaches stamps to the wrong frames.
    """
    known = [stamp for stamp in stamps if stamp is not None]
    if len(known) == len(stamps) and stream.time_base is not None:
        ticks = np.sort(np.asarray(known, dtype=np.int64))
        return (ticks - ticks[:1]) * stream.time_base.numerator / stream.time_base.denominator
    rate = find_frame_rate(stream)
    if rate is None:
        raise FrameReadError(path, "the video has neither time stamps nor a frame rate")
    return np.arange(len(stamps), dtype=np.float64) / float(rate)


def count_indexed_packets(stream: VideoStream) -> int:
    """Count the packets in the container's index. MP4 and AVI list all packets, others key frames or none."""
    return sum(entry.size > 0 for entry in stream.index_entries)


def find_frame_rate(stream: VideoStream) -> Fraction | None:
    """Return the frames per second that the container gives or FFmpeg guesses; None where neither is known."""
    return stream.average_rate or stream.guessed_rate or None


def find_usual_rate(stream: VideoStream) -> Fraction | None:
    """Return the frames per second of a copy with a constant rate: the lowest rate that has a frame for every time
    stamp, if it is at most 120, else the average one. None where none is known.
    """
    rate = stream.guessed_rate
    return rate if rate and rate <= MAX_USUAL_RATE else find_frame_rate(stream)


def count_quarter_turns(frame: VideoFrame) -> int:
    """Return the number of turns by 90 degrees, anticlockwise, that make ``frame`` upright, from its rotation flag.
    Negative for clockwise turns, 0 for an upright frame.
    """
    return round(frame.rotation / 90)
