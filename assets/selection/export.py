"""A frozen selection as a file: Parquet or JSON Lines, written whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Engine

from db.selection import SelectionError, find_selection, selection_rows

FORMATS = (".parquet", ".jsonl")


def export_selection(engine: Engine, selection_id: int, path: Path) -> Path:
    """Write the rows of a selection in order of rank; the suffix decides the format. Returns the absolute path.

    Raises SelectionError for an unknown selection, an unknown suffix or a folder that does not exist.
    """
    path = path.expanduser().resolve()
    if path.suffix not in FORMATS:
        raise SelectionError(
            f"{path.name}: cannot export to {path.suffix or 'a file without suffix'}: use .parquet or .jsonl"
        )
    if not path.parent.is_dir():
        raise SelectionError(f"{path.parent}: no such folder: make it first")
    with engine.connect() as connection:
        if find_selection(connection, selection_id) is None:
            raise SelectionError(f"there is no selection {selection_id}: make one with reelsieve select")
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        (_write_parquet if path.suffix == ".parquet" else _write_jsonl)(engine, selection_id, partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def _write_jsonl(engine: Engine, selection_id: int, path: Path) -> None:
    with path.open("w", encoding="utf-8") as stream:
        for rows in selection_rows(engine, selection_id):
            stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _write_parquet(engine: Engine, selection_id: int, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: Any = None
    try:
        for rows in selection_rows(engine, selection_id):
            if writer is None:
                schema = pa.schema([(name, _arrow_type(name, rows[0], pa)) for name in rows[0]])
                writer = pq.ParquetWriter(path, schema)
            writer.write_table(pa.Table.from_pylist(rows, schema=writer.schema))
    finally:
        if writer is not None:
            writer.close()


def _arrow_type(name: str, row: dict[str, Any], pa: Any) -> Any:
    texts = {"dataset", "sample", "video", "kind", "system", "text", "question", "answer", "uri", "content_sha256"}
    if name == "rank":
        return pa.int64()
    return pa.string() if name in texts or name.endswith("_models") else pa.float64()
