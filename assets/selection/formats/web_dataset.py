"""Writes WebDataset: tar files with three members for every row, the video's file, the caption, and the whole row as
JSON.
"""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assets.selection.formats.json_lines import format_json_line
from assets.selection.partial_file import open_partial_file
from assets.selection.passport import format_passport

PASSPORT = "passport.json"
# Readers skip it: the `webdataset` package over names in underscores, `datasets` over names without a dot.
PASSPORT_MEMBER = "__reelsieve_passport__"
_EXTENSION = re.compile(r"[a-z0-9]{1,8}")

OpenMedia = Callable[[Mapping[str, Any]], AbstractContextManager[Any]]
"""Opens the file of a row's video, which has a `size` and is read to its end."""


@dataclass(frozen=True, slots=True)
class ShardLimits:
    """Where a tar file of an export ends: with the row that reaches this number of rows, or this number of bytes."""

    rows: int
    bytes: int


DEFAULT_SHARD_LIMITS = ShardLimits(rows=10_000, bytes=1_000_000_000)


def write_tar_shards(
    folder: Path,
    passport: Mapping[str, Any],
    rows: Iterable[Mapping[str, Any]],
    open_media: OpenMedia,
    limits: ShardLimits,
) -> None:
    """Write rows to tar files in an empty folder, and at the end passport.json, which lists all tar files. rows: dicts
    by column. open_media: opens the video file of a row. limits: where a tar file ends. Raises what `rows` and
    `open_media` raise, and OSError.

    Every tar file begins with the passport.
    """
    stream = iter(rows)
    shards: list[dict[str, Any]] = []
    while (first := next(stream, None)) is not None:
        path = folder / f"shard-{len(shards):06d}.tar"
        shards.append(_write_shard(path, passport, first, stream, open_media, limits))
    with open_partial_file(folder / PASSPORT) as file:
        file.write(format_passport({**passport, "files": shards}).encode())


def choose_media_extension(address: str) -> str:
    """Return the extension that a video file has in a tar file: that of its address in lower case. It is `video` if the
    address has none, if it is longer than 8 characters or has others than letters and digits, and for `json` and `txt`.

    >>> [choose_media_extension(address) for address in ("day/a.b.MP4", "s3://clips/a", "notes.txt")]
    ['mp4', 'video', 'video']
    """
    extension = os.path.splitext(address)[1][1:].lower()
    return extension if _EXTENSION.fullmatch(extension) and extension not in ("json", "txt") else "video"


def _write_shard(
    path: Path,
    passport: Mapping[str, Any],
    first: Mapping[str, Any],
    stream: Iterator[Mapping[str, Any]],
    open_media: OpenMedia,
    limits: ShardLimits,
) -> dict[str, Any]:
    """Write one tar file, which begins with the passport and the row `first`, and return it as the passport lists
    it.
    """
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
    return {
        "name": path.name,
        "rows": n,
        "first_rank": first["rank"],
        "last_rank": row["rank"],
        "bytes": n_bytes,
    }


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
