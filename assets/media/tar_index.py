"""The members of a tar file that is not compressed, from one pass over its headers."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, NamedTuple, cast

from assets.media.errors import MediaUnavailable

MAX_MEMBERS = 1_000_000
# A member is held in memory while it is read.
MAX_MEMBER_BYTES = 2 << 30
# Bytes that all headers of a member may have. Python reads a long name as a whole; its size is what the file states.
_MAX_HEADER_BYTES = 1 << 16
# A name of digits fills a field of 100 bytes. In some versions of Python the time for a run of digits grows with its
# square.
_MAX_DIGITS = 128
_DIGITS = re.compile(rb"[0-9]+")
_TWICE = "the tar file has several members of this name: pack it again with a name for each file"
_SPARSE = "the member is a sparse file: pack it without holes"
_NO_FILE = "the member is a link or a device: pack the file itself"
_CUT_OFF = "the tar file ends in the middle of the member: put the complete tar file there"
_TOO_LARGE = f"the member is larger than {MAX_MEMBER_BYTES / 2**30:g} GiB: give it as a file of its own"

# What Python raises for a damaged tar file.
TAR_ERRORS = (tarfile.TarError, EOFError, IndexError, ValueError, OverflowError, RecursionError)


class Member(NamedTuple):
    """The position of a file's bytes in a tar file: the first one, counted from 0, and their number."""

    offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TarIndex:
    """The regular files of a tar file by name, in its order; of other members, except folders, the reason why they
    cannot be read; and what is wrong with the tar file from some place on, None for a whole one.
    """

    members: Mapping[str, Member] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    damage: str | None = None

    def require_member(self, name: str) -> Member:
        """Return the member of this name. Raises MediaUnavailable with the reason where there is none to be read.

        >>> TarIndex({"0.mp4": Member(512, 9)}).require_member("0.mp4").offset
        512
        """
        if name in self.members:
            return self.members[name]
        if name in self.refused:
            raise MediaUnavailable("unusable", self.refused[name])
        if self.damage is not None:
            raise MediaUnavailable(
                "missing",
                f"there is no such member before the tar file's damage ({self.damage}): replace the tar file",
            )
        raise MediaUnavailable("missing", "the tar file has no member of this name: correct the name, or pack the file")


def read_tar_index(file: IO[bytes], size_bytes: int) -> TarIndex:
    """Read the headers of a tar file of `size_bytes` bytes, without the contents of its members, and return what it
    holds. Damage is no error: the members before it are returned. Raises the errors of `file`.
    """
    members: dict[str, Member] = {}
    refused: dict[str, str] = {}
    damage: str | None = None
    names: set[str] = set()
    n = 0
    bounded = _BoundedFile(file)
    try:
        with tarfile.open(fileobj=cast(IO[bytes], bounded), mode="r:") as tar:
            while (member := tar.next()) is not None:
                bounded.allow_next_header()
                # Python keeps every member, which is of no use here.
                tar.members = []  # type: ignore[attr-defined]  # the stub does not know it
                n += 1
                if n > MAX_MEMBERS:
                    raise tarfile.ReadError(f"it has more than {MAX_MEMBERS:,} members")
                check_size(member)
                if tar.offset <= member.offset_data - tarfile.BLOCKSIZE:
                    raise tarfile.ReadError(_format_size_error(member))
                if member.isdir():
                    continue
                reason = _TWICE if member.name in names else _explain_refusal(member, size_bytes)
                names.add(member.name)
                if reason is None:
                    members[member.name] = Member(member.offset_data, member.size)
                else:
                    members.pop(member.name, None)
                    refused[member.name] = reason
                if tar.offset > size_bytes:
                    # Some systems refuse to go to a place so far away.
                    raise tarfile.ReadError("unexpected end of data")
            damage = _find_broken_header(bounded, tar.offset)
    except TAR_ERRORS as error:
        damage = format_damage(error)
    return TarIndex(members, refused, damage)


def format_damage(error: Exception) -> str:
    """Return what is wrong with a tar file, from an error raised while it was read.

    >>> format_damage(tarfile.ReadError("empty header")), format_damage(IndexError("index out of range"))
    ('empty header', 'unexpected end of data')
    """
    # Python takes a byte of a header that ends before it.
    return "unexpected end of data" if isinstance(error, IndexError) else str(error) or type(error).__name__


def check_size(member: tarfile.TarInfo) -> None:
    """Raise tarfile.ReadError where the header of a member states a size below 0."""
    if member.size < 0:
        raise tarfile.ReadError(_format_size_error(member))


def _format_size_error(member: tarfile.TarInfo) -> str:
    return f"the header at byte {member.offset:,} states a size below 0"


def _explain_refusal(member: tarfile.TarInfo, size_bytes: int) -> str | None:
    if not member.isreg():
        return _NO_FILE
    if member.issparse():
        return _SPARSE
    if member.offset_data + member.size > size_bytes:
        return _CUT_OFF
    return _TOO_LARGE if member.size > MAX_MEMBER_BYTES else None


def _find_broken_header(file: _BoundedFile, place: int) -> str | None:
    """Explain why the headers ended, unless at an end mark or at the end of the file: Python only stops there."""
    file.seek(place)
    block = file.read(tarfile.BLOCKSIZE)
    return f"no header at byte {place:,}" if any(block) else None


class _BoundedFile:
    """A file of which no more than the headers of a member are read, whatever they state."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell
        self.allow_next_header()

    def allow_next_header(self) -> None:
        """Allow as many bytes to be read as the headers of a member may have."""
        self._left = _MAX_HEADER_BYTES

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, at most `size`. Raises ReadError for more than the headers of a member may have."""
        if not 0 <= size <= self._left:
            raise tarfile.ReadError(f"a header of more than {_MAX_HEADER_BYTES >> 10} KiB")
        self._left -= size
        block = self._file.read(size)
        if any(len(digits) > _MAX_DIGITS for digits in _DIGITS.findall(block)):
            raise tarfile.ReadError(f"a header with a number of more than {_MAX_DIGITS} digits")
        return block
