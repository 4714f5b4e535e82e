"""Parquet as rows of a manifest: a null is an absent field, in columns and inside structs and maps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from assets.ingest.files import OpenFile
from assets.ingest.hygiene import RAW_LENGTH, drop_zero_sign, format_raw_row, format_value
from assets.ingest.lines import MAX_ROW_BYTES
from assets.ingest.rejects import ManifestError, Reject

BATCH_ROWS = 1024
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
            for batch in table.iter_batches(batch_size=BATCH_ROWS):
                for content, raw in convert_batch(batch, field_types):
                    number += 1
                    yield number, content, raw
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise ManifestError(f"{name}: cannot be read as Parquet after row {number}: {error}") from error


def count_parquet_rows(file: OpenFile, name: str) -> int:
    """Return the number of rows that the metadata of a Parquet file states. name: of the file, for messages. Raises
    ManifestError if the file is not Parquet.
    """
    try:
        return int(pq.read_metadata(file.file).num_rows)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise ManifestError(f"{name}: cannot be read as Parquet after row 0: {error}") from error


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
    """Compute the least number of bytes that the values take as JSON.

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
        return [_drop_nulls(value) for value in values]
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
    """Compute the least and greatest number that Arrow stores for a time of day, or a date of the years 1 to 9999."""
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


def _drop_nulls(value: Any) -> Any:
    """Return the value without the nulls of its structs, with maps as dicts, and with 0.0 for -0.0."""
    if isinstance(value, float):
        return drop_zero_sign(value)
    if isinstance(value, dict):
        return {name: _drop_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        # Arrow gives a map as pairs, whose keys may be of any type and occur again.
        if value and all(type(item) is tuple for item in value):
            names = {name for name, _ in value if isinstance(name, str)}
            as_dict = dict(value) if len(names) == len(value) else None
            value = as_dict or [{"key": key, "value": item} for key, item in value]
            return _drop_nulls(value)
        return [_drop_nulls(item) for item in value]
    return value
