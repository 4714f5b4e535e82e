"""Valid rows into the database: resolved and written in batches that are each one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assets.ingest.manifest_tables import MANIFEST_TABLES, ManifestTable
from assets.ingest.reject_writer import RejectWriter
from assets.ingest.rejects import Reject
from assets.ingest.report import IngestReport
from assets.ingest.resolve import RESOLVERS, DatabaseRow
from assets.ingest.rows import CheckedRow, RawRow, ValidRow
from db.manifest.store import IngestStore

BATCH_SIZE = 4000
# Characters of the rows as ingest_reject would show them, at most 2,000 for each row.
_BATCH_CHARACTERS = 2_000_000
# A video file is probed inside its batch's transaction, which takes up to a minute for a damaged file.
FILES_PER_BATCH = 64
# Called after every batch with the name of the file and the number of its rows that were read so far.
Progress = Callable[[str, int], None]

_Accepted = tuple[RawRow, ValidRow]
_Refused = tuple[RawRow, Reject]


@dataclass(frozen=True, slots=True)
class RowWriter:
    """A writer of checked rows to the database, file by file, which counts them in `report`. `folder` is that of the
    manifest. `progress` is called after every batch with the file's name and its number of rows so far.
    """

    store: IngestStore
    folder: Path
    report: IngestReport
    progress: Progress | None = None

    def write_rows(self, rows: Iterable[CheckedRow]) -> None:
        """Write the rows of one file to the database, a transaction per batch, and refused rows to table ingest_reject;
        count both. A row whose id came before in this ingest is counted as unchanged, or refused. Raises the errors of
        `rows`; the batches that were written before stay.

        In a batch of mixed rows the kinds take turns in the order of the tables.
        """
        n_read = 0
        reject_writer = RejectWriter(self.store)
        for batch in _split_batches(rows):
            with self.store.open_transaction():
                for kind in dict.fromkeys((*MANIFEST_TABLES, *(raw.kind for raw, _ in batch))):
                    if rows_of_kind := [row for row in batch if row[0].kind == kind]:
                        self._write_batch(kind, rows_of_kind, reject_writer)
            n_read += len(batch)
            if self.progress:
                self.progress(batch[-1][0].source, n_read)
        with self.store.open_transaction():
            reject_writer.write_counts()

    def _write_batch(self, kind: str, rows: Sequence[CheckedRow], reject_writer: RejectWriter) -> None:
        refused: list[_Refused] = []
        accepted: list[_Accepted] = []
        for raw, row in rows:
            if isinstance(row, Reject):
                refused.append((raw, row))
            else:
                accepted.append((raw, row))
        # Rows of an unknown kind are all refused: there is no table for them.
        if accepted:
            table = MANIFEST_TABLES[kind]
            for rows_by_key in self._split_rounds(table, accepted, refused):
                self._write_round(table, rows_by_key, refused)
        self.report.rejected += len(refused)
        reject_writer.write_rows(refused)

    def _split_rounds(
        self, table: ManifestTable, rows: Sequence[_Accepted], refused: list[_Refused]
    ) -> Iterator[dict[str, _Accepted]]:
        """Yield the rows by key, in rounds that have every key once.

        A row whose key an earlier row of this ingest has is not written: it is counted as unchanged, or refused.
        """
        waiting = list(rows)
        while waiting:
            seen = self.store.load_seen_digests(table.kind, [table.build_row_key(row) for _, row in waiting])
            this_round: dict[str, _Accepted] = {}
            later = []
            for raw, row in waiting:
                key = table.build_row_key(row)
                if key in seen:
                    self._settle_repeat(table, raw, row, seen[key], refused)
                elif key in this_round:
                    later.append((raw, row))
                else:
                    this_round[key] = (raw, row)
            yield this_round
            waiting = later

    def _settle_repeat(
        self, table: ManifestTable, raw: RawRow, row: ValidRow, first_sha256: bytes, refused: list[_Refused]
    ) -> None:
        if row.content_sha256 == first_sha256:
            self.report.unchanged[table.name] += 1
            return
        row_id = " / ".join(table.list_id_values(row))
        reason = (
            f"id {row_id!r} was used earlier in this ingest with other content: the first row is kept; remove one of "
            "the two"
        )
        refused.append((raw, Reject("duplicate_conflict", reason)))

    def _write_round(self, table: ManifestTable, rows_by_key: Mapping[str, _Accepted], refused: list[_Refused]) -> None:
        resolved = RESOLVERS[table.kind](self.store, self.folder, [row for _, row in rows_by_key.values()])
        by_database_table: dict[str, dict[str, dict[str, Any]]] = {}
        for (key, (raw, _)), database_row in zip(rows_by_key.items(), resolved, strict=True):
            if isinstance(database_row, DatabaseRow):
                by_database_table.setdefault(database_row.table, {})[key] = database_row.columns
            else:
                refused.append((raw, database_row))
        for database_table, columns_by_key in by_database_table.items():
            written, reasons = self.store.store_rows(database_table, list(columns_by_key.values()))
            self.report.accepted[table.name] += written.inserted + written.updated
            self.report.unchanged[table.name] += written.unchanged
            stored: dict[str, bytes] = {}
            for position, (key, columns) in enumerate(columns_by_key.items()):
                if position in reasons:
                    reason = f"the database cannot store the row: {reasons[position]}"
                    refused.append((rows_by_key[key][0], Reject("database_refused", reason)))
                else:
                    stored[key] = columns["row_sha256"]
            self.store.mark_seen(table.kind, stored)


def _split_batches(rows: Iterable[CheckedRow]) -> Iterator[list[CheckedRow]]:
    """Yield the rows in lists of at most BATCH_SIZE rows, about _BATCH_CHARACTERS and FILES_PER_BATCH video files."""
    batch: list[CheckedRow] = []
    n_files = n_characters = 0
    for raw, row in rows:
        batch.append((raw, row))
        n_characters += len(raw.raw)
        n_files += raw.kind == "video" and raw.fields is not None and "path" in raw.fields
        if len(batch) == BATCH_SIZE or n_characters >= _BATCH_CHARACTERS or n_files == FILES_PER_BATCH:
            yield batch
            batch, n_files, n_characters = [], 0, 0
    if batch:
        yield batch
