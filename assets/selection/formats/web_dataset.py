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

from assets.selection.formats.json_lines import format_json_line
from assets.selection.partial_file import open_partial_file, remove_abandoned
from assets.selection.passport import format_passport

JOURNAL, PASSPORT = ".shards.jsonl", "passport.json"
# Readers pass over it: the `webdataset` package over names in underscores, `datasets` over names without a dot.
PASSPORT_MEMBER = "__reelsieve_passport__"
_EXTENSION = re.compile(r"[a-z0-9]{1,8}")

OpenMedia = Callable[[Mapping[str, Any]], AbstractContextManager[Any]]
"""Opens the file of a row's video, which has a `size` and is read to its end."""


@dataclass(frozen=True, slots=True)
class TarShard:
    """A complete tar file: its rows from `first_rank` to `last_rank`."""

    name: str
    rows: int
    first_rank: int
    last_rank: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ShardLimits:
    """A shard ends with the row that reaches one of these."""

    rows: int
    bytes: int


DEFAULT_SHARD_LIMITS = ShardLimits(rows=10_000, bytes=1_000_000_000)


def read_complete_shards(folder: Path) -> list[TarShard]:
    """The shards that earlier attempts completed, in order; a torn last line of the journal counts for nothing."""
    journal = folder / JOURNAL
    found: list[TarShard] = []
    for line in journal.read_text().splitlines() if journal.exists() else []:
        try:
            shard = TarShard(**json.loads(line))
            if (folder / shard.name).stat().st_size != shard.bytes:
                break
        except (ValueError, TypeError, FileNotFoundError):
            break
        found.append(shard)
    return found


def write_tar_shards(
    folder: Path,
    passport: Mapping[str, Any],
    rows: Iterable[Mapping[str, Any]],
    open_media: OpenMedia,
    limits: ShardLimits,
) -> None:
    """Write the rows behind the complete shards, and at the end the passport that lists all shards.

    A shard is named when it is complete. Raises what `rows` and `open_media` raise, and OSError.
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
    """The extension under which a video's file stands in a shard.

    >>> choose_media_extension("day/a.b.MP4"), choose_media_extension("s3://clips/a"), choose_media_extension("notes.txt")
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
    limits: ShardLimits,
) -> TarShard:
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
    key = f"{row['rank']:09d}"
    with open_media(row) as media:
        member = tarfile.TarInfo(f"{key}.{choose_media_extension(row['media'])}")
        member.size = media.size
        tar.addfile(member, media)
    _add_bytes(tar, f"{key}.txt", row["text"].encode())
    _add_bytes(tar, f"{key}.json", format_json_line(dict(row)).encode())


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def _rewrite_journal(folder: Path, shards: Iterable[TarShard]) -> None:
    with open_partial_file(folder / JOURNAL) as file:
        file.writelines(_format_journal_line(shard) for shard in shards)


def _add_to_journal(folder: Path, shard: TarShard) -> None:
    with (folder / JOURNAL).open("ab") as file:
        file.write(_format_journal_line(shard))
        file.flush()
        os.fsync(file.fileno())


def _format_journal_line(shard: TarShard) -> bytes:
    return (json.dumps(asdict(shard)) + "\n").encode()
