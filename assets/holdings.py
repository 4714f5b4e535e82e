"""What there is to score, in counts: in a manifest that was made or lies there already, or in a stored dataset."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import Connection

from assets.ingest.files import PathRejected, resolve_inside
from assets.ingest.readers import count_rows, find_tables, read_table
from assets.media.address import is_address
from assets.new_manifest.write import Written
from db.manifest.datasets import Dataset
from db.reports.summary import dataset_summary, readable_files


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a dataset or a manifest has, as counts; `files` are the videos with a file, `captions` no references.

    size_bytes: of all files; None where nobody has looked. dataset: its name, where there is one yet.
    """

    videos: int
    files: int
    captions: int
    references: int = 0
    keypoints: int = 0
    ratings: int = 0
    questions: int = 0
    size_bytes: int | None = None
    dataset: str = ""

    @property
    def samples(self) -> int:
        """What metrics can score."""
        return self.captions + self.questions


def of_written(written: Written) -> Holdings:
    """What a new manifest has."""
    return Holdings(written.videos, written.files, written.candidates, written.references, ratings=written.ratings)


def of_manifest(folder: Path) -> Holdings:
    """What the tables in a folder have, before anybody checks their rows. Raises ManifestError for no manifest."""
    tables = find_tables(folder)
    n = {kind: count_rows(path, kind) for kind, path in tables.items()}
    rows = [row.payload or {} for row in read_table(tables["video"], "video")]
    sizes = [_size(folder, str(row["path"])) for row in rows if row.get("path")]
    captions = read_table(tables["caption"], "caption") if "caption" in tables else ()
    n_references = sum((row.payload or {}).get("role") == "reference" for row in captions)
    return Holdings(
        len(rows),
        len(sizes),
        n.get("caption", 0) - n_references,
        n_references,
        n.get("keypoint", 0),
        n.get("rating", 0),
        n.get("qa", 0),
        sum(sizes),
    )


def of_dataset(connection: Connection, dataset: Dataset) -> Holdings:
    """What the database has of a dataset; a video that does not decode is one without a file."""
    counts = dataset_summary(connection, dataset.name)
    n_files, size_bytes = readable_files(connection, dataset.dataset_id)
    return Holdings(
        counts["videos"],
        n_files,
        counts["captions"],
        counts["references"],
        counts["keypoints"],
        counts["ratings"],
        counts["qa"],
        size_bytes,
        dataset.name,
    )


def _size(folder: Path, path: str) -> int:
    """The bytes of a file; 0 for one elsewhere, and for one that ingest will refuse."""
    try:
        return 0 if is_address(path) else resolve_inside(folder, path).stat().st_size
    except (PathRejected, OSError):
        return 0
