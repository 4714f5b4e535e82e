"""The rows of a file into the database: checked, resolved and written in batches that are each one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assets.ingest.checking import checked_rows
from assets.ingest.manifest_tables import MANIFEST_TABLES, ManifestTable
from assets.ingest.rejects import Reject
from assets.ingest.report import IngestReport, RejectWriter
from assets.ingest.resolve import Resolved, TableRow, no_such, resolve_captions, resolve_qa, resolve_videos
from assets.ingest.rows import Checked, KeypointLabelRow, KeypointRow, RatingRow, RawRow, ValidRow
from db.evidence.verdicts import MANIFEST_LABELS
from db.manifest.store import IngestStore

# From valid manifest rows to database rows: keypoints, their labels, and ratings. See assets/ingest/resolve.py.


def resolve_keypoints(store: IngestStore, _folder: Path, rows: Sequence[KeypointRow]) -> list[Resolved]:
    """Rows of table `keypoint`. Some reference of the video must have a segment of the keypoint's segment index."""
    videos = store.videos([row.video_id for row in rows])
    segment_counts = store.segment_counts([video.video_id for video in videos.values()])
    resolved: list[Resolved] = []
    for row in rows:
        video = videos.get(row.video_id)
        if video is None:
            resolved.append(no_such("video", "video_id", row.video_id))
        elif row.segment_index is not None and row.segment_index >= (n := segment_counts.get(video.video_id, 0)):
            reason = (
                f"field 'segment_index' is {row.segment_index}: the references of video {row.video_id!r} have at "
                f"most {n} segments, counted from 0"
            )
            resolved.append(Reject("segment_index_out_of_range", reason))
        else:
            columns = {
                "dataset_id": store.dataset.dataset_id,
                "video_id": video.video_id,
                "key": row.keypoint_id,
                "dimension": row.dimension,
                "text": row.text,
                "segment_index": row.segment_index,
                "extra": row.extra or None,
                "row_sha256": row.content_sha256,
            }
            resolved.append(TableRow("keypoint", columns))
    return resolved


def resolve_keypoint_labels(store: IngestStore, _folder: Path, rows: Sequence[KeypointLabelRow]) -> list[Resolved]:
    """Rows of table `keypoint_label`. Keypoint and caption must belong to the same video."""
    keypoints = store.keypoints([row.keypoint_id for row in rows])
    samples = store.samples("caption", [row.caption_id for row in rows])
    resolved: list[Resolved] = []
    for row in rows:
        keypoint, sample = keypoints.get(row.keypoint_id), samples.get(row.caption_id)
        if keypoint is None:
            resolved.append(no_such("keypoint", "keypoint_id", row.keypoint_id))
        elif sample is None:
            resolved.append(no_such("candidate caption", "caption_id", row.caption_id))
        elif keypoint.video_id != sample.video_id:
            reason = (
                f"keypoint {row.keypoint_id!r} and caption {row.caption_id!r} belong to different videos: "
                "label a keypoint with captions of its own video"
            )
            resolved.append(Reject("mismatched_video", reason))
        else:
            columns = {
                "keypoint_id": keypoint.keypoint_id,
                "sample_id": sample.sample_id,
                "source": MANIFEST_LABELS,
                "covered": row.covered,
                "extra": row.extra or None,
                "row_sha256": row.content_sha256,
            }
            resolved.append(TableRow("keypoint_label", columns))
    return resolved


def resolve_ratings(store: IngestStore, _folder: Path, rows: Sequence[RatingRow]) -> list[Resolved]:
    """Rows of table `rating`, for candidate captions only."""
    samples = store.samples("caption", [row.caption_id for row in rows])
    resolved: list[Resolved] = []
    for row in rows:
        sample = samples.get(row.caption_id)
        if sample is None:
            resolved.append(no_such("candidate caption", "caption_id", row.caption_id))
            continue
        columns = {
            "sample_id": sample.sample_id,
            "rater": row.rater,
            "aspect": row.aspect,
            "value": float(row.value),
            "extra": row.extra or None,
            "row_sha256": row.content_sha256,
        }
        resolved.append(TableRow("rating", columns))
    return resolved


BATCH_SIZE = 4000
# Of the rows as ingest_reject would show them, at most 2,000 of each.
BATCH_CHARACTERS = 2_000_000
# A video file is probed inside its batch's transaction, which takes up to a minute for a damaged file.
FILES_PER_BATCH = 64
# Called after every batch with the name of the file and the number of its rows that were read so far.
Progress = Callable[[str, int], None]
# By kind of row the function that makes database rows or refusals of valid rows, one for every row and in their order.
_RESOLVE: dict[str, Callable[[IngestStore, Path, Sequence[Any]], list[Resolved]]] = {
    "video": resolve_videos,
    "caption": resolve_captions,
    "keypoint": resolve_keypoints,
    "keypoint_label": resolve_keypoint_labels,
    "qa": resolve_qa,
    "rating": resolve_ratings,
}

_Accepted = tuple[RawRow, ValidRow]
_Refused = tuple[RawRow, Reject]


@dataclass(frozen=True, slots=True)
class RowIngest:
    """Ingests the rows of a manifest folder, file by file, and counts them in `report`.

    `dimensions` are the names that keypoints may use. `n_workers` is that of `checked_rows`.
    """

    store: IngestStore
    folder: Path
    dimensions: Collection[str]
    report: IngestReport
    progress: Progress | None = None
    n_workers: int | None = None

    def ingest_file(self, path: Path, kind: str | None) -> None:
        """Ingest one file; without a kind, it has mixed rows.

        Raises the errors of `checked_rows`. The batches that were written before stay.
        """
        with closing(checked_rows(path, kind, self.dimensions, self.n_workers)) as rows:
            self.ingest_rows(rows)

    def ingest_rows(self, rows: Iterable[Checked]) -> None:
        """Ingest the rows of one file. In a batch of mixed rows the kinds take turns in the order of the tables."""
        n_read = 0
        reject_writer = RejectWriter(self.store)
        for batch in _batches(rows):
            with self.store.transaction():
                for kind in dict.fromkeys((*MANIFEST_TABLES, *(raw.kind for raw, _ in batch))):
                    if rows_of_kind := [row for row in batch if row[0].kind == kind]:
                        self._ingest_batch(kind, rows_of_kind, reject_writer)
            n_read += len(batch)
            if self.progress:
                self.progress(batch[-1][0].source, n_read)
        with self.store.transaction():
            reject_writer.finish()

    def _ingest_batch(self, kind: str, rows: Sequence[Checked], reject_writer: RejectWriter) -> None:
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
            for rows_by_key in self._rounds(table, accepted, refused):
                self._write(table, rows_by_key, refused)
        self.report.rejected += len(refused)
        reject_writer.add(refused)

    def _rounds(
        self, table: ManifestTable, rows: Sequence[_Accepted], refused: list[_Refused]
    ) -> Iterator[dict[str, _Accepted]]:
        """The rows by key, in rounds that have every key once.

        A row whose key an earlier row of this ingest has is not written: it is counted as unchanged, or refused.
        """
        waiting = list(rows)
        while waiting:
            seen = self.store.seen(table.kind, [table.row_key(row) for _, row in waiting])
            this_round: dict[str, _Accepted] = {}
            later = []
            for raw, row in waiting:
                key = table.row_key(row)
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
        row_id = " / ".join(table.id_parts(row))
        reason = (
            f"id {row_id!r} came before in this ingest with other content: the first row is kept; remove one of them"
        )
        refused.append((raw, Reject("duplicate_conflict", reason)))

    def _write(self, table: ManifestTable, rows_by_key: Mapping[str, _Accepted], refused: list[_Refused]) -> None:
        resolved = _RESOLVE[table.kind](self.store, self.folder, [row for _, row in rows_by_key.values()])
        by_database_table: dict[str, dict[str, dict[str, Any]]] = {}
        for (key, (raw, _)), database_row in zip(rows_by_key.items(), resolved, strict=True):
            if isinstance(database_row, TableRow):
                by_database_table.setdefault(database_row.table, {})[key] = database_row.columns
            else:
                refused.append((raw, database_row))
        for database_table, columns_by_key in by_database_table.items():
            counts, reasons = self.store.write(database_table, list(columns_by_key.values()))
            self.report.accepted[table.name] += counts.inserted + counts.updated
            self.report.unchanged[table.name] += counts.unchanged
            stored: dict[str, bytes] = {}
            for position, (key, columns) in enumerate(columns_by_key.items()):
                if position in reasons:
                    reason = f"the database cannot store the row: {reasons[position]}"
                    refused.append((rows_by_key[key][0], Reject("database_refused", reason)))
                else:
                    stored[key] = columns["row_sha256"]
            self.store.mark_seen(table.kind, stored)


def _batches(rows: Iterable[Checked]) -> Iterator[list[Checked]]:
    """The rows in lists of at most BATCH_SIZE rows, some BATCH_CHARACTERS and FILES_PER_BATCH video files."""
    batch: list[Checked] = []
    n_files = n_characters = 0
    for raw, row in rows:
        batch.append((raw, row))
        n_characters += len(raw.raw)
        n_files += raw.kind == "video" and raw.payload is not None and "path" in raw.payload
        if len(batch) == BATCH_SIZE or n_characters >= BATCH_CHARACTERS or n_files == FILES_PER_BATCH:
            yield batch
            batch, n_files, n_characters = [], 0, 0
    if batch:
        yield batch
