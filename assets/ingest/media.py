"""The columns of table `video` that describe a video file: its place, its content, and whether it decodes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from assets.ingest.hygiene import shown
from assets.ingest.paths import PathRejected, resolve_inside
from assets.ingest.rejects import Reject
from assets.ingest.rows import VideoRow
from assets.media_file import FileState, has_content
from metrics_core.frames import NotAVideo, probe_video

PLACE = ("uri", "size_bytes", "mtime_ns", "ctime_ns", "inode")
PROBED = ("content_sha256", "duration_s", "fps", "n_frames", "width", "height", "codec", "status", "error")


def media_columns(folder: Path, row: VideoRow, stored: Any | None) -> dict[str, Any] | Reject:
    """The media columns of a video row, or the refusal of its file. `stored` is the video as the database has it.

    A file with the stored path, size, times and inode is not read. A file with other times or another place but the
    stored content is not probed again. A file that cannot be read or contains no video is refused. A file that is
    damaged or cannot be decoded is kept with its status and error.
    """
    if row.path is None:
        empty = dict.fromkeys((*PLACE, *PROBED))
        return {**empty, "duration_s": row.duration_s, "status": "text_only"}
    try:
        path = resolve_inside(folder, row.path)
        state = FileState.of(path.stat())
        place = {"uri": str(path), **asdict(state)}
        if stored is not None and _is_known(path, state, stored):
            return {**place, **{name: getattr(stored, name) for name in PROBED}}
        return {**place, **_probed(path)}
    except PathRejected as refused:
        return Reject(refused.code, refused.reason)
    except NotAVideo as refused:
        return Reject("not_a_video", str(refused))
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return Reject("file_missing", f"field 'path' is {shown(row.path)}: {why}: make the file readable")


def _is_known(path: Path, state: FileState, stored: Any) -> bool:
    """Whether the file is the one that was probed for the stored video."""
    if stored.uri is None:
        return False
    known = FileState.stored(stored)
    if stored.uri == str(path) and state.agrees_with(known):
        return True
    # A file that could not be decoded is probed again: perhaps the machine was busy.
    return stored.status != "undecodable" and has_content(path, state, known, bytes(stored.content_sha256))


def _probed(path: Path) -> dict[str, Any]:
    probe = asdict(probe_video(path))
    probe["content_sha256"] = bytes.fromhex(probe["content_sha256"])
    return {name: probe[name] for name in PROBED}
