"""Ingest: a manifest folder into the database. The rows go in by assets/ingest/batches.py."""

from __future__ import annotations

import gc
import hashlib
import math
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Engine

from assets.datasets import find_and_watch, watch
from assets.ingest.batches import Progress, RowIngest
from assets.ingest.dimensions import find_dimensions
from assets.ingest.files import open_regular, readable, require_regular, unchanged
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.readers import count_rows, find_tables
from assets.ingest.rejects import ManifestError
from assets.ingest.report import IngestReport
from assets.media.address import is_address
from assets.media_file import FileState
from db.manifest.datasets import Dataset, ensure_dataset
from db.manifest.store import IngestedTable, IngestStore, ingest_store, trial_store

# Tables that the dataset holds unchanged: recognised by their content, they are passed over.

_RULES = Path(__file__).parent


class KnownTables:
    """The tables of one ingest, in order. A table is known if it, every table before it and every file are as before.

    A table's digest holds those of the tables before it, since its rows point to theirs; and the rules of ingest, since
    other rules may refuse other rows.
    """

    def __init__(self, store: IngestStore, folder: Path, dimensions: Collection[str]) -> None:
        self._store = store
        with store.transaction():
            self._stored = store.ingested_tables()
        self._digest = hashlib.sha256(repr((_rules_sha256(), str(folder.resolve()), sorted(dimensions))).encode())
        self._all_known = True
        self._tables: list[IngestedTable] = []

    def find(self, kind: str, path: Path) -> IngestedTable | None:
        """The table as it is stored, or None for one that has to be ingested. Call it for each table in order."""
        self._digest.update(repr((kind, path.name, content_sha256(path))).encode())
        stored = self._stored.get(kind)
        is_same = stored is not None and stored.content_sha256 == self._digest.digest()
        self._all_known = self._all_known and is_same and (kind != "video" or self._media_are_same(stored))
        return stored if self._all_known else None

    def add(self, kind: str, n_rows: int, n_rejected: int) -> None:
        """Note a table that is stored now, right after `find`."""
        self._tables.append(IngestedTable(kind, self._digest.digest(), n_rows, n_rejected))

    def keep(self) -> None:
        """Remember the noted tables for the next ingest."""
        with self._store.transaction():
            self._store.replace_ingested_tables(self._tables)

    def _media_are_same(self, stored: IngestedTable | None) -> bool:
        """Whether no video would be read again; a refused one, or one that did not decode, always would."""
        if stored is None or stored.n_rejected:
            return False
        with self._store.transaction():
            for video in self._store.media():
                # A store, or a root that may lead elsewhere now, is always asked.
                if is_address(video.uri):
                    return False
                try:
                    now = FileState.of(os.stat(video.uri))
                except OSError:
                    return False
                if video.status == "undecodable" or not now.agrees_with(FileState.stored(video)):
                    return False
        return True


def content_sha256(path: Path) -> bytes:
    """The SHA-256 (32 bytes) of a file. Raises ManifestError if it cannot be read."""
    digest = hashlib.sha256()
    with readable(path), open_regular(path) as file:
        while part := file.read(2**20):
            digest.update(part)
    return digest.digest()


def _rules_sha256() -> str:
    """A digest of the code that decides about rows."""
    digest = hashlib.sha256()
    for path in sorted(_RULES.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


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
    manifest = _Manifest.find(folder, mixed_rows)
    dataset = _open_dataset(engine, name, n_shards, manifest.tables)
    report = IngestReport(dataset.name)
    with ingest_store(engine, dataset) as store, _existing_objects_frozen():
        _ingest(manifest, RowIngest(store, folder, manifest.dimensions, report, progress, n_workers))
    return report


def try_folder(
    engine: Engine, folder: Path, name: str, *, mixed_rows: Path | None = None, progress: Progress | None = None
) -> tuple[IngestReport, list[dict[str, Any]]]:
    """What `ingest_folder` would report, and the rows that it would refuse. Leaves nothing in the database.

    The same code runs in one transaction that is undone, so the answer is that of the ingest. Raises the same errors.
    """
    manifest = _Manifest.find(folder, mixed_rows)
    report = IngestReport(name)
    # One that the trial makes is nobody else's to drop.
    find_and_watch(engine, name)
    with trial_store(engine, name, _default_shards(manifest.tables)) as store, _existing_objects_frozen():
        _ingest(manifest, RowIngest(store, folder, manifest.dimensions, report, progress))
        return report, store.rejects(manifest.sources)


@dataclass(frozen=True, slots=True)
class _Manifest:
    """The files of a manifest: its tables by kind, the file of mixed rows, and the dimensions of its keypoints."""

    tables: Mapping[str, Path]
    mixed_rows: Path | None
    dimensions: Collection[str]

    @classmethod
    def find(cls, folder: Path, mixed_rows: Path | None) -> _Manifest:
        tables, dimensions = find_tables(folder), find_dimensions(folder)
        if mixed_rows is not None:
            require_regular(mixed_rows)
            if mixed_rows.name in [path.name for path in tables.values()]:
                raise ManifestError(
                    f"{mixed_rows.name}: the folder has a table of this name: rename the file of mixed rows"
                )
        return cls(tables, mixed_rows, dimensions)

    @property
    def sources(self) -> list[str]:
        """The names of the files."""
        return [path.name for path in (*self.tables.values(), *filter(None, [self.mixed_rows]))]


def _ingest(manifest: _Manifest, row_ingest: RowIngest) -> None:
    if manifest.mixed_rows is None:
        _ingest_tables(row_ingest, manifest.tables)
        return
    # The mixed rows are compared with those of the tables, so none is passed over.
    with row_ingest.store.transaction():
        row_ingest.store.forget_rejects(manifest.sources)
        row_ingest.store.replace_ingested_tables([])
    for kind, path in manifest.tables.items():
        row_ingest.ingest_file(path, kind)
    row_ingest.ingest_file(manifest.mixed_rows, None)


def _ingest_tables(row_ingest: RowIngest, tables: Mapping[str, Path]) -> None:
    """Ingest the tables in order. Those that the dataset holds unchanged are passed over and counted."""
    store, report = row_ingest.store, row_ingest.report
    known_tables = KnownTables(store, row_ingest.folder, row_ingest.dimensions)
    for kind, path in tables.items():
        name, rejected = MANIFEST_TABLES[kind].name, report.rejected
        # The file must not change between the look at its content and its last row.
        with readable(path), unchanged(path):
            known = known_tables.find(kind, path)
            if known is not None:
                report.unchanged[name] += known.n_rows
                report.rejected += known.n_rejected
            else:
                with store.transaction():
                    store.forget_rejects([path.name])
                row_ingest.ingest_file(path, kind)
        known_tables.add(kind, report.accepted[name] + report.unchanged[name], report.rejected - rejected)
    known_tables.keep()


def _open_dataset(engine: Engine, name: str, n_shards: int | None, tables: Mapping[str, Path]) -> Dataset:
    """The dataset of this name; a new one is divided into shards, whose number never changes."""
    if (existing := find_and_watch(engine, name)) is not None:
        return existing
    # Counting reads the tables once more, so it is done for a new dataset only.
    n_new_shards = n_shards or _default_shards(tables)
    with engine.begin() as connection:
        dataset = ensure_dataset(connection, name, n_new_shards)
    watch(engine, dataset)
    return dataset


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
