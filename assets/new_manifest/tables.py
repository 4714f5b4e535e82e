"""Tables with a column of videos and one of captions: CSV, TSV, JSON Lines, Parquet, and Arrow of Hugging Face."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from assets.ingest import strict_json
from assets.ingest.csv_reader import csv_header, csv_rows, guess_separator
from assets.ingest.files import PathRejected, readable, resolve_inside
from assets.ingest.parquet_reader import batch_contents
from assets.ingest.readers import blocks_of, fields_of, filled_lines
from assets.ingest.rejects import ManifestError, Reject
from assets.new_manifest.columns import Columns, Named, captions_in, guess_columns, require_columns, with_lists
from assets.new_manifest.extract import FOLDER, Extracted, MediaBytes
from assets.new_manifest.folder import stem
from assets.new_manifest.found import Clip, Findings, id_in
from assets.new_manifest.videos import Place, Videos

# Parquet files and the Arrow files of Hugging Face as rows; a column may hold the videos themselves.

# Rows with videos are large.
_ROWS = 16


def arrow_names(path: Path) -> list[str]:
    """The names of the columns. Raises ManifestError if the file cannot be read."""
    with _readable(path):
        if path.suffix.lower() == ".parquet":
            return list(pq.read_schema(path).names)
        with pa.memory_map(str(path)) as file:
            return list(_opened(file).schema.names)


def arrow_rows(path: Path) -> Iterator[tuple[int, dict[str, Any] | Reject]]:
    """For every row its number from 1, and its fields or refusal. Raises ManifestError if the file cannot be read."""
    number = 0
    with _readable(path):
        for batch in _batches(path):
            # A damaged file may name places that it does not have, and reading there would end the process.
            batch.validate(full=True)
            of_media = [
                name for name, column in zip(batch.schema.names, batch.columns, strict=True) if _is_media(column)
            ]
            media = {name: batch.column(name) for name in of_media}
            for row, (content, _) in enumerate(batch_contents(batch.drop_columns(of_media), {})):
                number += 1
                if not isinstance(content, Reject):
                    content |= {
                        name: value for name in media if (value := _media(media[name][row].as_py())) is not None
                    }
                yield number, content


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    if path.suffix.lower() == ".parquet":
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=_ROWS)
        return
    with pa.memory_map(str(path)) as mapped:
        opened = _opened(mapped)
        streamed = isinstance(opened, pa.RecordBatchStreamReader)
        for batch in opened if streamed else map(opened.get_batch, range(opened.num_record_batches)):
            yield from (batch.slice(start, _ROWS) for start in range(0, batch.num_rows, _ROWS))


def _opened(file: pa.NativeFile) -> Any:
    """The reader of an Arrow file: Hugging Face writes the stream format, others the file format."""
    try:
        return pa.ipc.open_stream(file)
    except pa.ArrowInvalid:
        return pa.ipc.open_file(file)


def _is_media(column: pa.Array) -> bool:
    """Whether a column holds files: their bytes, or as Hugging Face does it a struct of `bytes` and `path`."""
    kind = column.type
    if pa.types.is_struct(kind):
        return {field.name for field in kind} == {"bytes", "path"}
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _media(value: Any) -> MediaBytes | str | None:
    if isinstance(value, dict):
        return MediaBytes(value["bytes"], value["path"]) if value["bytes"] else value["path"]
    return MediaBytes(value, None) if value else None


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise ManifestError(f"{path.name}: cannot be read: {error}: mend it, or move it away") from error


_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
# Rows of JSON Lines that are looked at for the names of their fields.
_LOOKED_AT = 100
# Zeros before a number make it a code, such as 007.
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,299})(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")
_COMMA_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,299})(,[0-9]+)?")
# A comma before three digits may stand between thousands.
_THOUSANDS = re.compile(r"-?[1-9][0-9]{0,2},[0-9]{3}")
_NAN = "nan"

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
        return guess_columns(_names(self._path(table)), self.named)

    def clips(self, table: str) -> Iterator[Clip]:
        """Every row of a table that has a video and a caption; what cannot be read is left out with the reason.

        Raises NoManifest where no column is known as either.
        """
        self.videos.folder.take(table)
        number = 0
        try:
            path = self._path(table)
            with readable(path):
                names = _names(path)
                columns = guess_columns(names, self.named)
                require_columns(table, names, columns)
                self.findings.guess(columns.sentence())
                for number, content in _rows(path, names, columns, self.findings):
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
        return self.extracted.keep(staged, wanted, partial(self._claim, own_id, row))

    def _claim(self, own_id: str | None, row: str, path: str) -> Place | None:
        return self.videos.place(path, f"{FOLDER}/{path}", own_id, row)


def _names(path: Path) -> list[str]:
    """The names of a table's columns; of JSON Lines those in its first rows. Raises ManifestError."""
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        return list(filter(None, csv_header(path, guess_separator(path))))
    if suffix == ".jsonl":
        rows = (row for _, row in islice(_json_rows(path), _LOOKED_AT) if not isinstance(row, Reject))
        return list(dict.fromkeys(name for row in rows for name in row))
    return arrow_names(path)


def _rows(path: Path, names: list[str], columns: Columns, findings: Findings) -> _Rows:
    """The rows of a table with their numbers. Raises ManifestError."""
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        return _csv_rows(path, names, columns, findings)
    if suffix == ".jsonl":
        return _json_rows(path)
    return arrow_rows(path)


def _json_rows(path: Path) -> _Rows:
    lines = (line for block in blocks_of(path) for line in filled_lines(block))
    return ((line.number, fields_of(line)) for line in lines)


def _csv_rows(path: Path, names: list[str], columns: Columns, findings: Findings) -> _Rows:
    """The rows of a CSV. Where every cell of a column without a meaning is a number, its values are numbers."""
    separator = guess_separator(path)
    if path.suffix.lower() == ".csv" and separator in _SEPARATORS:
        findings.guess(f"the columns of {path.name} are separated by {_SEPARATORS[separator]}")
    for place, name in enumerate(csv_header(path, separator), 1):
        if not name:
            findings.leave_out("a column without a name", f"{path.name}: column {place}")
    texts = columns.taken.keys() - set(columns.ratings)
    numbers = _numeric(path, separator, [name for name in names if name not in texts], findings)
    for number, row, _ in csv_rows(path, {}, separator, may_be_unnamed=True):
        if isinstance(row, dict):
            for name in numbers & row.keys():
                if row[name].lower() == _NAN:
                    findings.leave_out("a cell that says nan in a column of numbers", f"{path.name}:{number}: {name}")
                    del row[name]
                else:
                    row[name] = strict_json.parse(row[name].replace(",", "."))
        yield number, row


def _numeric(path: Path, separator: str, names: list[str], findings: Findings) -> set[str]:
    """The columns that hold nothing but numbers, of these."""
    plain, with_commas, has_comma, is_clear = set(names), set(names), set[str](), set[str]()
    filled = set[str]()
    for _, row, _ in csv_rows(path, {}, separator, may_be_unnamed=True):
        if isinstance(row, Reject):
            continue
        for name in (plain | with_commas) & row.keys():
            cell = row[name]
            if cell.lower() == _NAN:
                continue
            filled.add(name)
            if _NUMBER.fullmatch(cell) is None:
                plain.discard(name)
            if _COMMA_NUMBER.fullmatch(cell) is None:
                with_commas.discard(name)
            elif "," in cell:
                has_comma.add(name)
                if _THOUSANDS.fullmatch(cell) is None:
                    is_clear.add(name)
    for name in sorted(with_commas & has_comma):
        if name in is_clear:
            findings.guess(f"numbers of column {name!r} have a decimal comma")
        else:
            findings.guess(f"column {name!r} stays text: its commas may stand before decimals or between thousands")
    return (plain | with_commas & is_clear) & filled
