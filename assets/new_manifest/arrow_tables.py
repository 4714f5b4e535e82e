"""Parquet files and the Arrow files of Hugging Face as rows; a column may hold the videos themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from assets.ingest.files import OpenFile
from assets.ingest.parquet_reader import convert_batch
from assets.ingest.rejects import ManifestError, Reject
from assets.new_manifest.extract import MediaBytes

# Rows with videos are large.
_ROWS = 16


def read_arrow_column_names(file: OpenFile, path: Path) -> list[str]:
    """Return the names of the columns of a Parquet or Arrow file, in order. `file` is the open file, and the suffix of
    its path names the format. Raises ManifestError if it cannot be read.
    """
    with _convert_read_errors(path):
        if path.suffix.lower() == ".parquet":
            return list(pq.read_schema(file.file).names)
        with pa.memory_map(str(path)) as mapped:
            return list(_open_arrow_reader(mapped).schema.names)


def read_arrow_rows(file: OpenFile, path: Path) -> Iterator[tuple[int, dict[str, Any] | Reject]]:
    """Yield for every row of a Parquet or Arrow file its number from 1, and its fields or a Reject. `file` is the open
    file, and the suffix of its path names the format. A cell that holds the bytes of a file is MediaBytes. Raises
    ManifestError if the file cannot be read.
    """
    number = 0
    with _convert_read_errors(path):
        for batch in _read_batches(file, path):
            # A damaged file may name places that it does not have, and reading there would end the process.
            batch.validate(full=True)
            media_columns = [
                name for name, column in zip(batch.schema.names, batch.columns, strict=True) if _is_media(column)
            ]
            media = {name: batch.column(name) for name in media_columns}
            for row, (content, _) in enumerate(convert_batch(batch.drop_columns(media_columns), {})):
                number += 1
                if not isinstance(content, Reject):
                    content |= {
                        name: value for name in media if (value := _convert_media(media[name][row].as_py())) is not None
                    }
                yield number, content


def _read_batches(file: OpenFile, path: Path) -> Iterator[pa.RecordBatch]:
    if path.suffix.lower() == ".parquet":
        with pq.ParquetFile(file.file) as table:
            yield from table.iter_batches(batch_size=_ROWS)
        return
    with pa.memory_map(str(path)) as mapped:
        reader = _open_arrow_reader(mapped)
        streamed = isinstance(reader, pa.RecordBatchStreamReader)
        for batch in reader if streamed else map(reader.get_batch, range(reader.num_record_batches)):
            yield from (batch.slice(start, _ROWS) for start in range(0, batch.num_rows, _ROWS))


def _open_arrow_reader(file: pa.NativeFile) -> Any:
    """Open a reader of an Arrow file: Hugging Face writes the stream format, others the file format."""
    try:
        return pa.ipc.open_stream(file)
    except pa.ArrowInvalid:
        return pa.ipc.open_file(file)


def _is_media(column: pa.Array) -> bool:
    """Return whether a column holds files: their bytes, or as Hugging Face does it a struct of `bytes` and `path`."""
    kind = column.type
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
        raise ManifestError(f"{path.name}: cannot be read: {error}: mend it, or move it away") from error
