"""Facts about a video from its header: of an MP4 file that begins with its index, only the first bytes are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assets.media.errors import CHANGED_MEANWHILE, MediaUnavailable
from assets.media.file_state import FileState
from assets.media.files import MediaPlace, fetch_state, open_memory_file
from assets.media.members import read_range
from assets.media.settings import MediaSettings
from assets.media.tar_index import Member
from metrics_core.frames import VideoProbe, get_shared_worker
from metrics_core.frames.headers import find_index_end

# Bytes that are read first: the index of a clip, and often its first frame.
FIRST_BYTES = 1 << 17
# A larger index, or first frame, is that of a long film, which is read as a whole.
_MOST_BYTES = 1 << 26


def probe_by_header(
    place: MediaPlace, now: FileState, columns: Mapping[str, Any], settings: MediaSettings
) -> VideoProbe | None:
    """Return the facts about a video from the first bytes of its file, object or member of a tar file; None where only
    the whole file can tell: another container than MP4, an index at the end, a fault. now: the present state of the
    place, which the bytes must have. columns: `size_bytes` and `member_offset` of the video.

    Raises MediaUnavailable, also for a file that changed meanwhile, and OSError for a file of this machine.
    """
    size_bytes, offset, head = columns["size_bytes"], columns["member_offset"] or 0, bytearray()
    needed, most = min(FIRST_BYTES, size_bytes), min(_MOST_BYTES, size_bytes)
    found: VideoProbe | None = None
    with open_memory_file() as (path, file):
        # The bytes that are not read are zeros, which take no memory.
        file.truncate(size_bytes)
        while len(head) < needed <= most:
            part = Member(offset + len(head), needed - len(head))
            try:
                read_range(place.holder, part, settings, head.extend, etag=now.etag)
            except MediaUnavailable:
                return None  # reading the whole file shows why, unless the server only knows no ranges
            end = find_index_end(head)
            if end is None:
                break
            if end > len(head):
                needed = min(end + FIRST_BYTES, size_bytes)
                continue
            file.seek(0)
            file.write(head)
            file.flush()
            answer = get_shared_worker().probe_header(path, len(head))
            if not isinstance(answer, int):
                found = answer
                break
            needed = answer
    if now.etag is None and fetch_state(place, settings) != now:
        raise MediaUnavailable("trouble", CHANGED_MEANWHILE)
    return found
