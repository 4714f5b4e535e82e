"""Exports a frozen selection as a file, Parquet or JSON Lines. The file is written whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from sqlalchemy.engine import Engine

from assets.selection.partial_file import partial_file, remove_abandoned
from db.recipes import SelectionError
from db.selection import find_selection, frozen_types, selection_rows

FORMATS = (".parquet", ".jsonl")


def export_target(path: Path) -> Path:
    """Check that a selection can be written to this file, and return the absolute path. A regular file may exist there.

    Raises SelectionError for another suffix than .parquet and .jsonl, for a folder or a device, for a name that the
    file system refuses, and for a folder that is missing or not writable.
    """
    if path.suffix not in FORMATS:
        raise SelectionError(
            f"{path.name}: cannot export to {path.suffix or 'a file without suffix'}: use .parquet or .jsonl"
        )
    try:
        target = path.expanduser().resolve()
        if not target.parent.is_dir():
            raise SelectionError(f"{target.parent}: no such folder: make it first")
        if not os.access(target.parent, os.W_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        mode = target.stat().st_mode if target.exists() else stat.S_IFREG
    except (OSError, RuntimeError) as error:  # RuntimeError: the home folder of nobody
        raise _cannot_write(path, error) from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise SelectionError(f"{path}: cannot export to it, because it is {kind}: give the name of a file")
    return target


def export_selection(engine: Engine, selection_id: int, path: Path) -> Path:
    """Write the rows of a selection in order of rank, and return the absolute path. The suffix decides the format.

    Partial files of killed exports in the same folder are removed. Raises SelectionError for an unknown selection and
    for a path that cannot be written.
    """
    target = export_target(path)
    with engine.connect() as connection:
        if find_selection(connection, selection_id) is None:
            raise SelectionError(f"there is no selection {selection_id}: make one with reelsieve select")
    write = _write_parquet if path.suffix == ".parquet" else _write_jsonl
    try:
        remove_abandoned(target.parent)
        with partial_file(target) as file:
            write(engine, selection_id, file)
    except OSError as error:
        raise _cannot_write(path, error) from error
    return target


def _cannot_write(path: Path, error: OSError | RuntimeError) -> SelectionError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    shown = f"{str(path)[:80]}…" if len(str(path)) > 200 else path
    return SelectionError(f"{shown}: cannot be written ({reason}): mend that or give another file")


def _write_jsonl(engine: Engine, selection_id: int, file: BinaryIO) -> None:
    for rows in selection_rows(engine, selection_id):
        file.writelines((json.dumps(row, ensure_ascii=False) + "\n").encode() for row in rows)


def _write_parquet(engine: Engine, selection_id: int, file: BinaryIO) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: Any = None
    try:
        for rows in selection_rows(engine, selection_id):
            if writer is None:
                arrow = {int: pa.int64(), float: pa.float64(), str: pa.string()}
                types = frozen_types(rows[0].keys())
                writer = pq.ParquetWriter(file, pa.schema([(name, arrow[types[name]]) for name in rows[0]]))
            writer.write_table(pa.Table.from_pylist(rows, schema=writer.schema))
    finally:
        if writer is not None:
            writer.close()
