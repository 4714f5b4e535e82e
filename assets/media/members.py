"""Where members of tar files lie: the headers of a tar file on this machine or in a store are read once, and
remembered.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import IO, cast

from assets.media.address import Address
from assets.media.errors import MediaUnavailable
from assets.media.file_state import FileState
from assets.media.settings import MediaSettings
from assets.media.store import BLOCK_BYTES, ObjectStore
from assets.media.tar_index import MAX_MEMBERS, Member, TarIndex, read_tar_index

# Bytes that are read ahead of a header of a remote tar file: headers of small files lie close together.
_HEADER_BLOCK = 1 << 16
_MOST_TARS = 32
_SHORTER = "the tar file ends in the middle of the member: put the complete tar file there"
_NO_SIZE = "the server does not give the size of the tar file: put it on another server, or on this machine"


def load_tar_index(tar: Path | Address, state: FileState, settings: MediaSettings) -> TarIndex:
    """Return what a tar file holds. Its headers are read once for a state; the last 32 tar files are remembered, or
    fewer where they have many members. state: the present one. Raises MediaUnavailable, and OSError for a file of this
    machine.
    """
    entry = _remembered.make_entry(tar, state)
    with entry.lock:
        if entry.index is None:
            entry.index = _read_index(tar, state.size_bytes, settings)
        return entry.index


def find_member(tar: Path | Address, state: FileState, name: str, settings: MediaSettings) -> Member:
    """Return the position of a member in a tar file. state: the present one; where a server gives no etag, a remembered
    position is compared with the header there. Raises MediaUnavailable, also where no member of this name can be read,
    and OSError for a file of this machine.
    """
    entry = _remembered.make_entry(tar, state)
    is_remembered = entry.index is not None
    index = load_tar_index(tar, state, settings)
    if is_remembered and isinstance(tar, Address) and state.etag is None:
        # It may have been rewritten with the same size.
        member = index.members.get(name)
        if member is None or not _has_header(tar, member, name, settings):
            with entry.lock:
                index = entry.index = _read_index(tar, state.size_bytes, settings)
    return index.require_member(name)


def read_range(
    tar: Path | Address,
    member: Member,
    settings: MediaSettings,
    write: Callable[[bytes], object],
    etag: str | None = None,
) -> None:
    """Read the bytes at the place of a member of a tar file, or of a part of it, and pass them to `write` in order, in
    blocks. etag: that of the object that is meant; None for the present one. Raises MediaUnavailable for another etag
    and where bytes are missing, and OSError for a file of this machine.
    """
    if isinstance(tar, Address):
        ObjectStore(settings).fetch(tar, write, FileState(None, etag=etag), member)
        return
    left = member.size_bytes
    with tar.open("rb") as file:
        file.seek(member.offset)
        while left > 0 and (block := file.read(min(left, BLOCK_BYTES))):
            write(block)
            left -= len(block)
    if left:
        raise MediaUnavailable("unusable", _SHORTER)


@dataclass(slots=True)
class _Entry:
    lock: Lock = field(default_factory=Lock)
    index: TarIndex | None = None


class _RememberedTars:
    """The tar files of which the headers were read last, within limits of their number and of their members."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[tuple[Path | Address, FileState], _Entry] = {}

    def make_entry(self, tar: Path | Address, state: FileState) -> _Entry:
        """Return the entry of a tar file, which may be a new one, and forget those that were not used for longest."""
        key = (tar, state)
        with self._lock:
            self._entries[key] = entry = self._entries.pop(key, None) or _Entry()
            while len(self._entries) > 1 and self._is_full():
                del self._entries[next(iter(self._entries))]
            return entry

    def _is_full(self) -> bool:
        indexes = [entry.index for entry in self._entries.values() if entry.index is not None]
        n_members = sum(len(index.members) + len(index.refused) for index in indexes)
        return len(self._entries) > _MOST_TARS or n_members > MAX_MEMBERS


_remembered = _RememberedTars()


def _read_index(tar: Path | Address, size_bytes: int | None, settings: MediaSettings) -> TarIndex:
    if size_bytes is None:
        raise MediaUnavailable("trouble", _NO_SIZE)
    if isinstance(tar, Path):
        with tar.open("rb") as file:
            return read_tar_index(file, size_bytes)
    return read_tar_index(_open_object(tar, size_bytes, settings), size_bytes)


def _open_object(address: Address, size_bytes: int, settings: MediaSettings) -> IO[bytes]:
    """Open an object as a file that is read at any place; it keeps the block that it read last."""
    from fsspec.spec import AbstractBufferedFile

    class RemoteFile(AbstractBufferedFile):
        def _fetch_range(self, start: int, end: int) -> bytes:
            return _fetch_bytes(address, Member(start, end - start), settings)

    file = RemoteFile(None, str(address), block_size=_HEADER_BLOCK, cache_type="readahead", size=size_bytes)
    return cast(IO[bytes], file)


def _has_header(tar: Address, member: Member, name: str, settings: MediaSettings) -> bool:
    """Return whether the header before a member's bytes still has its name and size; False for a longer name, which is
    in other headers.
    """
    place = Member(member.offset - tarfile.BLOCKSIZE, tarfile.BLOCKSIZE)
    try:
        header = tarfile.TarInfo.frombuf(_fetch_bytes(tar, place, settings), tarfile.ENCODING, "surrogateescape")
    except tarfile.HeaderError:
        return False
    return (header.name, header.size) == (name, member.size_bytes)


def _fetch_bytes(tar: Address, member: Member, settings: MediaSettings) -> bytes:
    blocks: list[bytes] = []
    read_range(tar, member, settings, blocks.append)
    return b"".join(blocks)
