"""Writes the tables `videos` and `captions` of a manifest. They appear together at the end, and replace no file."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from assets.ingest.dimensions import DIMENSIONS_FILE
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.new_manifest.found import UNNAMED_SYSTEM, Caption, Clip, NoManifest

# Captions first: a folder without videos is no manifest yet.
TABLES = ("captions.jsonl", "videos.jsonl")
_SUFFIXES = (".jsonl", ".csv", ".parquet")


@dataclass(slots=True)
class Written:
    """How many rows a manifest has."""

    videos: int = 0
    candidates: int = 0
    references: int = 0
    in_roots: int = 0
    systems: Counter[str] = field(default_factory=Counter)

    def count(self, caption: Mapping[str, Any]) -> None:
        """Count a row of table `captions`."""
        if caption["role"] == "reference":
            self.references += 1
        else:
            self.candidates += 1
            self.systems[caption["system"]] += 1


def require_no_manifest(target: Path) -> None:
    """Raise NoManifest where the folder holds a manifest, or a file that ingest would take for a table of one."""
    for table in MANIFEST_TABLES.values():
        for suffix in _SUFFIXES:
            if (target / f"{table.name}{suffix}").exists():
                _refuse(target, f"{table.name}{suffix}")
    if (target / DIMENSIONS_FILE).exists():
        _refuse(target, DIMENSIONS_FILE)


def _refuse(target: Path, name: str) -> None:
    if name.startswith("videos."):
        raise NoManifest(
            f"{target} has a manifest already ({name}), which is never overwritten: ingest it, or remove it"
        )
    raise NoManifest(
        f"{target / name} has the name of a manifest's table, and nothing is overwritten: rename it, or make the "
        "manifest elsewhere with --to FOLDER"
    )


def write_manifest(clips: Iterable[Clip], target: Path, *, is_trial: bool) -> Written:
    """Write the clips as a manifest into a folder. is_trial: only count them.

    Raises NoManifest where a table appeared in the folder meanwhile.
    """
    if is_trial:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            return _rows(clips, nowhere, nowhere)
    target.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".reelsieve-", dir=target))
    try:
        paths = [folder / name for name in TABLES]
        with paths[0].open("w", encoding="utf-8") as captions, paths[1].open("w", encoding="utf-8") as videos:
            written = _rows(clips, videos, captions)
        if written.videos:
            require_no_manifest(target)
            _put(paths, target)
        return written
    finally:
        shutil.rmtree(folder)


def _put(paths: Sequence[Path], target: Path) -> None:
    """Give the files their names in the target, all or none. A link, unlike a new name, replaces nothing."""
    done: list[Path] = []
    try:
        for path in paths:
            os.link(path, target / path.name)
            done.append(target / path.name)
    except BaseException:
        for path in done:
            path.unlink()
        raise


def _rows(clips: Iterable[Clip], videos: IO[str], captions: IO[str]) -> Written:
    written, seen, ids = Written(), set[str](), _Ids()
    for clip in clips:
        if clip.video_id not in seen:
            seen.add(clip.video_id)
            written.videos += 1
            written.in_roots += (clip.path or "").startswith("root://")
            row: dict[str, Any] = {"video_id": clip.video_id} | ({"path": clip.path} if clip.path else {})
            videos.write(json.dumps(row, ensure_ascii=False) + "\n")
        for caption in clip.captions:
            row = _caption_row(clip.video_id, caption, ids)
            captions.write(json.dumps(row, ensure_ascii=False) + "\n")
            written.count(row)
    return written


def _caption_row(video_id: str, caption: Caption, ids: _Ids) -> dict[str, Any]:
    system = caption.system or (None if caption.role == "reference" else UNNAMED_SYSTEM)
    row = {
        "caption_id": ids.unique(caption.caption_id or f"{video_id}__{system or 'reference'}"),
        "video_id": video_id,
        "role": caption.role,
        "system": system,
        "text": caption.text,
        "segments": caption.segments,
        **caption.extra,
    }
    return {name: value for name, value in row.items() if value is not None}


class _Ids:
    """Gives every caption an id of its own: the one that is wanted, with a number where another caption has it."""

    def __init__(self) -> None:
        self._taken = set[str]()
        self._repeats = Counter[str]()

    def unique(self, wanted: str) -> str:
        unique = wanted
        while unique in self._taken:
            self._repeats[wanted] += 1
            unique = f"{wanted}_{self._repeats[wanted] + 1}"
        self._taken.add(unique)
        return unique
