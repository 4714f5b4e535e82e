"""Tables with a column of videos and one of captions: CSV, TSV, JSON Lines, Parquet, and Arrow of Hugging Face."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import Any

from assets.ingest.csv_reader import csv_header, csv_rows, guess_separator
from assets.ingest.files import readable
from assets.ingest.json_lines import blocks_of, fields_of, filled_lines
from assets.ingest.rejects import Reject
from assets.new_manifest.columns import Columns, captions_in, guess_columns, require_columns
from assets.new_manifest.extract import Extracted, MediaBytes
from assets.new_manifest.found import Clip, Findings
from assets.new_manifest.media_files import MediaFiles, Place, files_below

TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet", ".arrow")
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
# Rows of JSON Lines that are looked at for the names of their fields.
_LOOKED_AT = 100

_Rows = Iterator[tuple[int, dict[str, Any] | Reject]]


def tables_below(folder: Path) -> list[str]:
    """The tables of a folder, without those that Hugging Face keeps as a cache."""
    return [
        path
        for path in files_below(folder)
        if PurePosixPath(path).suffix.lower() in TABLE_SUFFIXES and not PurePosixPath(path).name.startswith("cache-")
    ]


@dataclass(frozen=True, slots=True)
class TableReader:
    """Reads clips from tables. video, caption: what the user calls these columns; None to guess them."""

    media: MediaFiles
    extracted: Extracted
    findings: Findings
    video: str | None = None
    caption: str | None = None

    def columns(self, path: Path) -> Columns:
        """The columns of a table. Raises ManifestError if it cannot be read."""
        return self._guess(_opened(path, Findings())[0])

    def clips(self, path: Path) -> Iterator[Clip]:
        """Every row of a table that has a video and a caption.

        Raises NoManifest where no column is known as either, and ManifestError if the table cannot be read.
        """
        name = path.relative_to(self.media.places.source).as_posix()
        with readable(path):
            names, rows = _opened(path, self.findings)
            columns = self._guess(names)
            require_columns(name, names, columns)
            self.findings.guess(columns.sentence())
            for number, content in rows:
                if isinstance(content, Reject):
                    remedy = ": save the file as UTF-8" if content.code == "invalid_utf8" else ""
                    self.findings.leave_out(f"a row that cannot be read ({content.code}){remedy}", f"{name}:{number}")
                elif (clip := self._clip(content, columns, name, number)) is not None:
                    yield clip

    def _guess(self, names: list[str]) -> Columns:
        return guess_columns(names, self.video, self.caption)

    def _clip(self, fields: dict[str, Any], columns: Columns, table: str, number: int) -> Clip | None:
        row = f"{table}:{number}"
        # Other files in a row, such as pictures, have no place in a manifest.
        plain = {name: value for name, value in fields.items() if not isinstance(value, MediaBytes)}
        captions = captions_in(plain, columns, row, self.findings)
        place = self._place(fields.get(columns.video or ""), table, number) if captions else None
        if place is None:
            return None
        own_id = fields.get(columns.video_id or "")
        return Clip(str(own_id) if own_id else place.video_id, place.path, captions)

    def _place(self, cell: Any, table: str, number: int) -> Place | None:
        if isinstance(cell, MediaBytes):
            return self.extracted.from_table(cell, table, number)
        if isinstance(cell, str | int) and str(cell).strip():
            return self.media.locate(str(cell).strip(), PurePosixPath(table).parent.as_posix(), f"{table}:{number}")
        self.findings.leave_out("a row without a video", f"{table}:{number}")
        return None


def _opened(path: Path, findings: Findings) -> tuple[list[str], _Rows]:
    """The names of a table's columns, and its rows with their numbers."""
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        separator = guess_separator(path)
        if suffix == ".csv" and separator in _SEPARATORS:
            findings.guess(f"the columns of {path.name} are separated by {_SEPARATORS[separator]}")
        return csv_header(path, separator), (
            (line, row) for line, row, _ in csv_rows(path, {}, separator, may_be_unnamed=True)
        )
    if suffix == ".jsonl":
        lines = (line for block in blocks_of(path) for line in filled_lines(block))
        rows = ((line.number, fields_of(line)) for line in lines)
        first = list(islice(rows, _LOOKED_AT))
        fields = (row for _, row in first if not isinstance(row, Reject))
        return list(dict.fromkeys(name for row in fields for name in row)), chain(first, rows)
    # PyArrow takes a moment to import, and most folders have no such table.
    from assets.new_manifest.arrow_tables import arrow_names, arrow_rows

    return arrow_names(path), arrow_rows(path)
