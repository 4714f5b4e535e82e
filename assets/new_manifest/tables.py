"""Tables with a column of videos and one of captions: CSV, TSV, JSON Lines, Parquet, and Arrow of Hugging Face."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from assets.ingest.files import OpenFile, open_file
from assets.ingest.json_lines import fields_of, filled_lines
from assets.ingest.lines import blocks
from assets.ingest.paths import PathRejected, resolve_inside
from assets.ingest.rejects import ManifestError, Reject
from assets.new_manifest.arrow_tables import arrow_names, arrow_rows
from assets.new_manifest.columns import Columns, Named, captions_in, guess_columns, require_columns, with_lists
from assets.new_manifest.csv_tables import csv_names, read_csv_table
from assets.new_manifest.extract import Extracted, MediaBytes
from assets.new_manifest.folder import stem
from assets.new_manifest.found import Clip, Findings, id_in
from assets.new_manifest.videos import Place, Videos

# Rows of JSON Lines that are looked at for the names of their fields.
_LOOKED_AT = 100

_Rows = Iterator[tuple[int, dict[str, Any] | Reject]]


@dataclass(frozen=True, slots=True)
class TableReader:
    """Reads clips from tables, whose columns have names that the user gave or that are guessed."""

    videos: Videos
    extracted: Extracted
    findings: Findings
    named: Named

    def columns(self, table: str) -> Columns:
        """The columns of a table. Raises ManifestError if it cannot be read."""
        path = self._path(table)
        with open_file(path) as file:
            return guess_columns(_names(file, path), self.named)

    def clips(self, table: str) -> Iterator[Clip]:
        """Every row of a table that has a video and a caption; what cannot be read is left out with the reason.

        Raises NoManifest where no column is known as either.
        """
        self.videos.folder.take(table)
        number = 0
        try:
            path = self._path(table)
            with open_file(path) as file:
                names = _names(file, path)
                columns = guess_columns(names, self.named)
                require_columns(table, names, columns)
                self.findings.guess(columns.sentence())
                file.rewind()
                for number, content in _rows(file, path, columns, self.findings):
                    if isinstance(content, Reject):
                        remedy = ": save the file as UTF-8" if content.code == "invalid_utf8" else ""
                        self.findings.leave_out(
                            f"a row that cannot be read ({content.code}){remedy}", f"{table}:{number}"
                        )
                    elif (clip := self._clip(content, columns, table, number)) is not None:
                        yield clip
        except ManifestError as error:
            what = "the rest of a table" if number else "a table"
            self.findings.leave_out(f"{what} that cannot be read: {error}", f"{table}:{number + 1}")

    def _path(self, table: str) -> Path:
        try:
            return resolve_inside(self.videos.folder.path, table)
        except PathRejected as refused:
            raise ManifestError(f"{table}: it is no regular file inside the folder any more") from refused

    def _clip(self, fields: Mapping[str, Any], columns: Columns, table: str, number: int) -> Clip | None:
        row = f"{table}:{number}"
        captions = captions_in(with_lists(fields, columns, row, self.findings), columns, row, self.findings)
        place = self._place(fields, columns, table, number) if captions else None
        return None if place is None else Clip(place.video_id, place.path, captions)

    def _place(self, fields: Mapping[str, Any], columns: Columns, table: str, number: int) -> Place | None:
        row, cell = f"{table}:{number}", fields.get(columns.video or "")
        own_id = id_in(value) if (value := fields.get(columns.video_id or "")) is not None else None
        if value is not None and own_id is None:
            self.findings.leave_out("a row whose video_id is no text and no whole number", row)
            return None
        if isinstance(cell, MediaBytes):
            return self._extracted(cell, own_id, table, number)
        if (name := id_in(cell)) is None:
            why = "a row without a video" if cell is None or isinstance(cell, str) else "a row whose video is no text"
            self.findings.leave_out(why, row)
            return None
        return self.videos.of_cell(name, PurePosixPath(table).parent.as_posix(), own_id, row)

    def _extracted(self, media: MediaBytes, own_id: str | None, table: str, number: int) -> Place | None:
        row = f"{table}:{number}"
        wanted = f"{stem(table)}/{media.file_name(number)}"
        if not self.extracted.is_name(wanted):
            return None
        staged = self.extracted.stage(io.BytesIO(media.content), len(media.content), row)
        return self.extracted.keep(staged, wanted, own_id, row)


def _names(file: OpenFile, path: Path) -> list[str]:
    """The names of a table's columns; of JSON Lines those in its first rows. Raises ManifestError."""
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        return csv_names(file, path)
    if suffix == ".jsonl":
        rows = (row for _, row in islice(_json_rows(file), _LOOKED_AT) if not isinstance(row, Reject))
        return list(dict.fromkeys(name for row in rows for name in row))
    return arrow_names(file, path)


def _rows(file: OpenFile, path: Path, columns: Columns, findings: Findings) -> _Rows:
    """The rows of a table with their numbers. Raises ManifestError."""
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        return read_csv_table(file, path, columns, findings)
    return _json_rows(file) if suffix == ".jsonl" else arrow_rows(file, path)


def _json_rows(file: OpenFile) -> _Rows:
    lines = (line for block in blocks(file) for line in filled_lines(block))
    return ((line.number, fields_of(line)) for line in lines)
