"""Facts about an MP4 file of which only the first bytes are there: its index, and the first frame."""

from __future__ import annotations

from pathlib import Path

from metrics_core.frames.container import count_indexed_packets, open_video
from metrics_core.frames.probe import PacketScan
from metrics_core.frames.records import FrameReadError

_INDEX, _MEDIA = b"moov", b"mdat"
# In the index of a file in fragments, each of which lists its own packets.
_FRAGMENTS = b"mvex"


def find_index_end(head: bytes | bytearray) -> int | None:
    """Return the number of first bytes that hold the index of an MP4 file, from the beginning of the file; it may be
    more than were given. None for another file, and where the frames come before the index or in fragments.

    >>> find_index_end(bytes.fromhex("00000008") + b"ftyp" + bytes.fromhex("00000400") + b"moov")
    1032
    """
    place = 0
    while place + 16 <= len(head) or head[place + 4 : place + 8] == _INDEX:
        size, kind = int.from_bytes(head[place : place + 4], "big"), head[place + 4 : place + 8]
        if size == 1:  # the size follows, in eight bytes
            size = int.from_bytes(head[place + 8 : place + 16], "big")
        if kind == _INDEX:
            return None if size < 8 or _FRAGMENTS in head[place : place + size] else place + size
        if size < 8 or kind == _MEDIA or (place == 0 and kind != b"ftyp"):
            return None
        place += size
    return None


def collect_header_fields(path: Path, n_read: int) -> dict[str, object] | int | None:
    """Return the facts of `collect_probe_fields` from a file of full length that only has its first `n_read` bytes, and
    zeros after them; or the number of first bytes that it needs for its first frame. None for a file whose facts need
    all bytes: one without an index of all packets, or with any fault in what was read.

    Only the first frame is decoded, so that damage after it remains undetected.
    """
    try:
        with open_video(path) as (container, stream):
            entries = [entry for entry in stream.index_entries if entry.size > 0]
            if not container.format.name.startswith("mov") or not entries:
                return None
            if (needed := entries[0].pos + entries[0].size) > n_read:
                return needed if needed <= path.stat().st_size else None
            scan = PacketScan(path, stream, count_indexed_packets(stream), n_fully_decoded=1, checks_key_frames=False)
            scan.read_packets(container)
            is_whole = scan.n_packets == len(entries) and not scan.damage
            return scan.build_fields() if is_whole else None
    except FrameReadError:
        return None
