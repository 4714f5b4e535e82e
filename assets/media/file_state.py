"""The state of a video's file at one moment, and a file that is held open for a while."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assets.media.address import is_member_address
from assets.media.tar_index import Member

# Some file systems number their files up to 2^64, but a bigint of Postgres ends at 2^63.
_INODE_BITS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class FileState:
    """The size, times and inode of a file at one moment, as in the columns of table `video`. `mtime_ns` is the time of
    the last writing, `ctime_ns` that of any change, both in nanoseconds. An object of a store only has `etag`, the
    store's name for its content, and a size, if given; a Lance table its version.

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

    def matches(self, video: Any) -> bool:
        """Return whether the state shows that a video's bytes are those that ingest read: all values are equal, and
        there are times or an etag among them. video: a row of table `video`, with the state of then as attributes.

        The state of a tar file or Lance table has no size, since the row has the size of the video in it.
        """
        size_bytes = self.size_bytes if is_member_address(video.uri) else video.size_bytes
        stored = FileState(size_bytes, video.mtime_ns, video.ctime_ns, video.inode, video.etag)
        return self == stored and (self.mtime_ns, self.etag) != (None, None)

    def identify(self, uri: str, member: Member | None = None) -> bytes | None:
        """Return the digest (32 bytes) by which identity etag recognises a video: of its address, and of the etag and
        size of its object, or modification time and size of its file. None where a store or a Lance table does not give
        both. uri: as in table `video`.

        member: the video's place in the tar file that has this state. The digest stays the same where a media root
        moves and its files keep their times.
        """
        version = self.etag or self.mtime_ns
        if version is None or self.size_bytes is None:
            return None
        # A digest of content is not of such a text: the two never meet.
        parts = ["reelsieve video by etag", uri, version, self.size_bytes, *(member or ())]
        return hashlib.sha256(json.dumps(parts).encode()).digest()


@dataclass(frozen=True, slots=True)
class HeldFile:
    """The file of a video during a block: a path by which every process of this machine's user opens it, its digest as
    in column `content_sha256`, and its size in bytes. `member_offset` is the place of its first byte in a tar file,
    None where it is in none.

    is_hashed: whether the digest is the SHA-256 of the bytes.
    """

    path: Path
    digest: bytes
    size_bytes: int
    member_offset: int | None = None
    is_hashed: bool = True
