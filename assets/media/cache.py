"""Copies of remote files in a bounded folder, named by the digests of the videos; those unused for longest are removed
first.

Any number of processes of one machine may share the folder. A file has its final name only when it is complete. A
process that reads or writes a file holds a shared lock on it, which ends with the process; only a file without a lock
is removed. The file caches of fsspec have no bound, write into the final name, and look for no etag of a web server.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from assets.media.errors import MediaUnavailable
from assets.media.file_state import HeldFile

_COPY = re.compile(r"[0-9a-f]{64}(\.[a-z0-9]{1,8})?")
_PART = re.compile(r"[0-9a-f]{16}\.part")
# Where the size of a file is unknown, room is reserved in steps: so many bytes, or this fraction of the folder.
_STEP, _STEPS_PER_FOLDER = 64 << 20, 8
_PAUSE_S, _LONGEST_WAIT_S = 0.1, 3600.0

# Hands the bytes of a file, in order, to the function that it is given.
ByteSource = Callable[[Callable[[bytes], object]], None]


@dataclass(frozen=True, slots=True)
class MediaCache:
    """A folder with copies of remote files, which together take at most `max_bytes`. The copies are named by their
    digests, and those unused for longest are removed first. Processes of one machine may share the folder.
    """

    folder: Path
    max_bytes: int

    @contextmanager
    def hold_copy(self, digest: bytes, suffix: str) -> Iterator[HeldFile | None]:
        """Yield the copy of this name, or None if there is none. During the block nobody removes the copy, which counts
        as used now. digest: SHA-256 of the content, or that of `FileState.identify`. suffix: such as `.mp4`.
        """
        path, file = self._path(digest, suffix), None
        with suppress(OSError), self._lock_folder():
            file = _open_in_use(path)
        if file is None:
            yield None
            return
        with file:
            yield HeldFile(path, digest, os.fstat(file.fileno()).st_size)

    @contextmanager
    def add_copy(
        self, read: ByteSource, suffix: str, size_bytes: int | None, digest: bytes | None = None
    ) -> Iterator[HeldFile]:
        """Write a new copy to the folder, and yield it during the block, in which nobody removes it. `read` calls a
        function with the bytes in order, and `size_bytes` is their number where known. Older copies are removed to make
        room, for which it may wait an hour.

        suffix: of the file's name, such as `.mp4`. digest: names the copy in place of its content's SHA-256. Raises
        MediaUnavailable where the folder has no room or cannot be written, or where the size is another one.
        """
        part = self.folder / f"{secrets.token_hex(8)}.part"
        try:
            with self._convert_os_errors():
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                with self._lock_folder():
                    file = part.open("xb")
                    fcntl.flock(file, fcntl.LOCK_SH)
                with file:
                    content, n_bytes = self._write(file, read, size_bytes)
                    name = digest or content
                    path = self._path(name, suffix)
                    with self._lock_folder():
                        # A copy that is there already stays: its readers hold a lock on that file, not on this one.
                        if not path.exists():
                            part.replace(path)
                        copy = _open_in_use(path)
            with copy:
                yield HeldFile(path, name, n_bytes)
        finally:
            with suppress(OSError):
                part.unlink()

    def _write(self, file: BinaryIO, read: ByteSource, size_bytes: int | None) -> tuple[bytes, int]:
        digest, n_written, reserved = hashlib.sha256(), 0, 0
        step = min(_STEP, self.max_bytes // _STEPS_PER_FOLDER)

        def write(block: bytes) -> None:
            nonlocal n_written, reserved
            n_written += len(block)
            if size_bytes is not None and n_written > size_bytes:
                raise MediaUnavailable(
                    "trouble", f"the server sent more than the {size_bytes:,} bytes that it announced: try again later"
                )
            if n_written > reserved:
                wanted = max(n_written, min(reserved + step, self.max_bytes)) if size_bytes is None else size_bytes
                self._reserve(file, reserved, wanted)
                reserved = wanted
            digest.update(block)
            file.write(block)

        read(write)
        if size_bytes is not None and n_written < size_bytes:
            raise MediaUnavailable(
                "trouble",
                f"the server sent only {n_written:,} of the {size_bytes:,} bytes that it announced: try again later",
            )
        file.flush()
        file.truncate(n_written)
        os.fsync(file.fileno())
        return digest.digest(), n_written

    def _path(self, content: bytes, suffix: str) -> Path:
        name = content.hex() + suffix.lower()
        return self.folder / (name if _COPY.fullmatch(name) else content.hex())

    def _reserve(self, file: BinaryIO, reserved: int, wanted: int) -> None:
        """Lengthen a part to `wanted` bytes as soon as there is room, so that other processes count them too."""
        remedy = f"raise REELSIEVE_MEDIA_CACHE_GB (now {self.max_bytes / 1e9:g})"
        if wanted > self.max_bytes:
            raise MediaUnavailable("trouble", f"the file does not fit the media cache: {remedy}")
        ends = time.monotonic() + _LONGEST_WAIT_S
        while True:
            with self._lock_folder():
                if self._make_room(wanted - reserved):
                    file.truncate(wanted)
                    return
            # Two parts that wait for more, each with room that the other needs, would wait for ever.
            if reserved or time.monotonic() > ends:
                raise MediaUnavailable("trouble", f"the media cache is full of files in use: {remedy}")
            time.sleep(_PAUSE_S)

    @contextmanager
    def _lock_folder(self) -> Iterator[None]:
        """Let one process at a time count, open, name and remove files."""
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _make_room(self, needed: int) -> bool:
        """Remove parts of dead processes, then copies, the one unused for longest first; return whether there is room
        now.
        """
        files: list[tuple[bool, os.stat_result, Path]] = []
        for path in self.folder.iterdir():
            if (is_part := bool(_PART.fullmatch(path.name))) or _COPY.fullmatch(path.name):
                with suppress(FileNotFoundError):
                    files.append((not is_part, path.lstat(), path))
        n_bytes = sum(status.st_size for _, status, _ in files)
        for is_copy, status, path in sorted(files, key=lambda file: (file[0], file[1].st_mtime_ns)):
            if is_copy and n_bytes + needed <= self.max_bytes:
                break
            # One in use, or one of another user, stays.
            with suppress(OSError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
                n_bytes -= status.st_size
        return n_bytes + needed <= self.max_bytes

    @contextmanager
    def _convert_os_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise MediaUnavailable(
                "trouble",
                f"the media cache in {self.folder} cannot be used ({error.strerror or error}): set "
                "REELSIEVE_MEDIA_CACHE to a folder of this machine with free space",
            ) from None


def _open_in_use(path: Path) -> BinaryIO:
    """Open a copy with a lock that keeps it from being removed. The folder must be locked."""
    file = path.open("rb")
    fcntl.flock(file, fcntl.LOCK_SH)
    with suppress(PermissionError):  # another user's file
        os.utime(path)
    return file
