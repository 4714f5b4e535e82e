"""Collect facts about a video file in one pass over its packets. Runs in the decoding worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, cast

from metrics_core.frames.container import (
    count_indexed_packets,
    count_quarter_turns,
    find_frame_rate,
    find_usual_rate,
    open_video,
)
from metrics_core.frames.endings import ends_as_declared, find_promised_end
from metrics_core.frames.gaps import lacks_data, list_pauses, list_times_without_picture
from metrics_core.frames.records import FrameReadError, NotAVideo

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Stream
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream


# The number of first packets, which are all decoded, and the smallest distance of two decoded key frames after them.
N_FULLY_DECODED = 300
KEY_FRAME_SPACING_S = 1.0

# The most by which the streams may be shorter than the header says.
MAX_SHORTFALL_S = 1.0

UNKNOWN_FIELDS: dict[str, object] = dict.fromkeys(("duration_s", "fps", "n_frames", "width", "height", "codec"))


def collect_probe_fields(path: Path) -> dict[str, object]:
    """Check a video file, and return facts, status and error by name: the fields of `VideoProbe`. A file that cannot
    be decoded has the status "undecodable"; one without a video stream raises NotAVideo.

    An unknown fact is None. Every packet is read, so counts and duration are exact. The first 300 packets are decoded,
    and of the rest at most one key frame per second. ``damaged`` means: a packet does not decode, a frame is broken,
    a packet gives no frame, packets were lost in a pause of a steady stream (`lacks_data`), reading fails, or the
    file is shorter than its header or index says. A frame may be held as long as it likes. Damage between later key
    frames, and wrong frames in a valid stream, remain undetected.

    Raises:
        NotAVideo: the file holds no video stream.
    """
    try:
        with open_video(path) as (container, stream):
            scan = PacketScan(path, stream, count_indexed_packets(stream))
            scan.read_packets(container)
            return scan.build_fields()
    except NotAVideo:
        raise
    except FrameReadError as error:
        return {**UNKNOWN_FIELDS, "status": "undecodable", "error": error.reason}


@contextmanager
def _note_lost_references(times_s: list[float], time_s: float) -> Iterator[None]:
    """Add `time_s` to `times_s` if the decoder of H.264 misses frames in the numbers of a stream; it only logs that."""
    import av

    level = av.logging.get_level()
    av.logging.set_level(av.logging.DEBUG)
    try:
        with av.logging.Capture() as log:
            yield
    finally:
        av.logging.set_level(level)
    times_s += [time_s] if any(message.startswith("Frame num gap") for *_, message in log) else []


@dataclass
class PacketScan:
    """The facts that one pass over the packets collects; times are seconds on the container's clock. n_indexed: the
    number of packets that the index lists before any is read. n_fully_decoded: number of first packets to decode.
    checks_key_frames: whether later key frames are decoded too.
    """

    path: Path
    stream: VideoStream
    n_indexed: int
    n_fully_decoded: int = N_FULLY_DECODED
    checks_key_frames: bool = True
    n_packets: int = 0
    shown_s: list[float] = field(default_factory=list)
    key_s: list[float] = field(default_factory=list)
    sound_s: list[float] = field(default_factory=list)
    last_shown_s: float = -inf
    end_s: float = 0.0
    all_streams_end_s: float = 0.0
    n_shown_in_full_part: int = 0
    decoded_s: list[float | None] = field(default_factory=list)
    first_frame: VideoFrame | None = None
    first_packet_failed: bool = False
    lost_references_s: list[float] = field(default_factory=list)
    key_frame_places: frozenset[int | None] = frozenset()
    next_key_frame_s: float = 0.0
    damage: list[tuple[float, str]] = field(default_factory=list)

    def read_packets(self, container: InputContainer) -> None:
        """Read the packets of all streams, and decode some packets of the video stream."""
        import av

        try:
            for packet in container.demux():
                if packet.size and packet.stream_index == self.stream.index:
                    self._read_packet(packet)
                elif packet.size and packet.dts is not None:
                    end_s = float((packet.dts + (packet.duration or 0)) * packet.time_base)
                    self.all_streams_end_s = max(self.all_streams_end_s, end_s)
                    if packet.stream.type == "audio":
                        self.sound_s.append(float(packet.dts * packet.time_base))
        except av.error.FFmpegError as error:
            self.damage.append((self.end_s, f"reading fails ({error.strerror})"))
        if self.n_packets <= self.n_fully_decoded:
            self._end_full_part()
        self.damage += self._list_missing_pictures() + self._list_missing_end(container)

    def _read_packet(self, packet: Packet[Stream]) -> None:
        rate = find_frame_rate(self.stream)
        stamp = packet.dts if packet.pts is None else packet.pts
        # A bare stream has no time stamps: FFmpeg then assumes a rate, 25 where it has no reason for another.
        time_s = self.n_packets / float(rate or 25) if stamp is None else float(stamp * packet.time_base)
        usual_s = 1 / float(find_usual_rate(self.stream) or 25)
        frame_s = float(packet.duration * packet.time_base) if packet.duration else usual_s
        if self.n_packets == self.n_fully_decoded:
            self._end_full_part()
        self.n_packets += 1
        if not packet.is_discard:
            self.shown_s.append(time_s)
            self.key_s += [time_s] if packet.is_keyframe else []
            # In MP4 a packet's duration is the distance to the next in decoding order: only the last one's is right.
            if time_s > self.last_shown_s or self.stream.container.format.name.startswith("mov"):
                self.last_shown_s = max(time_s, self.last_shown_s)
                self.end_s = self.last_shown_s + frame_s
        if self.n_packets <= self.n_fully_decoded:
            self.decoded_s += self._decode(packet, time_s)
        elif self.checks_key_frames and (packet.is_keyframe or packet.pos in self.key_frame_places):
            self._check_key_frame(packet, time_s)

    def _check_key_frame(self, packet: Packet[Stream], time_s: float) -> None:
        if packet.is_discard or time_s < self.next_key_frame_s:
            return
        self.next_key_frame_s = time_s + KEY_FRAME_SPACING_S
        n_damage = len(self.damage)
        frames = self._decode(packet, time_s) + self._drain(time_s)
        if not frames and len(self.damage) == n_damage:
            self.damage.append((time_s, "a key frame gives no frame"))

    def _end_full_part(self) -> None:
        self.decoded_s += self._drain(self.end_s)
        self.n_shown_in_full_part = len(self.shown_s)
        # A key frame whose first bytes are lost no longer looks like a key frame, but the index still lists it.
        self.key_frame_places = frozenset(entry.pos for entry in self.stream.index_entries if entry.is_keyframe)

    def _decode(self, packet: Packet[Stream] | None, time_s: float) -> list[float | None]:
        """Decode a packet and note damage. Returns the times of the decoded frames, None where a time is unknown."""
        import av

        try:
            with _note_lost_references(self.lost_references_s, time_s):
                frames = self.stream.codec_context.decode(packet)
        except av.error.FFmpegError as error:
            self.damage.append((time_s, f"a packet does not decode ({error.strerror})"))
            self.first_packet_failed |= self.n_packets == 1
            return []
        if frames and self.first_frame is None:
            self.first_frame = frames[0]
        # Frames from draining have no time base of their own, and frames of a bare stream no time stamp.
        times_s = [None if frame.pts is None else float(frame.pts * self._time_base) for frame in frames]
        for shown_s, frame in zip(times_s, frames, strict=True):
            if frame.is_corrupt:
                self.damage.append((time_s if shown_s is None else shown_s, "a frame is broken"))
        return times_s

    def _drain(self, time_s: float) -> list[float | None]:
        times_s = self._decode(None, time_s)
        self.stream.codec_context.flush_buffers()
        return times_s

    def _list_missing_pictures(self) -> list[tuple[float, str]]:
        lost = [
            (begin_s, f"frames are missing for {end_s - begin_s:.2f} s")
            for begin_s, end_s in list_pauses(self.shown_s)
            if any(begin_s < time_s <= end_s for time_s in self.lost_references_s)
            or lacks_data((begin_s, end_s), sorted(self.key_s), sorted(self.sound_s))
        ]
        decoded_s = [time_s for time_s in self.decoded_s if time_s is not None]
        # Failed packets are noted already; and in MPEG-4 part 2 an empty packet means "the same frame again".
        if self.damage or len(decoded_s) < len(self.decoded_s) or self.codec == "mpeg4":
            return lost
        silent_s = list_times_without_picture(self.shown_s[: self.n_shown_in_full_part], decoded_s)
        return lost + [(time_s, "a packet gives no frame") for time_s in silent_s]

    def _list_missing_end(self, container: InputContainer) -> list[tuple[float, str]]:
        promised = count_indexed_packets(self.stream)
        if promised > self.n_packets:
            return [(self.end_s, f"only {self.n_packets} of {promised} packets can be read")]
        promised_s = find_promised_end(container)
        if promised_s is None or promised_s - max(self.end_s, self.all_streams_end_s) <= MAX_SHORTFALL_S:
            return []
        if self.n_packets != self.n_indexed and not ends_as_declared(self.path, container.format.name):
            return [(self.end_s, f"the file breaks off, but its header promises {promised_s:.2f} s")]
        self.end_s = promised_s  # all is there: the last frame is held
        return []

    @property
    def _time_base(self) -> Fraction:
        return cast(Fraction, self.stream.time_base)  # every stream that comes from a file has one

    @property
    def codec(self) -> str:
        return self.stream.codec_context.codec.canonical_name

    def build_fields(self) -> dict[str, object]:
        """Return the fields of `VideoProbe` by name."""
        if not self.shown_s:
            return {
                **UNKNOWN_FIELDS,
                "codec": self.codec,
                "status": "undecodable",
                "error": "the video stream is empty",
            }
        start_s = min(self.shown_s)
        duration_s = self.end_s - start_s
        n_frames = len(self.shown_s) - self.n_shown_in_full_part + len(self.decoded_s)
        rate = find_frame_rate(self.stream)
        known: dict[str, object] = {
            "duration_s": duration_s,
            "fps": float(rate) if rate else len(self.shown_s) / duration_s,
            "n_frames": n_frames,
            "width": None,
            "height": None,
            "codec": self.codec,
        }
        if self.first_frame is None or self.first_packet_failed:
            fault = self.damage[0][1] if self.damage else "no packet gives a frame"
            return {**known, "status": "undecodable", "error": f"the first frame cannot be decoded: {fault}"}
        size = (self.first_frame.width, self.first_frame.height)
        known["width"], known["height"] = size[::-1] if count_quarter_turns(self.first_frame) % 2 else size
        if not self.damage:
            return {**known, "status": "ok", "error": None}
        time_s, fault = min(self.damage)
        more = f" ({len(self.damage)} such places in all)" if len(self.damage) > 1 else ""
        return {**known, "status": "damaged", "error": f"at {time_s - start_s:.2f} s {fault}{more}"}
