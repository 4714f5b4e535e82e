"""Members of tar files and Lance tables that lie anywhere: the bytes of a member in memory, as a file.

Nothing is unpacked or copied to a disk. Decoders, browsers and exports get the path of a file that only exists in
memory, and open it like any other.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import BinaryIO, cast

from assets.media.address import Address, MemberAddress
from assets.media.cache import ByteSource
from assets.media.errors import MediaUnavailable
from assets.media.file_state import FileState
from assets.media.lance_tables import fetch_table_state, read_row
from assets.media.settings import MediaSettings
from assets.media.store import BLOCK_BYTES, ObjectStore
from assets.media.tar_index import MAX_MEMBERS, Member, TarIndex, read_tar_index

# Bytes that are asked for where a header of a remote tar file is read: headers of small files lie close together.
_HEADER_BLOCK = 1 << 16
_MOST_TARS = 32
_SHORTER = "the tar file ends in the middle of the member: put the complete tar file there"
_NO_SIZE = "the server does not give the size of the tar file: put it on another server, or on this machine"

# Where a tar file or a Lance table is: on this machine, or in a store.
ContainerPlace = Path | Address


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """A file in memory during a block: the path by which every process of this machine's user opens it, the SHA-256 of
    its content (32 bytes), and its size in bytes. `member_offset` is the place of its first byte in a tar file, None
    for a row of a Lance table.
    """

    path: Path
    sha256: bytes
    size_bytes: int
    member_offset: int | None


def fetch_container_state(address: MemberAddress, place: ContainerPlace, settings: MediaSettings) -> FileState:
    """Return the present state of the tar file or Lance table of an address. place: where that is. Raises
    MediaUnavailable, and OSError for a file of this machine.
    """
    return (fetch_table_state if address.scheme == "lance" else fetch_tar_state)(place, settings)


@contextmanager
def hold_member(
    address: MemberAddress, place: ContainerPlace, settings: MediaSettings, state: FileState | None = None
) -> Iterator[MemoryFile]:
    """Read a member of a tar file or Lance table into memory, and yield it as a file, which is gone after the block.
    place, state: where the container of the address is, and its present state, None if it is not known. Raises
    MediaUnavailable, also where there is no such member to be read, and OSError for a file of this machine.
    """
    if address.scheme == "lance":

        def read(write: Callable[[bytes], object]) -> None:
            for block in read_row(place, address.name, settings):
                write(block)

        with _hold_bytes(read, None) as copy:
            yield copy
        return
    now = fetch_tar_state(place, settings) if state is None else state
    with hold_range(place, _find_member(place, now, address.name, settings), settings, now.etag) as copy:
        yield copy


def fetch_tar_state(place: ContainerPlace, settings: MediaSettings) -> FileState:
    """Return the present size, times and inode, or size and etag, of a tar file. Raises MediaUnavailable for an object
    that cannot be asked for, or has no known size, and OSError for a file of this machine.
    """
    if isinstance(place, Path):
        return FileState.build_from_stat(place.stat())
    now = ObjectStore(settings).fetch_state(place)
    if now.size_bytes is None:
        raise MediaUnavailable("trouble", _NO_SIZE)
    return FileState(now.size_bytes, None, None, None, now.etag)


def load_tar_index(place: ContainerPlace, state: FileState, settings: MediaSettings) -> TarIndex:
    """Return what a tar file holds. Its headers are read once for a state; the last 32 tar files are remembered, or
    fewer where they have many members. state: the present one. Raises MediaUnavailable, and OSError for a file of this
    machine.
    """
    entry = _remembered.make_entry(place, state)
    with entry.lock:
        if entry.index is None:
            entry.index = _read_index(place, state.size_bytes, settings)
        return entry.index


def _find_member(place: ContainerPlace, state: FileState, name: str, settings: MediaSettings) -> Member:
    """Return the place of a member in a tar file. state: the present one; where a server gives no etag, a remembered
    place is compared with the header there. Raises MediaUnavailable, also where there is no member of this name to be
    read, and OSError for a file of this machine.
    """
    entry = _remembered.make_entry(place, state)
    is_remembered = entry.index is not None
    index = load_tar_index(place, state, settings)
    if is_remembered and isinstance(place, Address) and state.etag is None:
        # It may have been rewritten with the same size.
        member = index.members.get(name)
        if member is None or not _has_header(place, member, name, settings):
            with entry.lock:
                index = entry.index = _read_index(place, state.size_bytes, settings)
    return index.require_member(name)


def is_same_container(place: ContainerPlace, now: FileState, stored: FileState) -> bool:
    """Return whether a tar file or Lance table has the times and inode, the etag or the version that were stored for
    one of its videos; False where a server gives no etag. The size of a container is not stored.
    """
    now = replace(now, size_bytes=stored.size_bytes)
    return now == stored if isinstance(place, Path) else now.etag is not None and now.etag == stored.etag


def read_range(
    place: ContainerPlace,
    member: Member,
    settings: MediaSettings,
    write: Callable[[bytes], object],
    etag: str | None = None,
) -> None:
    """Read the bytes at the place of a member of a tar file, or of a part of it, and pass them to `write` in order, in
    blocks. etag: that of the object that is meant; None for the present one. Raises MediaUnavailable where there are
    fewer or others, and OSError for a file of this machine.
    """
    if isinstance(place, Path):
        _read_file_range(place, member, write)
    else:
        ObjectStore(settings).fetch_range(place, member.offset, member.size_bytes, write, etag)


@contextmanager
def hold_range(
    place: ContainerPlace, member: Member, settings: MediaSettings, etag: str | None = None
) -> Iterator[MemoryFile]:
    """Read the bytes at the place of a member of a tar file into memory, and yield them as a file, which is gone after
    the block. etag: that of the object that is meant; None for the present one. Raises MediaUnavailable where other
    bytes come than the member has, and OSError for a file of this machine.
    """
    read = partial(read_range, place, member, settings, etag=etag)
    with _hold_bytes(read, member.offset) as copy:
        yield copy


@contextmanager
def _hold_bytes(read: ByteSource, member_offset: int | None) -> Iterator[MemoryFile]:
    """Yield the bytes that `read` hands over, as a file in memory that is gone after the block."""
    digest = hashlib.sha256()
    with _open_memory_file() as (path, file):

        def write(block: bytes) -> None:
            digest.update(block)
            file.write(block)

        read(write)
        file.flush()
        yield MemoryFile(path, digest.digest(), file.tell(), member_offset)


@dataclass(slots=True)
class _Entry:
    lock: Lock = field(default_factory=Lock)
    index: TarIndex | None = None


class _RememberedTars:
    """The tar files of which the headers were read last, within limits of their number and of their members."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[tuple[ContainerPlace, FileState], _Entry] = {}

    def make_entry(self, place: ContainerPlace, state: FileState) -> _Entry:
        """Return the entry of a tar file, which may be a new one, and forget those that were not used for longest."""
        key = (place, state)
        with self._lock:
            self._entries[key] = entry = self._entries.pop(key, None) or _Entry()
            while len(self._entries) > 1 and self._is_full():
                del self._entries[next(iter(self._entries))]
            return entry

    def _is_full(self) -> bool:
        n_members = sum(
            len(entry.index.members) + len(entry.index.refused)
            for entry in self._entries.values()
            if entry.index is not None
        )
        return len(self._entries) > _MOST_TARS or n_members > MAX_MEMBERS


_remembered = _RememberedTars()


def _read_index(place: ContainerPlace, size_bytes: int, settings: MediaSettings) -> TarIndex:
    if isinstance(place, Path):
        with place.open("rb") as file:
            return read_tar_index(file, size_bytes)
    return read_tar_index(_RemoteFile(ObjectStore(settings), place, size_bytes), size_bytes)


def _has_header(address: Address, member: Member, name: str, settings: MediaSettings) -> bool:
    """Return whether the header before a member's bytes still has its name and size; False for a longer name, which is
    in other headers.
    """
    block: list[bytes] = []
    start = member.offset - tarfile.BLOCKSIZE
    ObjectStore(settings).fetch_range(address, start, tarfile.BLOCKSIZE, block.append)
    try:
        header = tarfile.TarInfo.frombuf(b"".join(block), tarfile.ENCODING, "surrogateescape")
    except tarfile.HeaderError:
        return False
    return (header.name, header.size) == (name, member.size_bytes)


def _read_file_range(path: Path, member: Member, write: Callable[[bytes], object]) -> None:
    left = member.size_bytes
    with path.open("rb") as file:
        file.seek(member.offset)
        while left > 0 and (block := file.read(min(left, BLOCK_BYTES))):
            write(block)
            left -= len(block)
    if left:
        raise MediaUnavailable("unusable", _SHORTER)


@contextmanager
def _open_memory_file() -> Iterator[tuple[Path, BinaryIO]]:
    """Yield a new file without a name in any folder, and a path that leads to it."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("reelsieve"), "wb") as file:
            # Of this process, since the decoding worker and others open it too.
            yield Path(f"/proc/{os.getpid()}/fd/{file.fileno()}"), file
        return
    # Systems other than Linux have no such files.
    with tempfile.NamedTemporaryFile() as named:
        yield Path(named.name), cast(BinaryIO, named.file)


class _RemoteFile:
    """The object of a store as a file that is read at any place. It keeps the last block."""

    def __init__(self, store: ObjectStore, address: Address, size_bytes: int) -> None:
        self._store, self._address, self._size = store, address, size_bytes
        self._place = self._begin = 0
        self._block = b""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, at most `size`; b"" at the end."""
        size = min(size, self._size - self._place)
        if size <= 0:
            return b""
        at = self._place - self._begin
        if at < 0 or at + size > len(self._block):
            parts: list[bytes] = []
            wanted = min(max(size, _HEADER_BLOCK), self._size - self._place)
            self._store.fetch_range(self._address, self._place, wanted, parts.append)
            self._begin, self._block, at = self._place, b"".join(parts), 0
        self._place += size
        return self._block[at : at + size]

    def seek(self, place: int, /) -> int:
        """Go to a place, counted in bytes from the beginning, and return it."""
        self._place = place
        return place

    def tell(self) -> int:
        """Return the present place."""
        return self._place
