"""What ingest stores of a video file: where it is, what it holds, whether it decodes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from assets.ingest.paths import PathRejected, resolve_inside
from assets.ingest.rejects import Reject
from assets.ingest.rows import VideoRow
from metrics_core.frames import NotAVideo, probe_video

PROBED = ("content_sha256", "duration_s", "fps", "n_frames", "width", "height", "codec", "status", "error")


def media_columns(folder: Path, row: VideoRow, stored: Any | None) -> dict[str, Any] | Reject:
    """The media columns of a video row, or why the file is refused.

    A file with the path, size and modification time of the stored one is not read again. A file that holds no video at
    all is refused; one that is damaged or cannot be decoded is kept with its status and error.
    """
    if row.path is None:
        empty = dict.fromkeys(("uri", "size_bytes", "mtime_ns", *PROBED))
        return {**empty, "duration_s": row.duration_s, "status": "text_only"}
    try:
        path = resolve_inside(folder, row.path)
    except PathRejected as refused:
        return Reject(refused.code, refused.reason)
    stat = path.stat()
    place = {"uri": str(path), "size_bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    if stored is not None and all(getattr(stored, name) == value for name, value in place.items()):
        return {**place, **{name: getattr(stored, name) for name in PROBED}}
    try:
        probe = asdict(probe_video(path))
    except NotAVideo as refused:
        return Reject("not_a_video", str(refused))
    probe["content_sha256"] = bytes.fromhex(probe["content_sha256"])
    return {**place, **{name: probe[name] for name in PROBED}}
