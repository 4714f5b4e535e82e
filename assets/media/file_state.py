"""The state of a video's file at one moment, and a file that is held open for a while."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Some file systems number their files up to 2^64, but a bigint of Postgres ends at 2^63.
_INODE_BITS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class FileState:
    """The size, times and inode of a file at one moment, as in the columns of table `video`. `mtime_ns` is the time of
    the last writing, `ctime_ns` that of any change, both in nanoseconds. An object of a store has instead an `etag`,
    the mark by which the store recognises a content, and a size; either is None where the store does not give it. A
    Lance table has its version as `etag`.

    Anyone can set the size and the modification time of a file, but not its time of change or its number (`inode`). A
    copy or a move to another disk or host changes these two as well, so the content decides where they differ.
    """

    size_bytes: int | None
    mtime_ns: int | None = None
    ctime_ns: int | None = None
    inode: int | None = None
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
        """Return whether the file counts as unchanged since a stored state: all values are equal, and there are times
        or an etag among them.
        """
        return self == stored and (self.mtime_ns, self.etag) != (None, None)


@dataclass(frozen=True, slots=True)
class HeldFile:
    """The file of a video during a block: a path by which every process of this machine's user opens it, the SHA-256 of
    its content (32 bytes), and its size in bytes. `member_offset` is the place of its first byte in a tar file, None
    where it is in none.
    """

    path: Path
    sha256: bytes
    size_bytes: int
    member_offset: int | None = None
