"""The files of a manifest: regular files in its folder, which must not change while they are read."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from assets.ingest.paths import PathRejected, resolve_inside
from assets.ingest.rejects import Code, ManifestError

_REMEDIES: dict[Code, str] = {
    "path_escape": "it is a link that leads out of the folder: put the file itself there",
    "file_missing": "it is a link that leads nowhere: put the file itself there, or remove the link",
    "not_a_file": "it is a folder, a pipe or a device: put a regular file there, or remove it",
}


class Beginning:
    """The first `size` bytes of an open file. Bytes that someone appends meanwhile are not read."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int, /) -> bytes:
        """The next bytes, at most `size`; b"" at the end."""
        data = self._file.read(min(size, self._left))
        self._left -= len(data)
        return data


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises OSError, for a pipe or a device too, and never waits for one."""
    return open(path, "rb", opener=_regular_only)


def _regular_only(path: str, flags: int) -> int:
    # Opening may set a device to work, and a file may become a pipe meanwhile, which would hold up a plain open.
    if stat.S_ISREG(os.stat(path).st_mode):
        descriptor = os.open(path, flags | os.O_NONBLOCK)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
    raise OSError(errno.EINVAL, "it is a folder, a pipe or a device: name a regular file", path)


def open_inside(folder: Path, relative: str) -> BinaryIO:
    """Open a regular file inside a folder. A link may lead to one.

    Raises PathRejected for whatever else has this name, and OSError where the file cannot be read.
    """
    return open_regular(resolve_inside(folder, relative))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn an error of the file system into a ManifestError that names the file."""
    try:
        yield
    except OSError as error:
        raise ManifestError(f"{path.name}: cannot be read: {error.strerror or error}") from error


def file_in(folder: Path, name: str) -> Path | None:
    """The path of the file of this name in a manifest folder, or None if there is none.

    Raises ManifestError if the name belongs to something other than a regular file inside the folder. A link may lead
    to such a file.
    """
    path = folder / name
    with readable(path):
        try:
            path.lstat()
        except FileNotFoundError:
            return None
    try:
        resolve_inside(folder, name)
    except PathRejected as refused:
        raise ManifestError(f"{path}: {_REMEDIES[refused.code]}") from None
    return path


def require_regular(path: Path) -> None:
    """Raise ManifestError unless the path, in any folder, names a regular file whose name is valid UTF-8."""
    with readable(path):
        open_regular(path).close()
    try:
        path.name.encode()
    except UnicodeEncodeError:
        raise ManifestError(f"{path.name!a}: the name is not valid UTF-8: rename the file") from None


@contextmanager
def opened(path: Path) -> Iterator[Beginning]:
    """Open a file for reading up to its present size. Raises ManifestError if the file changes meanwhile."""
    with unchanged(path), open_regular(path) as file:
        yield Beginning(file, os.fstat(file.fileno()).st_size)


@contextmanager
def unchanged(path: Path) -> Iterator[None]:
    """Raise ManifestError if the file was replaced or written to during the block."""
    before = _state(path)
    yield
    if _state(path) != before:
        raise ManifestError(
            f"{path.name}: it changed while it was read: run the same command again when nothing writes to it any more"
        )


def _state(path: Path) -> tuple[int, ...]:
    now = path.stat()
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns
