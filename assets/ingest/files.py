"""Opens other people's files: only regular ones, without waiting, and with an error if they change meanwhile."""

from __future__ import annotations

import errno
import os
import stat
from codecs import BOM_UTF16
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

from assets.ingest.encodings import UTF_8, Utf8Stream, guess_encoding
from assets.ingest.paths import PathRejected, resolve_inside
from assets.ingest.rejects import Code, ManifestError
from metrics_core.git_lfs import GIT_LFS_REMEDY, is_git_lfs_pointer

_PART = 2**20
# Tables that spreadsheets write, in the encoding of their system; JSON is UTF-8 by its definition.
_SPREADSHEETS, _BINARY_TABLES = (".csv", ".tsv"), (".parquet", ".arrow")
_REMEDIES: dict[Code, str] = {
    "path_escape": "it is a link that leads out of the folder: put the file itself there",
    "file_missing": "it is a link that leads nowhere: put the file itself there, or remove the link",
    "not_a_file": "it is a folder, a pipe or a device: put a regular file there, or remove it",
}


class FileVersion(NamedTuple):
    """The device, inode, size and writing time (in nanoseconds) of a file at one moment, by which a later write or
    replacement is noticed.
    """

    device: int
    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def build_from_stat(cls, status: os.stat_result) -> FileVersion:
        """Build the version of a file from what `os.stat` returns."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class OpenFile:
    """An open file that ends at the size that it had when it was opened, so that bytes appended later are not read.
    `file` is the file itself, for readers that go back and forth; `version` is its version when it was opened, and
    `encoding` that of the text read so far, which `read` turns into UTF-8.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.version = FileVersion.build_from_stat(os.fstat(file.fileno()))
        self._left = self.version.size
        self.encoding = UTF_8
        self._to_utf_8: Utf8Stream | None = None
        self._may_be_cp1252 = False

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, at most `size`; b"" at the end."""
        if self._to_utf_8 is None:
            part = self._read_bytes(size)
            if not self._may_be_cp1252 or part.isascii():
                return part
            # What was read before is the same in both encodings.
            place, self._may_be_cp1252 = self.file.tell() - len(part), False
            self._set_encoding(guess_encoding(chain([b"", part], iter(lambda: self._read_bytes(_PART), b""))), place)
            return self.read(size)
        # A byte of another encoding becomes at most three.
        while part := self._read_bytes(max(1, size // 3)):
            if converted := self._to_utf_8.convert(part):
                return converted
        return self._to_utf_8.convert(b"")

    def rewind(self) -> None:
        """Go back to the beginning of the file."""
        self._set_encoding(self.encoding, 0)

    def read_as_text(self, *, may_be_cp1252: bool) -> None:
        """Let `read` give UTF-8 from the beginning on. Where the text may be cp1252, its first character beyond ASCII
        and what follows show whether it is.
        """
        self._may_be_cp1252 = may_be_cp1252
        self._set_encoding(guess_encoding([self._read_bytes(len(BOM_UTF16))], may_be_cp1252=False), 0)

    def _set_encoding(self, encoding: str, place: int) -> None:
        self.file.seek(place)
        self._left = self.version.size - place
        self.encoding, self._to_utf_8 = encoding, None if encoding == UTF_8 else Utf8Stream(encoding)

    def _read_bytes(self, size: int) -> bytes:
        data = self.file.read(min(size, self._left))
        self._left -= len(data)
        return data


@contextmanager
def open_file(path: Path) -> Iterator[OpenFile]:
    """Open a regular file for reading during a block. Raises ManifestError, which names the file, where it cannot be
    opened or read or is a pointer of Git LFS, and at the end of the block where it was changed or replaced meanwhile.
    """
    with convert_os_errors(path), open_regular(path) as file:
        opened = OpenFile(file)
        if is_git_lfs_pointer(file.peek(), opened.version.size):
            raise ManifestError(f"{path.name}: it is {GIT_LFS_REMEDY}")
        yield opened
        if FileVersion.build_from_stat(path.stat()) != opened.version:
            raise ManifestError(
                f"{path.name}: it changed while it was read: run the same command again when nothing writes to it any "
                "more"
            )


@contextmanager
def open_text_file(path: Path) -> Iterator[OpenFile]:
    """Open a regular file of text as `open_file` does; `read` returns UTF-8. A CSV or TSV file may be in UTF-16 or
    cp1252, any other one in UTF-16 with a byte order mark.
    """
    with open_file(path) as file:
        file.read_as_text(may_be_cp1252=path.suffix.lower() in _SPREADSHEETS)
        yield file


def open_table(path: Path) -> AbstractContextManager[OpenFile]:
    """Open the file of a table for reading during a block, by `open_file` or `open_text_file` as its suffix says."""
    return open_file(path) if path.suffix.lower() in _BINARY_TABLES else open_text_file(path)


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading. Raises OSError, without waiting, for a folder, a pipe or a device, and where the
    file cannot be opened.
    """
    return open(path, "rb", opener=_regular_only)


def _regular_only(path: str, flags: int) -> int:
    # Opening may set a device to work, and a file may become a pipe meanwhile, which would hold up a plain open.
    mode = os.stat(path).st_mode
    if stat.S_ISREG(mode):
        descriptor = os.open(path, flags | os.O_NONBLOCK)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
    kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
    raise OSError(errno.EINVAL, f"it is {kind}: name a regular file", path)


def open_file_inside(folder: Path, relative: str) -> BinaryIO:
    """Open a regular file inside a folder, by its relative path; a link may lead to it if its target also lies inside.
    Raises PathRejected for anything else under this path, and OSError where the file cannot be read.
    """
    return open_regular(resolve_inside(folder, relative))


@contextmanager
def convert_os_errors(path: Path) -> Iterator[None]:
    """Turn any OSError of the block into a ManifestError whose message names the file at `path` and the cause."""
    try:
        yield
    except OSError as error:
        raise ManifestError(f"{path.name}: cannot be read: {error.strerror or error}") from error


def find_manifest_file(folder: Path, name: str) -> Path | None:
    """Return the path of the file of this name in a manifest folder, or None where there is none. Raises ManifestError
    if the name belongs to something other than a regular file inside the folder. A link may lead to such a file.
    """
    path = folder / name
    with convert_os_errors(path):
        try:
            path.lstat()
        except FileNotFoundError:
            return None
    try:
        resolve_inside(folder, name)
    except PathRejected as refused:
        raise ManifestError(f"{path}: {_REMEDIES[refused.code]}") from None
    return path


def check_regular_file(path: Path) -> None:
    """Raise ManifestError unless the path, in any folder, names a readable regular file whose name is valid UTF-8, and
    no pointer of Git LFS.
    """
    with open_file(path):
        pass
    try:
        path.name.encode()
    except UnicodeEncodeError:
        raise ManifestError(f"{path.name!a}: the name is not valid UTF-8: rename the file") from None
