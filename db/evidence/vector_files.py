"""Vectors in Parquet files: written a batch at a time, found by the file and place that a row of the database names.

A file is announced in table `vector_file`, written under another name, renamed, and confirmed together with the rows
that point into it. So a file is complete or absent, and a crash leaves one that nothing points to.
"""

from __future__ import annotations

import io
import os
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from uuid import uuid4

import numpy as np
import psycopg
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection, Engine

from db.schema import frame_set, text_embedding, vector_file

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Columns = Mapping[str, NDArray[Any]]
"""Columns of a file: `vector` (n, dim) with `text_sha256`; or with `video_id`, `frame_index` and `time_s`."""

FileKind = Literal["text", "frame"]
FOLDER_OPTION = "vector_folder"
# Bytes of vectors that are read at once, and of those that were read last, which batches of one shard share.
_GROUP_BYTES, _CACHE_BYTES = 1 << 20, 256 << 20
# Half precision is exact to 2^-11 of a number; a vector that loses more has numbers out of its range.
_HALF_ERROR = 1e-3


class VectorFilesUnusable(RuntimeError):
    """Raised for a file of vectors that cannot be read or written. The message names it, its folder and the setting."""

    plain = True


@dataclass(frozen=True, slots=True)
class VectorFolder:
    """The folder of the files of vectors. place: an absolute path, or an s3:// or gs:// address. is_written: whether
    new vectors are written there; if not, they go into the tables, and files written before are still read.
    """

    place: str
    is_written: bool

    def write(self, name: str, table: pa.Table, rows_per_group: int) -> int:
        """Write a file, complete or not at all, and return its size in bytes. Raises VectorFilesUnusable."""
        try:
            return self._write(name, table, rows_per_group)
        except Exception as error:
            if not isinstance(error, OSError) and "://" not in self.place:
                raise
            # A client of a store has errors of many classes.
            raise VectorFilesUnusable(
                f"no vectors can be written to {self.place} ({_name_reason(error)}): make room or permission there, or "
                "name another folder in REELSIEVE_VECTORS_FOLDER"
            ) from None

    def _write(self, name: str, table: pa.Table, rows_per_group: int) -> int:
        # Here and below imported late: most commands read no vector.
        import pyarrow.parquet as pq

        options = {"row_group_size": rows_per_group, "compression": "none", "write_statistics": False}
        if "://" in self.place:
            buffer = io.BytesIO()
            pq.write_table(table, buffer, use_dictionary=False, **options)
            system, key = self._open_store(name)
            system.pipe_file(key, buffer.getvalue())
            return buffer.tell()
        path = Path(self.place, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            pq.write_table(table, file, use_dictionary=False, **options)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        return path.stat().st_size

    def open(self, name: str) -> pq.ParquetFile:
        """Open a file for reading. Raises VectorFilesUnusable."""
        import pyarrow.parquet as pq

        try:
            if "://" not in self.place:
                return pq.ParquetFile(Path(self.place, name), memory_map=True)
            system, path = self._open_store(name)
            return pq.ParquetFile(system.open(path, "rb", cache_type="none"), pre_buffer=True)
        except Exception as error:
            # Arrow's and the stores' clients have errors of many classes.
            raise VectorFilesUnusable(
                f"vectors are in file {name} of {self.place}, which cannot be read "
                f"({_name_reason(error)}): put it back, or name its folder in "
                "REELSIEVE_VECTORS_FOLDER"
            ) from None

    def delete(self, name: str) -> None:
        """Delete a file, if it is there, and what an interrupted write left of it."""
        if "://" in self.place:
            system, key = self._open_store(name)
            if system.exists(key):
                system.rm_file(key)
            return
        path = Path(self.place, name)
        path.unlink(missing_ok=True)
        path.with_suffix(".part").unlink(missing_ok=True)

    def _open_store(self, name: str) -> tuple[Any, str]:
        import fsspec

        system, root = fsspec.core.url_to_fs(self.place)
        return system, f"{root.rstrip('/')}/{name}"


class WrittenFile(NamedTuple):
    """A file that was written, and nothing points to yet: its id in table `vector_file`, and its size."""

    file_id: int
    n_rows: int
    n_bytes: int
    dim: int


def _name_reason(error: Exception) -> str:
    return " ".join(str(getattr(error, "strerror", None) or error).split())[:200]


def find_folder(database: Engine | Connection) -> VectorFolder | None:
    """Return the folder of the files of vectors that an engine was opened with; None for an engine without one."""
    return database.get_execution_options().get(FOLDER_OPTION)


def writes_files(engine: Engine) -> bool:
    """Whether new vectors go into files."""
    folder = find_folder(engine)
    return folder is not None and folder.is_written


def write_vectors(engine: Engine, model_id: int, kind: FileKind, columns: Columns) -> WrittenFile:
    """Write vectors into a new file, in half precision where that keeps them, else in single precision. The caller
    confirms the file in the transaction that stores what points to it.
    """
    folder = _require_folder(engine)
    name = f"{kind}/{model_id}/{uuid4().hex}.parquet"
    with engine.begin() as connection:
        announced = sa.insert(vector_file).values(model_id=model_id, name=name, kind=kind)
        file_id = connection.execute(announced.returning(vector_file.c.file_id)).scalar_one()
    vectors = _shorten(columns["vector"])
    table = _build_table({**columns, "vector": vectors})
    n_bytes = folder.write(name, table, max(1, _GROUP_BYTES // max(1, vectors.itemsize * vectors.shape[1])))
    return WrittenFile(file_id, len(vectors), n_bytes, vectors.shape[1])


def confirm_file(connection: psycopg.Connection[Any], file: WrittenFile) -> None:
    """Note that a file is complete, in the transaction that stores the rows that point to it."""
    connection.execute(
        "UPDATE vector_file SET n_rows = %s, n_bytes = %s, dim = %s WHERE file_id = %s",
        [file.n_rows, file.n_bytes, file.dim, file.file_id],
    )


def read_places(
    database: Engine | Connection,
    file_ids: Sequence[int] | NDArray[np.int64],
    places: Sequence[int] | NDArray[np.int64],
) -> Iterator[tuple[NDArray[np.intp], Columns]]:
    """Read rows of files, named by file and place in it, a file at a time. Yields the positions of its rows among those
    asked for, and their columns with vectors in float32. Raises VectorFilesUnusable.
    """
    if not len(file_ids):
        return
    folder, names = _require_folder(database), _load_names(database, np.unique(file_ids).tolist())
    files, rows = np.asarray(file_ids, np.int64), np.asarray(places, np.int64)
    order = np.argsort(files, kind="stable")
    for positions in np.split(order, np.flatnonzero(np.diff(files[order])) + 1):
        columns = _read_rows(folder, names[int(files[positions[0]])], rows[positions])
        yield positions, {**columns, "vector": columns["vector"].astype(np.float32)}


def has_files(connection: Connection, model_id: int | None, kind: FileKind) -> bool:
    """Whether any vector of this sort and model is in a file."""
    return bool(connection.scalar(sa.select(sa.exists().where(*_match_files(model_id, kind)))))


def scan_files(connection: Connection, model_id: int, kind: FileKind) -> Iterator[tuple[int, Columns]]:
    """Yield the id of every file of a sort and model with its columns, some thousand rows at a time."""
    query = sa.select(vector_file.c.file_id, vector_file.c.name).where(*_match_files(model_id, kind))
    for file_id, name in connection.execute(query.order_by(vector_file.c.file_id)).all():
        with _require_folder(connection).open(name) as file:
            for group in range(file.num_row_groups):
                yield file_id, _decode(file.read_row_group(group))


def _match_files(model_id: int | None, kind: FileKind) -> Sequence[sa.ColumnElement[bool]]:
    """Return the SQL conditions of a complete file of this sort and model."""
    return vector_file.c.model_id == model_id, vector_file.c.kind == kind, vector_file.c.n_rows.is_not(None)


def delete_unused_files(engine: Engine) -> int:
    """Delete the files that no row points to, with their rows in table `vector_file`, and return their number. A file
    that is being written stays for a day.
    """
    with engine.connect() as connection:
        unused = connection.execute(sa.select(vector_file.c.file_id, vector_file.c.name).where(is_unused())).all()
    for file_id, name in unused:
        _require_folder(engine).delete(name)
        with engine.begin() as connection:
            connection.execute(sa.delete(vector_file).where(vector_file.c.file_id == file_id, is_unused()))
    return len(unused)


def is_unused() -> sa.ColumnElement[bool]:
    """Return the SQL condition that no row points into a file, and that nobody is writing it."""
    is_written = sa.or_(
        vector_file.c.n_rows.is_not(None), vector_file.c.written_at < sa.func.now() - sa.text("interval '1 day'")
    )
    pointing = [sa.exists().where(table.c.file_id == vector_file.c.file_id) for table in (text_embedding, frame_set)]
    return sa.and_(is_written, *[~points for points in pointing])


class _GroupCache:
    """The groups of rows that were read last, by folder, file and number; threads may share it. group_sizes: rows of a
    group, by folder and file.
    """

    def __init__(self) -> None:
        self.group_sizes: dict[tuple[VectorFolder, str], int] = {}
        self._groups: OrderedDict[tuple[VectorFolder, str, int], Columns] = OrderedDict()
        self._size, self._lock = 0, Lock()

    def find(self, key: tuple[VectorFolder, str, int]) -> Columns | None:
        with self._lock:
            if key in self._groups:
                self._groups.move_to_end(key)
            return self._groups.get(key)

    def add(self, key: tuple[VectorFolder, str, int], columns: Columns) -> None:
        with self._lock:
            if key not in self._groups:
                self._groups[key] = columns
                self._size += columns["vector"].nbytes
            while self._size > _CACHE_BYTES:
                self._size -= self._groups.popitem(last=False)[1]["vector"].nbytes


_CACHE = _GroupCache()


def _read_rows(folder: VectorFolder, name: str, rows: NDArray[np.int64]) -> Columns:
    """Read rows of a file, in the order given, and only the groups of rows that hold them."""
    file: pq.ParquetFile | None = None
    if (folder, name) not in _CACHE.group_sizes:
        file = folder.open(name)
        _CACHE.group_sizes[folder, name] = file.metadata.row_group(0).num_rows
    size = _CACHE.group_sizes[folder, name]
    numbers = np.unique(rows // size)
    groups = list[Columns]()
    for number in numbers.tolist():
        group = _CACHE.find((folder, name, number))
        if group is None:
            file = file or folder.open(name)
            group = _decode(file.read_row_group(number))
            _CACHE.add((folder, name, number), group)
        groups.append(group)
    # Every group but the last of a file has as many rows.
    places = np.searchsorted(numbers, rows // size) * size + rows % size
    return {column: np.concatenate([group[column] for group in groups])[places] for column in groups[0]}


def _load_names(database: Engine | Connection, file_ids: Collection[int]) -> dict[int, str]:
    query = sa.select(vector_file.c.file_id, vector_file.c.name).where(vector_file.c.file_id.in_(list(file_ids)))
    if isinstance(database, Connection):
        return {row.file_id: row.name for row in database.execute(query)}
    with database.connect() as connection:
        return _load_names(connection, file_ids)


def _require_folder(database: Engine | Connection) -> VectorFolder:
    folder = find_folder(database)
    if folder is None:
        raise VectorFilesUnusable("vectors are in files, and nobody named their folder here: use the command line")
    return folder


def _shorten(vectors: NDArray[np.float32]) -> NDArray[Any]:
    """Return the vectors in half precision unless one moves by more than a thousandth of its length."""
    with np.errstate(over="ignore", invalid="ignore"):
        half = vectors.astype(np.float16)
        moved = np.linalg.norm(half - vectors.astype(np.float64), axis=1)
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    return half if np.isfinite(half).all() and (moved <= _HALF_ERROR * lengths).all() else vectors


def _build_table(columns: Columns) -> pa.Table:
    import pyarrow as pa

    fields, arrays = [], []
    for name, values in columns.items():
        if values.dtype.kind != "V" and values.ndim == 1:
            arrays.append(pa.array(values))
        else:
            packed = np.ascontiguousarray(values)
            width = packed.nbytes // max(1, len(packed))
            buffers = [None, pa.py_buffer(packed.tobytes())]
            arrays.append(pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(packed), buffers))
        note = {"numbers": values.dtype.name} if name == "vector" else None
        fields.append(pa.field(name, arrays[-1].type, nullable=False, metadata=note))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _decode(table: pa.Table) -> dict[str, NDArray[Any]]:
    """Return the columns of a table as arrays, with vectors in the precision of the file."""
    import pyarrow as pa

    columns: dict[str, NDArray[Any]] = {}
    for field in table.schema:
        values = table.column(field.name).combine_chunks()
        if not pa.types.is_fixed_size_binary(field.type):
            columns[field.name] = values.to_numpy()
            continue
        width = field.type.byte_width
        data = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * width :][: len(values) * width]
        if field.name == "vector":
            numbers = np.dtype(field.metadata[b"numbers"].decode())
            columns[field.name] = data.view(numbers).reshape(len(values), width // numbers.itemsize)
        else:
            columns[field.name] = data.view(f"V{width}")
    return columns
