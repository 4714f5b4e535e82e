"""Ingest of a manifest folder into the database: rows are read, validated, resolved and written."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Engine

from assets.datasets.lookup import find_and_watch_dataset, watch_dataset
from assets.ingest.declarations import SCALES_FILE
from assets.ingest.encodings import UTF_8
from assets.ingest.known_tables import KnownTables
from assets.ingest.manifest import Manifest, read_manifest_folder
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.readers import NO_COLUMNS, TableContent, count_table_rows, read_table
from assets.ingest.rejects import ManifestError
from assets.ingest.report import IngestReport
from assets.ingest.scales import Scale, parse_scale
from assets.ingest.share import share_videos
from assets.ingest.validate import check_row
from assets.ingest.write import Progress, RowWriter
from db.manifest.datasets import Dataset, find_or_create_dataset
from db.manifest.store import IngestStore, open_ingest_store, open_trial_store

SAMPLES_PER_SHARD = 4000
_MAX_SHARDS = 10_000
# Rows refer to nothing that refers to them, so that there is little to collect.
_OBJECTS_PER_COLLECTION = 50_000
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
    columns: Mapping[str, str] = NO_COLUMNS,
    n_workers: int | None = None,
) -> IngestReport:
    """Ingest a manifest folder into the dataset `name`, then the file of mixed rows if there is one, and return the
    counts. A missing dataset is created. Refused rows go to table ingest_reject, and a changed row is updated, which
    makes its own scores stale. `progress` is called after every batch with file name and number of rows.

    Ingesting an unchanged folder again changes nothing. `n_shards` counts only for a new dataset; its default is one
    shard per 4,000 samples. columns: by field, the name of its column in the tables. n_workers: the number of processes
    that first read new videos, together with every other ingest of the dataset that has it; None reads them as the
    other rows.

    Raises ManifestError if the folder or the file of mixed rows cannot be read as a whole, or if a table changes while
    it is read; the batches that were written before stay.
    """
    manifest = read_manifest_folder(folder, mixed_rows, columns)
    dataset = _open_dataset(engine, name, n_shards, manifest)
    with ExitStack() as stack:
        shared = (
            stack.enter_context(share_videos(engine, dataset, manifest, n_workers, progress)) if n_workers else None
        )
        with open_ingest_store(engine, dataset) as store, _freeze_existing_objects():
            # Nobody reads a share any more.
            stack.close()
            report = _Ingest(manifest, store, _declare_scales(store, manifest.scales), progress).run()
    if shared is not None:
        report.count_shared(shared.n_stored, shared.notes)
    return report


def try_ingest(
    engine: Engine,
    folder: Path,
    name: str,
    *,
    mixed_rows: Path | None = None,
    progress: Progress | None = None,
    columns: Mapping[str, str] = NO_COLUMNS,
) -> tuple[IngestReport, list[dict[str, Any]]]:
    """Return the report that `ingest_folder` would give, and the rows that it would refuse as dicts. The same code runs
    in one transaction that is undone, so the database stays as it is. Raises the same errors.
    """
    manifest = read_manifest_folder(folder, mixed_rows, columns)
    # Nobody else can drop a dataset that the trial creates.
    find_and_watch_dataset(engine, name)
    with open_trial_store(engine, name) as store, _freeze_existing_objects():
        report = _Ingest(manifest, store, _declare_scales(store, manifest.scales), progress).run()
        return report, store.list_rejects(manifest.file_names)


@dataclass(frozen=True, slots=True)
class _Ingest:
    """One ingest of a manifest. scales: of ratings, by aspect."""

    manifest: Manifest
    store: IngestStore
    scales: Mapping[str, Scale]
    progress: Progress | None = None

    def run(self) -> IngestReport:
        """Ingest the tables in order, then the mixed rows, and return the counts."""
        report = IngestReport(self.store.dataset.name)
        writer = RowWriter(self.store, self.manifest.folder, report, self.progress)
        if self.manifest.mixed_rows is None:
            self._ingest_tables(writer, report)
        else:
            self._ingest_all(writer, report, self.manifest.mixed_rows)
        return report

    def _ingest_all(self, writer: RowWriter, report: IngestReport, mixed_rows: Path) -> None:
        """Ingest every table and then the mixed rows; no table is skipped, since mixed rows are compared with their
        rows.
        """
        with self.store.open_transaction():
            self.store.delete_rejects(self.manifest.file_names)
            self.store.replace_ingested_tables([])
        for kind, path in self.manifest.tables.items():
            self._ingest_file(writer, report, path, kind)
        self._ingest_file(writer, report, mixed_rows, None)

    def _ingest_tables(self, writer: RowWriter, report: IngestReport) -> None:
        """Ingest the tables. Those that the dataset holds unchanged are skipped and counted."""
        known_tables = KnownTables(self.store, self.manifest)
        # The columns of CSV tables. Those of an unchanged table are not read: they fitted the last time.
        columns, has_read_all = set[str](), True
        for kind, path in self.manifest.tables.items():
            name, rejected = MANIFEST_TABLES[kind].name, report.rejected
            if (unchanged := known_tables.find_unchanged(kind, path)) is not None:
                report.unchanged[name] += unchanged.n_rows
                report.rejected += unchanged.n_rejected
                has_read_all = False
                continue
            with self.store.open_transaction():
                self.store.delete_rejects([path.name])
            content = self._ingest_file(writer, report, path, kind)
            columns.update(content.columns)
            n_rows, n_rejected = report.accepted[name] + report.unchanged[name], report.rejected - rejected
            known_tables.record(kind, path.name, content.compute_sha256(), n_rows, n_rejected)
        known_tables.store_records()
        if has_read_all and all(path.suffix == ".csv" for path in self.manifest.tables.values()):
            report.notes += [
                f"warning: no table has the column {column!r} that --column names: check its name"
                for column in self.manifest.columns.values()
                if column not in columns
            ]

    def _ingest_file(self, writer: RowWriter, report: IngestReport, path: Path, kind: str | None) -> TableContent:
        """Ingest one file, and return its content as a whole; without a kind, it has mixed rows. Notes in the report
        if the file is not in UTF-8.
        """
        # In this process: a second one saved at most 13 % of the time, for a third more work and twice the memory.
        content = TableContent()
        rows = read_table(path, kind, self.manifest.columns, content)
        writer.write_rows((raw, check_row(raw, self.manifest, self.scales)) for raw in rows)
        if content.encoding != UTF_8:
            report.notes.append(f"{path.name} is not UTF-8, and is read as {content.encoding}")
        return content


def _open_dataset(engine: Engine, name: str, n_shards: int | None, manifest: Manifest) -> Dataset:
    """Return the dataset of this name. A new one is created and divided into shards, whose number never changes: the
    rows of its samples are counted first, unless `n_shards` says it.
    """
    if (existing := find_and_watch_dataset(engine, name)) is not None:
        return existing
    tables = manifest.tables
    if n_shards is None:
        n_rows = sum(count_table_rows(tables[kind], kind) for kind in _SAMPLE_KINDS if kind in tables)
        n_shards = min(max(1, math.ceil(n_rows / SAMPLES_PER_SHARD)), _MAX_SHARDS)
    with engine.begin() as connection:
        dataset = find_or_create_dataset(connection, name, n_shards)
    watch_dataset(engine, dataset)
    return dataset


def _declare_scales(store: IngestStore, declared: Mapping[str, Scale]) -> dict[str, Scale]:
    """Store the scales that a manifest declares, and return all scales of the dataset by aspect. Raises ManifestError
    for a scale that the stored ratings of its aspect do not have.
    """
    with store.open_transaction():
        stored = {aspect: scale for aspect, name in store.load_scales().items() if (scale := parse_scale(name))}
        for aspect, scale in declared.items():
            if stored.get(aspect) != scale and not store.store_scale(aspect, *scale):
                raise ManifestError(
                    f"{SCALES_FILE}: dataset {store.dataset.name} has ratings of {aspect!r} that are not on the scale "
                    f"{scale.name}: declare another aspect, or drop the dataset and ingest it again"
                )
    return {**stored, **declared}


@contextmanager
def _freeze_existing_objects() -> Iterator[None]:
    """Let the garbage collector pass over the objects that exist already, and look at new ones a batch at a time.

    A process that has loaded Dagster holds hundreds of thousands of objects. The collector would go through all of them
    in every fourth batch, which takes a quarter of the time of an ingest.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_OBJECTS_PER_COLLECTION, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
