"""Ingest: a manifest folder into the database. Its rows are read, validated, resolved and written."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Engine

from assets.datasets import find_and_watch, watch
from assets.ingest.files import is_version, require_version
from assets.ingest.known_tables import KnownTables
from assets.ingest.manifest import Manifest, find_manifest
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.report import IngestCounts, IngestReport
from assets.ingest.table_content import TableContent, read_content
from assets.ingest.workers import validate_rows
from assets.ingest.write import Progress, RowWriter
from db.manifest.datasets import Dataset, ensure_dataset
from db.manifest.store import IngestStore, ingest_store, trial_store

SAMPLES_PER_SHARD = 4000
MAX_SHARDS = 10_000
# The tables whose rows are samples.
_SAMPLE_KINDS = ("caption", "qa")


def ingest_folder(
    engine: Engine,
    folder: Path,
    name: str,
    *,
    mixed_rows: Path | None = None,
    n_shards: int | None = None,
    progress: Progress | None = None,
    n_workers: int | None = None,
) -> IngestReport:
    """Ingest a manifest folder into dataset `name`, then the file of mixed rows if there is one.

    Ingesting an unchanged folder again changes nothing. A changed row is updated, which makes its own scores stale. A
    refused row goes to ingest_reject, and the rows after it are ingested all the same. `n_shards` counts only for a new
    dataset; its default is one shard per 4,000 samples. `n_workers` processes check rows of JSON Lines; by default none
    for a small file, and as many as help and cores allow for a large one.

    Raises ManifestError if the folder or the file of mixed rows cannot be read as a whole, or if a table changes while
    it is read; WorkerKilled if a process that checks rows is killed. The batches that were written before stay.
    """
    manifest = find_manifest(folder, mixed_rows)
    dataset, contents = _open_dataset(engine, name, n_shards, manifest)
    with ingest_store(engine, dataset) as store, _existing_objects_frozen():
        return _Ingest(manifest, store, contents, progress, n_workers).run()


def try_folder(
    engine: Engine, folder: Path, name: str, *, mixed_rows: Path | None = None, progress: Progress | None = None
) -> tuple[IngestReport, list[dict[str, Any]]]:
    """What `ingest_folder` would report, and the rows that it would refuse. Leaves nothing in the database.

    The same code runs in one transaction that is undone, so the answer is that of the ingest. Raises the same errors.
    """
    manifest = find_manifest(folder, mixed_rows)
    # One that the trial makes is nobody else's to drop.
    find_and_watch(engine, name)
    contents = _count_samples(manifest)
    with trial_store(engine, name, _default_shards(contents)) as store, _existing_objects_frozen():
        return _Ingest(manifest, store, contents, progress).run(), store.rejects(manifest.sources)


@dataclass(frozen=True, slots=True)
class _Ingest:
    """One ingest of a manifest. contents: those of its tables that were read already, by kind."""

    manifest: Manifest
    store: IngestStore
    contents: Mapping[str, TableContent]
    progress: Progress | None = None
    n_workers: int | None = None

    def run(self) -> IngestReport:
        """Ingest the tables in order, then the mixed rows, and return the counts."""
        counts = IngestCounts()
        writer = RowWriter(self.store, self.manifest.folder, counts, self.progress)
        if self.manifest.mixed_rows is None:
            self._ingest_tables(writer, counts)
        else:
            self._ingest_all(writer, self.manifest.mixed_rows)
        return counts.report(self.store.dataset.name)

    def _ingest_all(self, writer: RowWriter, mixed_rows: Path) -> None:
        """Ingest every table and the mixed rows, which are compared with those of the tables: none is passed over."""
        with self.store.transaction():
            self.store.forget_rejects(self.manifest.sources)
            self.store.replace_ingested_tables([])
        for kind, path in self.manifest.tables.items():
            self._ingest_file(writer, path, kind)
        self._ingest_file(writer, mixed_rows, None)

    def _ingest_tables(self, writer: RowWriter, counts: IngestCounts) -> None:
        """Ingest the tables. Those that the dataset holds unchanged are passed over and counted."""
        known_tables = KnownTables(self.store, self.manifest.folder, self.manifest.dimensions)
        for kind, path in self.manifest.tables.items():
            name, rejected = MANIFEST_TABLES[kind].name, counts.rejected
            content = self._read_content(path, kind)
            known = known_tables.find(kind, path.name, content.sha256)
            if known is not None:
                counts.unchanged[name] += known.n_rows
                counts.rejected += known.n_rejected
            else:
                with self.store.transaction():
                    self.store.forget_rejects([path.name])
                self._ingest_file(writer, path, kind)
            # The digest is that of the rows only if the file has not changed before its last row was read.
            require_version(path, content.version)
            known_tables.add(kind, counts.accepted[name] + counts.unchanged[name], counts.rejected - rejected)
        known_tables.keep()

    def _read_content(self, path: Path, kind: str) -> TableContent:
        """Return the content of a table, which is read again if the file has changed since it was read first."""
        content = self.contents.get(kind)
        return content if content is not None and is_version(path, content.version) else read_content(path, kind)

    def _ingest_file(self, writer: RowWriter, path: Path, kind: str | None) -> None:
        """Ingest one file; without a kind, it has mixed rows."""
        with closing(validate_rows(path, kind, self.manifest.dimensions, self.n_workers)) as rows:
            writer.write(rows)


def _open_dataset(
    engine: Engine, name: str, n_shards: int | None, manifest: Manifest
) -> tuple[Dataset, Mapping[str, TableContent]]:
    """Return the dataset of this name, and the contents of the tables that were read for it.

    A new one is divided into shards, whose number never changes. Only then are rows counted.
    """
    if (existing := find_and_watch(engine, name)) is not None:
        return existing, {}
    contents = {} if n_shards else _count_samples(manifest)
    with engine.begin() as connection:
        dataset = ensure_dataset(connection, name, n_shards or _default_shards(contents))
    watch(engine, dataset)
    return dataset, contents


def _count_samples(manifest: Manifest) -> dict[str, TableContent]:
    """Return the contents of the tables of samples, by kind, with the numbers of their rows."""
    tables = manifest.tables
    return {kind: read_content(tables[kind], kind, counts_rows=True) for kind in _SAMPLE_KINDS if kind in tables}


def _default_shards(contents: Mapping[str, TableContent]) -> int:
    """Return the number of shards of a new dataset with so many samples."""
    n_rows = sum(content.n_rows or 0 for content in contents.values())
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
