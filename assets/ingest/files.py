"""The files of a manifest: regular files in its folder, which must not change while they are read."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from assets.ingest.hygiene import shown
from assets.ingest.rejects import Code, ManifestError

# Paths in a manifest: they are relative to its folder and never lead out of it.

# Two letters at least: one letter with a colon is a drive of Windows.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_DRIVE = re.compile(r"[A-Za-z]:")

_PATH_REMEDIES: dict[Code, str] = {
    "path_url": "it begins like a URL: write the whole URL of a store, or a path in the manifest's folder",
    "path_absolute": "give a path relative to the manifest's folder",
    "path_escape": "it leads out of the manifest's folder: keep the file, and what links point to, inside",
    "file_missing": "there is no such file in the manifest's folder: add it, and write / between folders",
    "not_a_file": "it is a folder or a device: name a regular file",
}


class PathRejected(ValueError):
    """The manifest may not use this path. `code` is a key of `rejects.CODES`, and `reason` is one sentence."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def resolve_inside(folder: Path, relative: str) -> Path:
    """The absolute path, without links, of a regular file inside the folder.

    Raises PathRejected with the code path_url, path_absolute, path_escape, file_missing or not_a_file.
    """
    root = folder.resolve()
    code = fault_as_written(relative)
    if code is None:
        try:
            resolved = (root / relative).resolve()
            if not resolved.is_relative_to(root):
                code = "path_escape"
            elif not resolved.exists():
                code = "file_missing"
            elif not resolved.is_file():
                code = "not_a_file"
            else:
                return resolved
        except (OSError, RuntimeError, ValueError):
            # The system cannot look up the name: it is too long, a loop of links, forbidden or not encodable.
            code = "file_missing"
    raise PathRejected(code, f"field 'path' is {shown(relative)}: {_PATH_REMEDIES[code]}")


def fault_as_written(relative: str) -> Code | None:
    """The fault that shows in the text of a path, or None. Backslashes count as separators."""
    if _SCHEME.match(relative):
        return "path_url"
    if relative.startswith(("/", "\\", "~")) or _DRIVE.match(relative):
        return "path_absolute"
    depth = 0
    for part in relative.replace("\\", "/").split("/"):
        depth += {"..": -1, "": 0, ".": 0}.get(part, 1)
        if depth < 0:
            return "path_escape"
    return None


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
