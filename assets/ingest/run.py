"""Ingest: a manifest folder into the database, row by row, in batches that are each one transaction."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Engine

from assets.ingest.dimensions import find_dimensions
from assets.ingest.readers import TABLES, find_tables, read_mixed, read_table
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.resolve import RESOLVERS, id_parts, row_key
from assets.ingest.resolved import TableRow
from assets.ingest.rows import RawRow, ValidRow, content_sha256, validate
from assets.ingest.shards import open_dataset
from db.manifest import IngestStore, ingest_store

BATCH_SIZE = 1000
# A file is probed inside its batch's transaction, which takes up to a minute where it makes trouble.
FILES_PER_BATCH = 64
Progress = Callable[[str, int], None]


@dataclass
class IngestReport:
    """What an ingest did, by table: rows new or changed, rows that were there already, rows refused."""

    dataset: str
    accepted: Counter[str] = field(default_factory=Counter)
    unchanged: Counter[str] = field(default_factory=Counter)
    rejected: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Plain data, every table named even where its count is 0."""
        return {
            "dataset": self.dataset,
            "accepted": {table: self.accepted[table] for table in TABLES.values()},
            "unchanged": {table: self.unchanged[table] for table in TABLES.values()},
            "rejected": self.rejected,
        }


def ingest_folder(
    engine: Engine,
    folder: Path,
    name: str,
    *,
    mixed_rows: Path | None = None,
    n_shards: int | None = None,
    progress: Progress | None = None,
) -> IngestReport:
    """Ingest a manifest folder, then the file of mixed rows where one is given.

    The same folder again changes nothing; a changed row updates and makes its own scores stale. A refused row goes to
    ingest_reject and never stops the rows after it. `n_shards` counts only for a new dataset; without it there is one
    shard per 4,000 samples. Raises ManifestError when the folder as a whole cannot be read.
    """
    tables, dimensions = find_tables(folder), find_dimensions(folder)
    sources = [path.name for path in tables.values()]
    if mixed_rows is not None:
        if mixed_rows.name in sources:
            raise ManifestError(
                f"{mixed_rows.name}: the folder has a table of this name: rename the file of mixed rows"
            )
        sources.append(mixed_rows.name)
    dataset = open_dataset(engine, name, n_shards, tables)
    report = IngestReport(dataset.name)
    with ingest_store(engine, dataset) as store, _older_objects_left_alone():
        with store.transaction():
            store.forget_rejects(sources)
        ingest = _Ingest(store, folder, dimensions, report, progress)
        for kind, path in tables.items():
            ingest.rows(read_table(path, kind))
        if mixed_rows is not None:
            ingest.rows(read_mixed(mixed_rows))
    return report


@dataclass(frozen=True, slots=True)
class _Ingest:
    store: IngestStore
    folder: Path
    dimensions: Collection[str]
    report: IngestReport
    progress: Progress | None

    def rows(self, rows: Iterable[RawRow]) -> None:
        """Ingest a stream of rows; in a batch of mixed rows what is pointed to goes in before what points to it."""
        done = 0
        for batch in _batches(rows):
            with self.store.transaction():
                for kind in dict.fromkeys((*TABLES, *(row.kind for row in batch))):
                    if of_kind := [row for row in batch if row.kind == kind]:
                        self._batch(kind, of_kind)
            done += len(batch)
            if self.progress:
                self.progress(batch[-1].source, done)

    def _batch(self, kind: str, rows: Sequence[RawRow]) -> None:
        rejects: list[tuple[RawRow, Reject]] = []
        valid: list[tuple[RawRow, ValidRow]] = []
        for row in rows:
            checked = validate(row, self.dimensions)
            if isinstance(checked, Reject):
                rejects.append((row, checked))
            else:
                valid.append((row, checked))
        if valid:
            fresh = self._without_repeats(kind, valid, rejects)
            self._write(kind, fresh, rejects)
        self.report.rejected += len(rejects)
        self.store.write_rejects(
            [(row.source, row.line, reject.code, reject.reason, row.raw) for row, reject in rejects]
        )

    def _without_repeats(
        self,
        kind: str,
        rows: Sequence[tuple[RawRow, ValidRow]],
        rejects: list[tuple[RawRow, Reject]],
    ) -> Iterator[dict[str, tuple[RawRow, ValidRow]]]:
        """The rows by id, in rounds without a repeated id; what an earlier row settles is counted or refused here."""
        waiting = list(rows)
        while waiting:
            seen = self.store.seen(kind, [row_key(kind, row) for _, row in waiting])
            this_round: dict[str, tuple[RawRow, ValidRow]] = {}
            later = []
            for raw, row in waiting:
                key = row_key(kind, row)
                if key in seen:
                    self._repeat(kind, raw, row, seen[key], rejects)
                elif key in this_round:
                    later.append((raw, row))
                else:
                    this_round[key] = (raw, row)
            yield this_round
            waiting = later

    def _repeat(
        self,
        kind: str,
        raw: RawRow,
        row: ValidRow,
        first: bytes,
        rejects: list[tuple[RawRow, Reject]],
    ) -> None:
        if content_sha256(row) == first:
            self.report.unchanged[TABLES[kind]] += 1
            return
        shown = " / ".join(id_parts(kind, row))
        reason = (
            f"id {shown!r} came before in this ingest with other content: the first row is kept; remove one of them"
        )
        rejects.append((raw, Reject("duplicate_conflict", reason)))

    def _write(
        self,
        kind: str,
        rounds: Iterable[Mapping[str, tuple[RawRow, ValidRow]]],
        rejects: list[tuple[RawRow, Reject]],
    ) -> None:
        for rows in rounds:
            resolved = RESOLVERS[kind](self.store, self.folder, [row for _, row in rows.values()])
            by_table: dict[str, list[dict[str, Any]]] = {}
            written: dict[str, bytes] = {}
            for (key, (raw, _)), answer in zip(rows.items(), resolved, strict=True):
                if isinstance(answer, TableRow):
                    by_table.setdefault(answer.table, []).append(answer.columns)
                    written[key] = answer.columns["row_sha256"]
                else:
                    rejects.append((raw, answer))
            for table, columns in by_table.items():
                counts = self.store.write(table, columns)
                self.report.accepted[TABLES[kind]] += counts.inserted + counts.updated
                self.report.unchanged[TABLES[kind]] += counts.unchanged
            self.store.mark_seen(kind, written)


@contextmanager
def _older_objects_left_alone() -> Iterator[None]:
    """Spare the garbage collector what was there before.

    A process that has loaded Dagster holds hundreds of thousands of objects, and every fourth batch would have them
    all looked through: a quarter of the time of an ingest.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _batches(rows: Iterable[RawRow]) -> Iterator[list[RawRow]]:
    """The rows in lists of at most BATCH_SIZE rows and FILES_PER_BATCH video files."""
    batch: list[RawRow] = []
    n_files = 0
    for row in rows:
        batch.append(row)
        n_files += row.kind == "video" and row.payload is not None and "path" in row.payload
        if len(batch) == BATCH_SIZE or n_files == FILES_PER_BATCH:
            yield batch
            batch, n_files = [], 0
    if batch:
        yield batch
