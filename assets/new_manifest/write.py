"""Writes the tables of a manifest, `videos`, `captions`, `ratings` and `vectors`, and the scales of its ratings. They
appear together, and replace no file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from assets.ingest.declarations import DIMENSIONS_FILE, SCALES_FILE
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.rows import RawRow
from assets.new_manifest.findings import Caption, CaptionedVideo, Findings, NoManifest, Reason, shorten_id
from assets.planning.holdings import Holdings, HoldingsTally

# `videos` last: without it a folder is not yet a manifest.
TABLE_NAMES = ("ratings", "vectors", "qa", "captions", "videos")
_SUFFIXES = (".jsonl", ".csv", ".parquet")


@dataclass(frozen=True, slots=True)
class WrittenTables:
    """The contents of a new manifest's tables: its holdings, the number of candidates by system, the number of videos
    below named roots, and the number of vectors by encoder.
    """

    holdings: Holdings
    systems: Counter[str]
    n_videos_in_roots: int
    vectors: Counter[str] = field(default_factory=Counter)

    @property
    def table_names(self) -> tuple[str, ...]:
        """The names of the tables that the manifest has, in the order of writing: ratings, vectors and qa if there are
        any, captions unless there are only questions, videos.
        """
        held = self.holdings
        empty = {"ratings": not held.ratings, "vectors": not self.vectors, "qa": not held.questions}
        empty["captions"] = held.questions > 0 == held.captions + held.references
        return tuple(name for name in TABLE_NAMES if not empty.get(name))


def require_free_target(target: Path) -> Path:
    """Return the folder that is to hold the manifest, which may not exist yet. Raises NoManifest where it holds one."""
    target = Path(os.path.realpath(os.path.expanduser(target)))
    if os.path.lexists(target) and not target.is_dir():
        raise NoManifest(f"{target}: it is not a folder: give another one with --to")
    check_no_manifest(target)
    return target


def check_no_manifest(target: Path) -> None:
    """Raise NoManifest where the folder has a file with the name of a manifest's table, dimensions.json or
    scales.json.
    """
    for table in MANIFEST_TABLES.values():
        for suffix in _SUFFIXES:
            if os.path.lexists(target / f"{table.name}{suffix}"):
                _raise_existing(target, f"{table.name}{suffix}")
    for name in (DIMENSIONS_FILE, SCALES_FILE):
        if os.path.lexists(target / name):
            _raise_existing(target, name)


def _raise_existing(target: Path, name: str) -> None:
    if name.startswith("videos."):
        raise NoManifest(
            f"{target} has a manifest already ({name}), which is never overwritten: ingest it, or remove it"
        )
    raise NoManifest(
        f"no manifest is made, since {target / name} exists already and is never overwritten: rename it, or make the "
        "manifest elsewhere with --to FOLDER"
    )


def write_tables(
    videos: Iterable[CaptionedVideo], unfinished: Path, target: Path, findings: Findings, *, are_rated: bool
) -> WrittenTables:
    """Write videos and what belongs to them as JSON Lines tables into the folder `unfinished`, and return what they
    hold. target: the manifest's folder, to which paths of videos are relative. are_rated: whether rows may hold
    ratings; then equal captions of a video become one.
    """
    with ExitStack() as stack:
        paths = {name: unfinished / f"{name}.jsonl" for name in TABLE_NAMES}
        files = {name: stack.enter_context(path.open("w", encoding="utf-8")) for name, path in paths.items()}
        return _TableWriter(files, findings, HoldingsTally(), are_rated).write_videos(videos)


def link_tables(written: WrittenTables, unfinished: Path, target: Path, scales: Mapping[str, str]) -> None:
    """Give the tables in the folder `unfinished`, and the scales of ratings by aspect, their names in the manifest's
    folder, all or none. Raises NoManifest where a table appeared there meanwhile.
    """
    check_no_manifest(target)
    paths = [unfinished / f"{name}.jsonl" for name in written.table_names]
    if scales:
        paths.insert(0, unfinished / SCALES_FILE)
        paths[0].write_text(json.dumps(scales, ensure_ascii=False) + "\n", encoding="utf-8")
    done: list[Path] = []
    try:
        for path in paths:
            os.link(path, target / path.name)  # which, unlike a new name, replaces nothing
            done.append(target / path.name)
    except BaseException:
        for path in done:
            path.unlink()
        raise


@dataclass(slots=True)
class _WrittenCaption:
    """A caption that has its row: its id, its own fields, the aspects and raters of its ratings, and by aspect how many
    raters are numbered.
    """

    caption_id: str
    extra: Mapping[str, Any]
    rated: set[tuple[str, str]] = field(default_factory=set)
    numbered: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _TableWriter:
    """The files of the tables by name, the tally of their rows, the ids that captions and pairs have, and digests of
    references. `are_rated`: whether equal captions of a video are one.
    """

    files: Mapping[str, IO[str]]
    findings: Findings
    tally: HoldingsTally
    are_rated: bool = False
    _taken: set[str] = field(default_factory=set)
    _repeats: Counter[str] = field(default_factory=Counter)
    _written: dict[bytes, _WrittenCaption] = field(default_factory=dict)
    _references: set[bytes] = field(default_factory=set)

    def write_videos(self, videos: Iterable[CaptionedVideo]) -> WrittenTables:
        """Write the rows of all videos and captions, and return what the tables hold."""
        systems, vectors, in_roots, seen = Counter[str](), Counter[str](), 0, set[str]()
        for video in videos:
            if video.video_id not in seen:
                seen.add(video.video_id)
                in_roots += re.match("(tar://|lance://)?root://", video.path or "") is not None
                self._write_row("video", video.build_row())
            for caption in video.captions:
                are_equal_one = self.are_rated or bool(video.pairs)
                is_once = caption.role == "reference" and not are_equal_one
                digest = self._hash_caption(video.video_id, caption) if are_equal_one or is_once else b""
                if is_once:
                    digest = hashlib.sha256(digest + json.dumps({**caption.extra}).encode()).digest()
                    if digest in self._references:
                        self.findings.leave_out(Reason.REPEATED_REFERENCE, video.where or video.video_id)
                        continue
                    self._references.add(digest)
                if (written := self._written.get(digest)) is None:
                    written = self._write_caption(video.video_id, caption)
                    if caption.role == "candidate":
                        systems[caption.manifest_system or ""] += 1
                    if are_equal_one:
                        self._written[digest] = written
                else:
                    self._merge_fields(written, caption, video.where)
                self._write_ratings(written, caption, video.where)
            for pair in video.pairs:
                qa_id = self._choose_id(pair.qa_id or f"{video.video_id}__qa", "qa_id" if pair.qa_id else None)
                self._write_row("qa", pair.build_row(video.video_id, qa_id))
            for vector in video.vectors:
                self._write_row("vector", dict(vector))
                vectors[vector["encoder"]] += 1
        return WrittenTables(self.tally.build_holdings(), systems, in_roots, vectors)

    def _hash_caption(self, video_id: str, caption: Caption) -> bytes:
        row = replace(caption, extra={}).build_row(video_id, caption.caption_id or "")
        return hashlib.sha256(json.dumps(row).encode()).digest()

    def _write_caption(self, video_id: str, caption: Caption) -> _WrittenCaption:
        wanted = caption.caption_id or f"{video_id}__{caption.manifest_system or 'reference'}"
        caption_id = self._choose_id(wanted, "caption_id" if caption.caption_id else None)
        self._write_row("caption", caption.build_row(video_id, caption_id))
        return _WrittenCaption(caption_id, caption.extra)

    def _merge_fields(self, written: _WrittenCaption, caption: Caption, where: str) -> None:
        """Leave out the own fields of a caption that is there already, except those that have the same value."""
        self.findings.add_guess("rows with the same video, system and text are one caption")
        for name, value in caption.extra.items():
            if written.extra.get(name) != value:
                self.findings.leave_out(Reason.OTHER_VALUE, f"{where}: {name}")

    def _write_ratings(self, written: _WrittenCaption, caption: Caption, where: str) -> None:
        """Write the ratings of a caption. Unnamed raters are numbered after those of its earlier rows."""
        before = written.numbered.copy()
        for rating in caption.ratings:
            if isinstance(rating.rater, int):
                place = before[rating.aspect] + rating.rater
                written.numbered[rating.aspect] = max(place, written.numbered[rating.aspect])
                rater = f"rater_{place}"
                if before[rating.aspect]:
                    self.findings.add_guess("no column names the raters, who get numbers by the order of the rows")
            else:
                rater = rating.rater
            if (rating.aspect, rater) in written.rated:
                thing = f"{where}: {rating.aspect} {rating.value} by {rater}"
                self.findings.leave_out(Reason.REPEATED_RATING, thing)
                continue
            written.rated.add((rating.aspect, rater))
            self._write_row("rating", rating.build_row(written.caption_id, rater))

    def _choose_id(self, wanted: str, given_by: str | None) -> str:
        """Choose an id: the wanted one, with a number where another row has it. given_by: the field that gave it."""
        chosen = shorten_id(wanted)
        while chosen in self._taken:
            self._repeats[wanted] += 1
            chosen = shorten_id(f"{wanted}_{self._repeats[wanted] + 1}")
            if given_by:
                self.findings.add_guess(f"a {given_by} that occurs again gets a number, as in ID_2")
        self._taken.add(chosen)
        return chosen

    def _write_row(self, kind: str, row: dict[str, Any]) -> None:
        self.files[MANIFEST_TABLES[kind].name].write(json.dumps(row, ensure_ascii=False) + "\n")
        self.tally.add(RawRow("", 0, kind, row, None, ""))
