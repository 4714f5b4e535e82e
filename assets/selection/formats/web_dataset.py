"""Writes WebDataset: tar files with three members for every row, the video's file, the caption, and the whole row as
JSON.
"""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from assets.selection.formats.json_lines import format_json_line
from assets.selection.partial_file import open_partial_file, remove_abandoned
from assets.selection.passport import format_passport

JOURNAL, PASSPORT = ".shards.jsonl", "passport.json"
# Readers skip it: the `webdataset` package over names in underscores, `datasets` over names without a dot.
PASSPORT_MEMBER = "__reelsieve_passport__"
_EXTENSION = re.compile(r"[a-z0-9]{1,8}")

OpenMedia = Callable[[Mapping[str, Any]], AbstractContextManager[Any]]
"""Opens the file of a row's video, which has a `size` and is read to its end."""


@dataclass(frozen=True, slots=True)
class TarShard:
    """A complete tar file of an export: its name, its size in bytes, and how many rows it has, from rank first_rank to
    last_rank.
    """

    name: str
    rows: int
    first_rank: int
    last_rank: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ShardLimits:
    """Where a tar file of an export ends: with the row that reaches this number of rows, or this number of bytes."""

    rows: int
    bytes: int


DEFAULT_SHARD_LIMITS = ShardLimits(rows=10_000, bytes=1_000_000_000)


def read_complete_shards(folder: Path) -> list[TarShard]:
    """Read from the journal in a folder which tar files earlier attempts completed, in order. Reading stops at a line
    that is torn, or whose file is missing or has another size. Empty without a journal.
    """
    journal = folder / JOURNAL
    complete: list[TarShard] = []
    for line in journal.read_text().splitlines() if journal.exists() else []:
        try:
            shard = TarShard(**json.loads(line))
            if (folder / shard.name).stat().st_size != shard.bytes:
                break
        except (ValueError, TypeError, FileNotFoundError):
            break
        complete.append(shard)
    return complete


def write_tar_shards(
    folder: Path,
    passport: Mapping[str, Any],
    rows: Iterable[Mapping[str, Any]],
    open_media: OpenMedia,
    limits: ShardLimits,
) -> None:
    """Write rows to tar files after the complete ones of the folder, and at the end passport.json, which lists all tar
    files. rows: dicts by column, which must begin after the complete files. open_media: opens the video file of a row.
    limits: where a tar file ends. Raises what `rows` and `open_media` raise, and OSError; complete tar files stay.

    A tar file gets its name when it is complete, and every tar file begins with the passport. Partial files of killed
    processes are removed.
    """
    remove_abandoned(folder)
    shards = read_complete_shards(folder)
    _rewrite_journal(folder, shards)
    stream = iter(rows)
    while (first := next(stream, None)) is not None:
        shard = _write_shard(folder, len(shards), passport, first, stream, open_media, limits)
        shards.append(shard)
        _add_to_journal(folder, shard)
    listed = [asdict(shard) for shard in shards]
    with open_partial_file(folder / PASSPORT) as file:
        file.write(format_passport({**passport, "files": listed}).encode())
    (folder / JOURNAL).unlink(missing_ok=True)


def choose_media_extension(address: str) -> str:
    """Return the extension that a video file has in a tar file: that of its address in lower case. It is `video` if the
    address has none, if it is longer than 8 characters or has others than letters and digits, and for `json` and `txt`.

    >>> [choose_media_extension(address) for address in ("day/a.b.MP4", "s3://clips/a", "notes.txt")]
    ['mp4', 'video', 'video']
    """
    extension = os.path.splitext(address)[1][1:].lower()
    return extension if _EXTENSION.fullmatch(extension) and extension not in ("json", "txt") else "video"


def _write_shard(
    folder: Path,
    number: int,
    passport: Mapping[str, Any],
    first: Mapping[str, Any],
    stream: Iterator[Mapping[str, Any]],
    open_media: OpenMedia,
    limits: ShardLimits,
) -> TarShard:
    """Write one tar file, which begins with the passport and the row `first`."""
    path = folder / f"shard-{number:06d}.tar"
    n, row = 0, first
    with open_partial_file(path) as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            _add_bytes(tar, PASSPORT_MEMBER, format_passport(passport).encode())
            while True:
                _add_row(tar, row, open_media)
                n += 1
                if n >= limits.rows or file.tell() >= limits.bytes or (following := next(stream, None)) is None:
                    break
                row = following
        n_bytes = file.tell()
    return TarShard(path.name, n, first["rank"], row["rank"], n_bytes)


def _add_row(tar: tarfile.TarFile, row: Mapping[str, Any], open_media: OpenMedia) -> None:
    """Add the three members of a row to a tar file."""
    key = f"{row['rank']:09d}"
    with open_media(row) as media:
        member = tarfile.TarInfo(f"{key}.{choose_media_extension(row['media'])}")
        member.size = media.size
        tar.addfile(member, media)
    _add_bytes(tar, f"{key}.txt", row["text"].encode())
    _add_bytes(tar, f"{key}.json", format_json_line(dict(row)).encode())


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    """Add a member with this content to a tar file."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def _rewrite_journal(folder: Path, shards: Iterable[TarShard]) -> None:
    """Replace the journal with lines of these shards."""
    with open_partial_file(folder / JOURNAL) as file:
        file.writelines(_format_journal_line(shard) for shard in shards)


def _add_to_journal(folder: Path, shard: TarShard) -> None:
    """Append a shard to the journal, on the disk."""
    with (folder / JOURNAL).open("ab") as file:
        file.write(_format_journal_line(shard))
        file.flush()
        os.fsync(file.fileno())


def _format_journal_line(shard: TarShard) -> bytes:
    """Return a shard as a line of the journal."""
    return (json.dumps(asdict(shard)) + "\n").encode()
