"""Writes Parquet: row groups of some 20,000 rows, with the passport in the metadata of the schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

from assets.selection.export_input import Batch
from assets.selection.passport import PARQUET_KEY
from db.selection.exports import ExportColumn

ROWS_OF_A_GROUP, BYTES_OF_A_GROUP = 20_000, 64 << 20


def write_parquet(
    file: BinaryIO, columns: Sequence[ExportColumn], passport: Mapping[str, Any], batches: Iterable[Batch]
) -> None:
    """Write rows to a binary file as Parquet, compressed by zstd, with the passport as JSON in the metadata of its
    schema. Columns of kind integer are int64, number double, boolean bool, and texts lists of strings; all others, also
    JSON, are strings.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {
        "integer": pa.int64(),
        "number": pa.float64(),
        "boolean": pa.bool_(),
        "texts": pa.list_(pa.string()),
    }
    fields = [pa.field(column.name, types.get(column.kind, pa.string())) for column in columns]
    schema = pa.schema(fields, {PARQUET_KEY: json.dumps(passport, ensure_ascii=False)})
    writer = pq.ParquetWriter(file, schema, compression="zstd")
    group: list[Any] = []
    try:
        for batch in batches:
            arrays = [
                pa.array(values, field.type) for values, field in zip(zip(*batch, strict=True), schema, strict=True)
            ]
            group.append(pa.Table.from_arrays(arrays, schema=schema))
            n_rows, n_bytes = sum(len(part) for part in group), sum(part.nbytes for part in group)
            if n_rows >= ROWS_OF_A_GROUP or n_bytes >= BYTES_OF_A_GROUP:
                writer.write_table(pa.concat_tables(group), ROWS_OF_A_GROUP)
                group = []
        if group:
            writer.write_table(pa.concat_tables(group), ROWS_OF_A_GROUP)
    finally:
        writer.close()
