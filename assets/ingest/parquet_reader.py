"""Parquet as rows of a manifest: null is an absent field, in columns and inside structs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from assets.ingest.csv_reader import WHOLE_NUMBERS
from assets.ingest.hygiene import RAW_LENGTH, shown, storable
from assets.ingest.rejects import ManifestError, Reject

BATCH_ROWS = 1024
# Stands for a text that is not valid UTF-8, which Parquet files can hold.
_BROKEN_TEXT = b"not valid UTF-8"
# JSON has no such types; their text loses nothing.
_WRITTEN_AS_TEXT = (pa.types.is_timestamp, pa.types.is_date, pa.types.is_time, pa.types.is_decimal)


def parquet_rows(path: Path, kind: str) -> Iterator[tuple[int, dict[str, Any] | Reject, str]]:
    """Row number from 1, fields or refusal, and storable beginning of every row. Raises ManifestError."""
    number = 0
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if len(set(names)) != len(names):
                raise ValueError("two columns have the same name: name every column once")
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                columns = [_values((kind, name), column) for name, column in zip(names, batch.columns, strict=True)]
                for values in zip(*columns, strict=True):
                    number += 1
                    pairs = zip(names, values, strict=True)
                    fields = {name: value for name, value in pairs if value is not None}
                    yield number, _checked(fields), _raw(fields)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise ManifestError(f"{path.name}: cannot be read as Parquet after row {number}: {error}") from error


def _raw(fields: dict[str, Any]) -> str:
    text = json.dumps(fields, ensure_ascii=False, default=str)
    return storable(text[:RAW_LENGTH].encode("utf-8", "replace"))


def _checked(fields: dict[str, Any]) -> dict[str, Any] | Reject:
    for name, value in fields.items():
        if value is _BROKEN_TEXT:
            return Reject("invalid_utf8", f"field {shown(name)} is not valid UTF-8: write it as UTF-8")
    return fields


def _values(field: tuple[str, str], column: pa.Array) -> list[Any]:
    """A column as Python values: whole numbers that pandas made floats are whole again, dates become text."""
    arrow_type = column.type
    if any(is_such(arrow_type) for is_such in _WRITTEN_AS_TEXT):
        column = column.cast(pa.string())
    try:
        values = column.to_pylist()
    except UnicodeDecodeError:
        values = [_value(scalar) for scalar in column]
    if field in WHOLE_NUMBERS and pa.types.is_floating(arrow_type):
        return [int(value) if value is not None and value.is_integer() else value for value in values]
    if pa.types.is_nested(arrow_type):
        return [_without_nulls(value) for value in values]
    return values


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return _BROKEN_TEXT


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
