"""Parquet, and the Arrow files of Hugging Face, as rows: a null is an absent field, in columns, structs and maps. A
column of a source may hold the videos themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from assets.ingest.files import OpenFile
from assets.ingest.hygiene import RAW_LENGTH, format_raw_row, format_value, strip_zero_sign
from assets.ingest.lines import MAX_ROW_BYTES
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.rows import MediaBytes

_BATCH_ROWS = 1024
# Rows with videos are large.
_MEDIA_ROWS = 16
_TOO_LONG = Reject("too_long", f"the row, written as JSON, is longer than {MAX_ROW_BYTES} bytes: shorten it")
# These replace values that cannot be read. `_check_row` adds the name of the field.
_BROKEN_TEXT = Reject("invalid_utf8", "is not valid UTF-8: write it as UTF-8")
_NO_JSON = Reject("wrong_type", "holds a value that JSON cannot write: give it as text or as a number")
_NO_SUCH_TIME = Reject("out_of_range", "is no time of a day, or no date of the years 1 to 9999: correct it")

# JSON has no type for dates and times; as text they lose nothing.
_TEMPORAL = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_time)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_FIRST_DAY, _LAST_DAY = (day.toordinal() - date(1970, 1, 1).toordinal() for day in (date.min, date.max))
_DAY_S = 86_400

RowContent = tuple[dict[str, Any] | Reject, str]


def read_parquet_rows(
    file: OpenFile, name: str, field_types: Mapping[str, type]
) -> Iterator[tuple[int, dict[str, Any] | Reject, str]]:
    """Yield for every row of a Parquet file its number from 1, its fields or a Reject, and its first 2,000 characters,
    written as JSON, as text that Postgres can store. field_types: by field, the type that pandas may have written
    otherwise, such as int.

    name: of the file, for messages. Raises ManifestError if the file cannot be read as Parquet.
    """
    number = 0
    try:
        with pq.ParquetFile(file.file) as table:
            names = table.schema_arrow.names
            if len(set(names)) != len(names):
                raise ValueError("two columns have the same name: name every column once")
            for batch in table.iter_batches(batch_size=_BATCH_ROWS):
                for content, raw in convert_batch(batch, field_types):
                    number += 1
                    yield number, content, raw
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        place = f" after row {number:,}" if number else ""
        raise ManifestError(f"{name}: cannot be read as Parquet{place}: {error}") from error


def count_parquet_rows(file: OpenFile, name: str) -> int:
    """Return the number of rows that the metadata of a Parquet file states. name: of the file, for messages. Raises
    ManifestError if the file is not Parquet.
    """
    try:
        return int(pq.read_metadata(file.file).num_rows)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise ManifestError(f"{name}: cannot be read as Parquet: {error}") from error


def read_arrow_column_names(file: OpenFile, path: Path) -> list[str]:
    """Return the names of the columns of a Parquet or Arrow file, in order. `file` is the open file, and the suffix of
    its path names the format. Raises ManifestError if it cannot be read.
    """
    with _convert_read_errors(path):
        return list(_read_schema(file, path).names)


def read_arrow_rows(file: OpenFile, path: Path) -> Iterator[tuple[int, dict[str, Any] | Reject]]:
    """Yield for every row of a Parquet or Arrow file its number from 1, and its fields or a Reject. `file` is the open
    file, and the suffix of its path names the format. A cell that holds the bytes of a file is MediaBytes. Raises
    ManifestError if the file cannot be read.
    """
    number = 0
    with _convert_read_errors(path):
        for batch in _read_batches(file, path):
            media_columns = [field.name for field in batch.schema if _is_media(field.type)]
            media = {name: batch.column(name) for name in media_columns}
            for row, (content, _) in enumerate(convert_batch(batch.drop_columns(media_columns), {})):
                number += 1
                if not isinstance(content, Reject):
                    content |= {
                        name: value for name in media if (value := _convert_media(media[name][row].as_py())) is not None
                    }
                yield number, content


def read_arrow_cells(file: OpenFile, path: Path, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield for every readable row of a Parquet or Arrow file the cells of the columns of these names, after a first
    row with an empty MediaBytes for each column that holds files. Of these cells only the files' names are read. Raises
    ManifestError as `read_arrow_rows`.
    """
    with _convert_read_errors(path):
        types = {field.name: field.type for field in _read_schema(file, path)}
        media = {name for name in names if _is_media(types[name])}
        yield dict.fromkeys(media, MediaBytes(b"", None))
        read = [name for name in names if name not in media or pa.types.is_struct(types[name])]
        for batch in _read_batches(file, path, [f"{name}.path" if name in media else name for name in read]):
            columns = [batch.column(name).field("path") if name in media else batch.column(name) for name in read]
            rows = (row for row, _ in convert_batch(pa.RecordBatch.from_arrays(columns, read), {}))
            yield from (row for row in rows if not isinstance(row, Reject))


def _read_batches(file: OpenFile, path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file with at least these columns, or all; only Parquet is read by column."""
    if path.suffix.lower() == ".parquet":
        with pq.ParquetFile(file.file) as table:
            yield from map(_check_batch, table.iter_batches(batch_size=_MEDIA_ROWS, columns=columns))
        return
    with pa.memory_map(str(path)) as mapped:
        reader = _open_arrow_reader(mapped)
        streamed = isinstance(reader, pa.RecordBatchStreamReader)
        for batch in reader if streamed else map(reader.get_batch, range(reader.num_record_batches)):
            yield from (
                _check_batch(batch.slice(start, _MEDIA_ROWS)) for start in range(0, batch.num_rows, _MEDIA_ROWS)
            )


def _check_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    # A damaged file may name places that it does not have, and reading there would end the process.
    batch.validate(full=True)
    return batch


def _read_schema(file: OpenFile, path: Path) -> pa.Schema:
    if path.suffix.lower() == ".parquet":
        return pq.read_schema(file.file)
    with pa.memory_map(str(path)) as mapped:
        return _open_arrow_reader(mapped).schema


def _open_arrow_reader(file: pa.NativeFile) -> Any:
    """Open a reader of an Arrow file: Hugging Face writes the stream format, others the file format."""
    try:
        return pa.ipc.open_stream(file)
    except pa.ArrowInvalid:
        return pa.ipc.open_file(file)


def _is_media(kind: pa.DataType) -> bool:
    """Return whether a column of a type holds files: their bytes, or as Hugging Face does it a struct of `bytes` and
    `path`.
    """
    if pa.types.is_struct(kind):
        return {field.name for field in kind} == {"bytes", "path"}
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _convert_media(value: Any) -> MediaBytes | str | None:
    if isinstance(value, dict):
        return MediaBytes(value["bytes"], value["path"]) if value["bytes"] else value["path"]
    return MediaBytes(value, None) if value else None


@contextmanager
def _convert_read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise ManifestError(f"{path.name}: cannot be read: {error}: repair it, or move it away") from error


def convert_batch(batch: pa.RecordBatch, field_types: Mapping[str, type]) -> Iterator[RowContent]:
    """Yield for every row of an Arrow batch its fields or a Reject, and its first 2,000 characters, written as JSON, as
    text that Postgres can store. Nulls are left out. field_types: by field, the type that pandas may have written
    otherwise, such as int.

    A batch that may hold a row that is too long is taken row by row, because such a row is refused before it is made
    into Python values, which take many times its memory.
    """
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    if sum(map(_compute_least_bytes, columns.values())) <= MAX_ROW_BYTES:
        values = [_convert_column(column, field_types.get(name)) for name, column in columns.items()]
        for row in zip(*values, strict=True):
            yield _check_row({name: value for name, value in zip(columns, row, strict=True) if value is not None})
    elif batch.num_rows > 1:
        for position in range(batch.num_rows):
            yield from convert_batch(batch.slice(position, 1), field_types)
    else:
        short = {name: column for name, column in columns.items() if _compute_least_bytes(column) < RAW_LENGTH}
        beginning = {name: _convert_column(column, field_types.get(name))[0] for name, column in short.items()}
        yield _TOO_LONG, _format_raw(json.dumps(beginning, ensure_ascii=False, default=_as_text))


def _check_row(fields: dict[str, Any]) -> RowContent:
    text = json.dumps(fields, ensure_ascii=False, default=_as_text)
    raw = _format_raw(text)
    # A character of UTF-8 takes at most four bytes.
    if 4 * len(text) > MAX_ROW_BYTES and len(text.encode("utf-8", "replace")) > MAX_ROW_BYTES:
        return _TOO_LONG, raw
    for name, value in fields.items():
        if isinstance(value, Reject):
            return Reject(value.code, f"field {format_value(name)} {value.reason}"), raw
    return fields, raw


def _format_raw(text: str) -> str:
    return format_raw_row(text[:RAW_LENGTH].encode("utf-8", "replace"))


def _as_text(value: Any) -> str:
    return f"({value.code})" if isinstance(value, Reject) else str(value)


def _compute_least_bytes(array: pa.Array) -> int:
    """Compute the smallest number of bytes that the values take as JSON.

    A value that is not null counts two bytes: a comma, and a bracket, a quote or a digit. Arrow knows the lengths of
    texts, so the texts themselves are not read.
    """
    kind, n_bytes = array.type, 2 * (len(array) - array.null_count)
    if pa.types.is_struct(kind):
        return n_bytes + sum(map(_compute_least_bytes, array.flatten()))
    if pa.types.is_union(kind) or pa.types.is_run_end_encoded(kind):
        return n_bytes
    if pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
        array = pa.ListArray.from_arrays(array.offsets, entries)
    if pa.types.is_nested(kind):
        items = array.flatten()
        # JSON writes the nulls of a list, unlike those of a struct.
        return n_bytes + 2 * items.null_count + _compute_least_bytes(items)
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(array.dictionary).take(array.indices) if _is_text(kind.value_type) else None
    else:
        lengths = pc.binary_length(array) if _is_text(kind) else None
    return n_bytes if lengths is None else n_bytes + (pc.sum(lengths).as_py() or 0)


def _is_text(arrow_type: pa.DataType) -> bool:
    types = pa.types
    return any(is_such(arrow_type) for is_such in (types.is_string, types.is_large_string, types.is_binary))


def _convert_column(column: pa.Array, field_type: type | None) -> list[Any]:
    """Convert a column to Python values. Dates become text, and whole numbers that pandas wrote as floats become int.

    A value that cannot be read is replaced by a Reject.
    """
    arrow_type = column.type
    if any(is_such(arrow_type) for is_such in _TEMPORAL):
        return _convert_times(column)
    if pa.types.is_decimal(arrow_type):
        column = column.cast(pa.string())
    try:
        values = column.to_pylist()
    except (ValueError, OverflowError, LookupError):
        values = [_convert_scalar(scalar) for scalar in column]
    if field_type is int and pa.types.is_floating(arrow_type):
        return [int(value) if value is not None and value.is_integer() else value for value in values]
    if pa.types.is_nested(arrow_type) or pa.types.is_floating(arrow_type):
        return [_omit_nulls(value) for value in values]
    return values


def _convert_times(column: pa.Array) -> list[str | Reject | None]:
    """Convert dates and times to text, with a Reject for those out of range, for which Arrow gives a wrong text."""
    first, last = _compute_time_range(column.type)
    numbers = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64()).to_pylist()
    texts = column.cast(pa.string()).to_pylist()
    return [
        text if number is None or first <= number <= last else _NO_SUCH_TIME
        for number, text in zip(numbers, texts, strict=True)
    ]


def _compute_time_range(arrow_type: pa.DataType) -> tuple[int, int]:
    """Compute the lowest and highest number that Arrow stores for a time of day, or a date of the years 1 to 9999."""
    if pa.types.is_date32(arrow_type):
        return _FIRST_DAY, _LAST_DAY
    per_day = _DAY_S * (1000 if pa.types.is_date64(arrow_type) else _PER_SECOND[arrow_type.unit])
    if pa.types.is_time(arrow_type):
        return 0, per_day - 1
    return _FIRST_DAY * per_day, (_LAST_DAY + 1) * per_day - 1


def _convert_scalar(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return _BROKEN_TEXT
    except (ValueError, OverflowError, LookupError):
        # A date inside a list: beyond Python's range, finer than its microseconds, or of an unknown time zone.
        return _NO_JSON


def _omit_nulls(value: Any) -> Any:
    """Return the value without the nulls of its structs, with maps as dicts, and with 0.0 for -0.0."""
    if isinstance(value, float):
        return strip_zero_sign(value)
    if isinstance(value, dict):
        return {name: _omit_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        # Arrow gives a map as pairs, whose keys may be of any type and occur again.
        if value and all(type(item) is tuple for item in value):
            names = {name for name, _ in value if isinstance(name, str)}
            as_dict = dict(value) if len(names) == len(value) else None
            value = as_dict or [{"key": key, "value": item} for key, item in value]
            return _omit_nulls(value)
        return [_omit_nulls(item) for item in value]
    return value
