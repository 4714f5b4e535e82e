"""WebDataset: tar files in which a row is three members, the video's file, the caption and the whole row as JSON."""

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

from assets.selection.formats.json_lines import as_line
from assets.selection.partial_file import partial_file, remove_abandoned
from assets.selection.passport import as_json

JOURNAL, PASSPORT = ".shards.jsonl", "passport.json"
# Readers pass over it: the `webdataset` package over names in underscores, `datasets` over names without a dot.
PASSPORT_MEMBER = "__reelsieve_passport__"
_EXTENSION = re.compile(r"[a-z0-9]{1,8}")

OpenMedia = Callable[[Mapping[str, Any]], AbstractContextManager[Any]]
"""Opens the file of a row's video, which has a `size` and is read to its end."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A complete tar file: its rows from `first_rank` to `last_rank`."""

    name: str
    rows: int
    first_rank: int
    last_rank: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Limits:
    """A shard ends with the row that reaches one of these."""

    rows: int
    bytes: int


WHOLE_SHARDS = Limits(rows=10_000, bytes=1_000_000_000)


def complete_shards(folder: Path) -> list[Shard]:
    """The shards that earlier attempts completed, in order; a torn last line of the journal counts for nothing."""
    journal = folder / JOURNAL
    found: list[Shard] = []
    for line in journal.read_text().splitlines() if journal.exists() else []:
        try:
            shard = Shard(**json.loads(line))
            if (folder / shard.name).stat().st_size != shard.bytes:
                break
        except (ValueError, TypeError, FileNotFoundError):
            break
        found.append(shard)
    return found


def write_shards(
    folder: Path,
    passport: Mapping[str, Any],
    rows: Iterable[Mapping[str, Any]],
    open_media: OpenMedia,
    limits: Limits,
) -> None:
    """Write the rows behind the complete shards, and at the end the passport that lists all shards.

    A shard is named when it is complete. Raises what `rows` and `open_media` raise, and OSError.
    """
    remove_abandoned(folder)
    shards = complete_shards(folder)
    _rewrite_journal(folder, shards)
    stream = iter(rows)
    while (first := next(stream, None)) is not None:
        shard = _write_shard(folder, len(shards), passport, first, stream, open_media, limits)
        shards.append(shard)
        _add_to_journal(folder, shard)
    listed = [asdict(shard) for shard in shards]
    with partial_file(folder / PASSPORT) as file:
        file.write(as_json({**passport, "files": listed}).encode())
    (folder / JOURNAL).unlink(missing_ok=True)


def media_extension(address: str) -> str:
    """The extension under which a video's file stands in a shard.

    >>> media_extension("day/a.b.MP4"), media_extension("s3://clips/a"), media_extension("notes.txt")
    ('mp4', 'video', 'video')
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
    limits: Limits,
) -> Shard:
    path = folder / f"shard-{number:06d}.tar"
    n, row = 0, first
    with partial_file(path) as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            _add_bytes(tar, PASSPORT_MEMBER, as_json(passport).encode())
            while True:
                _add_row(tar, row, open_media)
                n += 1
                if n >= limits.rows or file.tell() >= limits.bytes or (following := next(stream, None)) is None:
                    break
                row = following
        n_bytes = file.tell()
    return Shard(path.name, n, first["rank"], row["rank"], n_bytes)


def _add_row(tar: tarfile.TarFile, row: Mapping[str, Any], open_media: OpenMedia) -> None:
    key = f"{row['rank']:09d}"
    with open_media(row) as media:
        member = tarfile.TarInfo(f"{key}.{media_extension(row['media'])}")
        member.size = media.size
        tar.addfile(member, media)
    _add_bytes(tar, f"{key}.txt", row["text"].encode())
    _add_bytes(tar, f"{key}.json", as_line(dict(row)).encode())


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def _rewrite_journal(folder: Path, shards: Iterable[Shard]) -> None:
    with partial_file(folder / JOURNAL) as file:
        file.writelines(_line(shard) for shard in shards)


def _add_to_journal(folder: Path, shard: Shard) -> None:
    with (folder / JOURNAL).open("ab") as file:
        file.write(_line(shard))
        file.flush()
        os.fsync(file.fileno())


def _line(shard: Shard) -> bytes:
    return (json.dumps(asdict(shard)) + "\n").encode()
