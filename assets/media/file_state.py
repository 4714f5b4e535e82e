"""The state of a video's file, and the check that it is still the file that was ingested."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metrics_core.frames import compute_content_sha256

# Some file systems number their files up to 2^64, but a bigint of Postgres ends at 2^63.
_INODE_BITS = (1 << 63) - 1


class IngestedFileChanged(Exception):
    """Raised when the file of a video is gone, or is not the file that was ingested; the message says which."""


@dataclass(frozen=True, slots=True)
class FileState:
    """The size, times and inode of a file at one moment, as in the columns of table `video`. `mtime_ns` is the time of
    the last writing, `ctime_ns` that of any change, both in nanoseconds. An object of a store has only a size, and
    perhaps an `etag`, the mark by which the store recognises a content.

    Anyone can set the size and the modification time of a file, but not its time of change or its number (`inode`). A
    copy or a move to another disk or host changes these two as well, so the content decides where they differ. Both are
    None for videos that were ingested before they were stored; None agrees with any value.
    """

    size_bytes: int
    mtime_ns: int | None
    ctime_ns: int | None
    inode: int | None
    etag: str | None = None

    @classmethod
    def build_from_stat(cls, status: os.stat_result) -> FileState:
        """Build the state from what `os.stat` returns for a file; of the inode the lowest 63 bits are kept."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino & _INODE_BITS)

    @classmethod
    def build_from_video_row(cls, video: Any) -> FileState:
        """Build the state that a file had when it was ingested, from a row of table `video` with its columns as
        attributes.
        """
        return cls(video.size_bytes, video.mtime_ns, video.ctime_ns, video.inode, video.etag)

    def matches(self, stored: FileState) -> bool:
        """Return whether size, `mtime_ns`, `ctime_ns` and `inode` equal the stored ones, so that the file counts as
        unchanged. A stored `ctime_ns` or `inode` of None equals any value, and `etag` is not compared.
        """
        return (
            (self.size_bytes, self.mtime_ns) == (stored.size_bytes, stored.mtime_ns)
            and stored.ctime_ns in (self.ctime_ns, None)
            and stored.inode in (self.inode, None)
        )


def require_ingested_file(uri: str, stored: FileState, sha256: bytes) -> FileState:
    """Return the present state of the file at a path; raise IngestedFileChanged unless it is the file that was
    ingested. stored, sha256: state and SHA-256 (32 bytes) of the ingested file. The content is read and hashed only if
    the state has changed.

    Raises:
        IngestedFileChanged: the file is gone or not a regular one, a link is on its path, or its content has changed.
    """
    try:
        state = require_regular_file(Path(uri))
        if not state.matches(stored) and not has_content(Path(uri), state, stored, sha256):
            raise IngestedFileChanged("the file has changed since it was ingested")
        return state
    except OSError as error:
        raise IngestedFileChanged((error.strerror or str(error)).lower()) from error


def require_regular_file(path: Path) -> FileState:
    """Return the present state of the file at a path that ingest stored.

    Raises:
        IngestedFileChanged: the file is gone or not a regular one, or a link is on its path.
    """
    try:
        # Ingest stores paths without links, so a link on this path was made later and may lead anywhere.
        target = path.resolve(strict=True)
        if target != path:
            raise IngestedFileChanged(f"the path leads to {target} through a link made since it was ingested")
        status = target.stat()
        if not stat.S_ISREG(status.st_mode):
            raise IngestedFileChanged("it is not a regular file any more")
        return FileState.build_from_stat(status)
    except RuntimeError as error:  # how pathlib before Python 3.13 reports links in a circle
        raise IngestedFileChanged("the path leads nowhere, through a link made since it was ingested") from error
    except OSError as error:
        raise IngestedFileChanged((error.strerror or str(error)).lower()) from error


def has_content(path: Path, state: FileState, stored: FileState, sha256: bytes) -> bool:
    """Return whether a file, whose state may have changed, still has the stored content. It is read and hashed only if
    the sizes in `state` (now) and `stored` are equal. sha256: of the stored content, 32 bytes. Raises OSError if the
    file cannot be read.
    """
    return state.size_bytes == stored.size_bytes and bytes.fromhex(compute_content_sha256(path)) == sha256
