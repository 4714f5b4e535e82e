"""Ingest: a manifest folder into the database. The rows go in by assets/ingest/batches.py."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import Engine

from assets.ingest.batches import Progress, RowIngest
from assets.ingest.dimensions import find_dimensions
from assets.ingest.files import require_regular
from assets.ingest.readers import count_rows, find_tables, read_mixed, read_table
from assets.ingest.rejects import ManifestError
from assets.ingest.report import IngestReport
from db.manifest import Dataset, ensure_dataset, find_dataset, ingest_store

SAMPLES_PER_SHARD = 4000
MAX_SHARDS = 10_000


def ingest_folder(
    engine: Engine,
    folder: Path,
    name: str,
    *,
    mixed_rows: Path | None = None,
    n_shards: int | None = None,
    progress: Progress | None = None,
) -> IngestReport:
    """Ingest a manifest folder into dataset `name`, then the file of mixed rows if there is one.

    Ingesting an unchanged folder again changes nothing. A changed row is updated, which makes its own scores stale. A
    refused row goes to ingest_reject, and the rows after it are ingested all the same. `n_shards` counts only for a new
    dataset; its default is one shard per 4,000 samples.

    Raises ManifestError if the folder or the file of mixed rows cannot be read as a whole, or if a table changes while
    it is read. The batches that were written before stay.
    """
    tables, dimensions = find_tables(folder), find_dimensions(folder)
    sources = [path.name for path in tables.values()]
    if mixed_rows is not None:
        require_regular(mixed_rows)
        if mixed_rows.name in sources:
            raise ManifestError(
                f"{mixed_rows.name}: the folder has a table of this name: rename the file of mixed rows"
            )
        sources.append(mixed_rows.name)
    dataset = _open_dataset(engine, name, n_shards, tables)
    report = IngestReport(dataset.name)
    with ingest_store(engine, dataset) as store, _existing_objects_frozen():
        with store.transaction():
            store.forget_rejects(sources)
        row_ingest = RowIngest(store, folder, dimensions, report, progress)
        for kind, path in tables.items():
            row_ingest.ingest_rows(read_table(path, kind))
        if mixed_rows is not None:
            row_ingest.ingest_rows(read_mixed(mixed_rows))
    return report


def _open_dataset(engine: Engine, name: str, n_shards: int | None, tables: Mapping[str, Path]) -> Dataset:
    """The dataset of this name; a new one is divided into shards, whose number never changes."""
    with engine.connect() as connection:
        existing = find_dataset(connection, name)
    if existing is not None:
        return existing
    # Counting reads the tables once more, so it is done for a new dataset only.
    n_new_shards = n_shards or _default_shards(tables)
    with engine.begin() as connection:
        return ensure_dataset(connection, name, n_new_shards)


def _default_shards(tables: Mapping[str, Path]) -> int:
    n_rows = sum(count_rows(tables[kind], kind) for kind in ("caption", "qa") if kind in tables)
    return min(max(1, math.ceil(n_rows / SAMPLES_PER_SHARD)), MAX_SHARDS)


@contextmanager
def _existing_objects_frozen() -> Iterator[None]:
    """Let the garbage collector pass over the objects that exist already.

    A process that has loaded Dagster holds hundreds of thousands of objects. The collector would go through all of them
    in every fourth batch, which takes a quarter of the time of an ingest.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
