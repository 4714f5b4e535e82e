"""Parquet files and the Arrow files of Hugging Face as rows; a column may hold the videos themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    """Yield for every row of a Parquet or Arrow file the cells of the columns of these names, after a first row with an
    empty MediaBytes for each column that holds files. Of those only the names in them are read. Raises ManifestError as
    `read_arrow_rows`.
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
            yield from map(_check_batch, table.iter_batches(batch_size=_ROWS, columns=columns))
        return
    with pa.memory_map(str(path)) as mapped:
        reader = _open_arrow_reader(mapped)
        streamed = isinstance(reader, pa.RecordBatchStreamReader)
        for batch in reader if streamed else map(reader.get_batch, range(reader.num_record_batches)):
            yield from (_check_batch(batch.slice(start, _ROWS)) for start in range(0, batch.num_rows, _ROWS))


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
        raise ManifestError(f"{path.name}: cannot be read: {error}: mend it, or move it away") from error
