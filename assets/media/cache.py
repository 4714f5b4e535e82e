"""Copies of remote files in a bounded folder, named by their content; those unused for longest are removed first.

Any number of processes of one machine may share the folder. A file has its final name only when it is complete. A
process that reads or writes a file holds a shared lock on it, which ends with the process; only a file without a lock
is removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from assets.media.errors import MediaUnavailable

_COPY = re.compile(r"[0-9a-f]{64}(\.[a-z0-9]{1,8})?")
_PART = re.compile(r"[0-9a-f]{16}\.part")
# Where the size of a file is unknown, room is reserved in steps: so many bytes, or this fraction of the folder.
STEP, STEPS_PER_FOLDER = 64 << 20, 8
PAUSE_S, LONGEST_WAIT_S = 0.1, 3600.0

# Hands the bytes of a file, in order, to the function that it is given.
ByteSource = Callable[[Callable[[bytes], object]], None]


@dataclass(frozen=True, slots=True)
class CachedCopy:
    """A complete copy of a remote file in the cache: its path, the SHA-256 of its bytes (32 bytes) and its size."""

    path: Path
    sha256: bytes
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MediaCache:
    """A folder with copies of remote files, which together take at most `max_bytes`. The copies are named by their
    content, and those unused for longest are removed first. Processes of one machine may share the folder.
    """

    folder: Path
    max_bytes: int

    @contextmanager
    def hold_copy(self, sha256: bytes, suffix: str) -> Iterator[Path | None]:
        """Yield the path of the copy with this content, or None if there is none. During the block nobody removes the
        copy, which counts as used now. sha256: of the content, 32 bytes. suffix: of the file's name, such as `.mp4`.
        """
        path = self._path(sha256, suffix)
        while True:
            try:
                file = path.open("rb")
            except FileNotFoundError:
                yield None
                return
            with file:
                fcntl.flock(file, fcntl.LOCK_SH)
                if not _is_same_file(file, path):
                    continue  # removed between opening and locking
                with suppress(PermissionError):  # another user's file
                    os.utime(path)
                yield path
                return

    @contextmanager
    def add_copy(self, read: ByteSource, suffix: str, size_bytes: int | None) -> Iterator[CachedCopy]:
        """Write a new copy to the folder, and yield it during the block, in which nobody removes it. `read` calls a
        function with the bytes in order, and `size_bytes` is their number where known. Older copies are removed to make
        room, for which it may wait an hour.

        suffix: of the file's name, such as `.mp4`. Raises MediaUnavailable where the folder has no room or cannot be
        written, or where the size is another one.
        """
        with _convert_os_errors(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            part, file = self._new_part()
        try:
            with file, ExitStack() as stack:
                with _convert_os_errors(self.folder):
                    content, n_written = self._write(file, read, size_bytes)
                    path = self._publish(part, content, suffix, stack)
                yield CachedCopy(path, content, n_written)
        finally:
            part.unlink(missing_ok=True)

    def _write(self, file: BinaryIO, read: ByteSource, size_bytes: int | None) -> tuple[bytes, int]:
        digest, n_written, reserved = hashlib.sha256(), 0, 0
        step = min(STEP, self.max_bytes // STEPS_PER_FOLDER)

        def write(block: bytes) -> None:
            nonlocal n_written, reserved
            n_written += len(block)
            if size_bytes is not None and n_written > size_bytes:
                raise MediaUnavailable(
                    "trouble", f"the server sent more than the {size_bytes} bytes that it announced: try again later"
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
                f"the server sent only {n_written} of the {size_bytes} bytes that it announced: try again later",
            )
        file.flush()
        file.truncate(n_written)
        os.fsync(file.fileno())
        return digest.digest(), n_written

    def _publish(self, part: Path, content: bytes, suffix: str, stack: ExitStack) -> Path:
        """Give a complete part its final name, and hold the copy of this name until the stack closes.

        A copy that is there already stays: its readers hold a lock on that file, not on this one.
        """
        path = self._path(content, suffix)
        with self._lock_folder():
            if not path.exists():
                part.replace(path)
            fcntl.flock(stack.enter_context(path.open("rb")), fcntl.LOCK_SH)
            os.utime(path)
        return path

    def _path(self, content: bytes, suffix: str) -> Path:
        name = content.hex() + suffix.lower()
        return self.folder / (name if _COPY.fullmatch(name) else content.hex())

    def _new_part(self) -> tuple[Path, BinaryIO]:
        while True:
            path = self.folder / f"{secrets.token_hex(8)}.part"
            file = path.open("x+b")
            fcntl.flock(file, fcntl.LOCK_SH)
            if _is_same_file(file, path):
                return path, file
            file.close()  # another process removed it before it was locked

    def _reserve(self, file: BinaryIO, reserved: int, wanted: int) -> None:
        """Lengthen a part to `wanted` bytes as soon as there is room, so that other processes count them too."""
        if wanted > self.max_bytes:
            raise MediaUnavailable("trouble", f"the file does not fit the media cache: raise {self._remedy()}")
        ends = time.monotonic() + LONGEST_WAIT_S
        while not self._grow(file, wanted - reserved, wanted):
            # Two parts that wait for more, each with room that the other needs, would wait for ever.
            if reserved or time.monotonic() > ends:
                raise MediaUnavailable("trouble", f"the media cache is full of files in use: raise {self._remedy()}")
            time.sleep(PAUSE_S)

    def _grow(self, file: BinaryIO, more: int, wanted: int) -> bool:
        with self._lock_folder():
            has_room = self._make_room(more)
            if has_room:
                file.truncate(wanted)
            return has_room

    @contextmanager
    def _lock_folder(self) -> Iterator[None]:
        """Let one process at a time count, name and remove files."""
        with (self.folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _make_room(self, needed: int) -> bool:
        """Remove parts of dead processes, then copies, the one unused for longest first; return whether there is room
        now.
        """
        files = list(self._files())
        n_bytes = sum(status.st_size for _, status in files)
        files.sort(key=lambda file: (not _PART.fullmatch(file[0].name), file[1].st_mtime_ns))
        for path, status in files:
            if n_bytes + needed <= self.max_bytes and not _PART.fullmatch(path.name):
                break
            if _remove_unused_file(path):
                n_bytes -= status.st_size
        return n_bytes + needed <= self.max_bytes

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if _COPY.fullmatch(entry.name) or _PART.fullmatch(entry.name):
                    with suppress(FileNotFoundError):
                        yield Path(entry.path), entry.stat(follow_symlinks=False)

    def _remedy(self) -> str:
        return f"REELSIEVE_MEDIA_CACHE_GB (now {self.max_bytes / 1e9:g})"


@contextmanager
def _convert_os_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise MediaUnavailable(
            "trouble",
            f"the media cache in {folder} cannot be used ({error.strerror or error}): set REELSIEVE_MEDIA_CACHE to a "
            "folder of this machine with free space",
        ) from None


def _is_same_file(file: BinaryIO, path: Path) -> bool:
    """Return whether the path still leads to this open file; False where the path is gone or leads to another file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _remove_unused_file(path: Path) -> bool:
    """Remove a file unless a process holds a lock on it; return whether it was removed. A file that is missing or
    cannot be opened gives False.
    """
    with suppress(OSError), path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
        return True
    return False
