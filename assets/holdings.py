"""What there is to score: counts, and the samples of the first videos, of a manifest or of a stored dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection

from assets.ingest.looks import look_at
from assets.ingest.manifest import Manifest, find_manifest
from assets.ingest.paths import PathRejected, resolve_inside
from assets.ingest.readers import read_table
from assets.ingest.rejects import Reject
from assets.ingest.resolve import DEFAULT_QA_SYSTEM, qa_text
from assets.ingest.rows import CaptionRow, KeypointRow, QARow, RawRow, VideoRow
from assets.ingest.validate import validate
from assets.media.address import is_address
from assets.unstored import unstored_inputs
from db.manifest.datasets import Dataset
from db.reports.summary import count_readable, dataset_summary
from db.schema.inputs import Input, VideoState
from db.scores.work import PendingSample, load_samples, samples_of_first_videos

# Scorers look at the samples of so many videos, by order of their keys, to say what can be scored.
FIRST_VIDEOS = 500


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a dataset or a manifest has, as counts; `files` are the videos with a file, `captions` no references.

    size_bytes: of the files of a manifest, as far as they lie on this machine. dataset: its name, where there is one
    yet. first: the samples of the first videos by order of keys, with the inputs that are known. videos_of_first: of a
    manifest, the rows of these videos by the video_id of the samples.
    """

    videos: int
    files: int
    captions: int
    references: int = 0
    keypoints: int = 0
    ratings: int = 0
    questions: int = 0
    size_bytes: int = 0
    dataset: str = ""
    first: tuple[PendingSample, ...] = ()
    videos_of_first: Mapping[int, VideoRow] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        """What metrics can score."""
        return self.captions + self.questions

    def rename(self, dataset: str) -> Holdings:
        """Return these holdings under the name of a dataset."""
        return replace(self, dataset=dataset, first=tuple(replace(sample, dataset=dataset) for sample in self.first))


def of_manifest(folder: Path, dataset: str = "", media: Path | None = None) -> Holdings:
    """What the tables in a folder have, before anybody decodes the files. Every table is read once.

    media: the folder that the paths of videos are relative to, where it is another one. Raises ManifestError for no
    manifest.
    """
    manifest, media = find_manifest(folder), media or folder
    tally = _Tally(media)
    first = _FirstRows.of(manifest, tally)
    n, ratings = tally.n, manifest.tables.get("rating")
    return Holdings(
        n["video"],
        n["file"],
        n["caption"] - n["reference"],
        n["reference"],
        n["keypoint"],
        0 if ratings is None else look_at(ratings, "rating", counts_rows=True).n_rows or 0,
        n["qa"],
        tally.size_bytes,
        dataset,
        tuple(first.samples(dataset)),
        first.videos,
    )


def of_dataset(connection: Connection, dataset: Dataset, inputs: Collection[Input[Any]]) -> Holdings:
    """What the database has of a dataset; a video that does not decode is one without a file.

    inputs: of all scorers that are to look at the first samples.
    """
    counts = dataset_summary(connection, dataset.name)
    first = samples_of_first_videos(connection, dataset.dataset_id, FIRST_VIDEOS)
    return Holdings(
        counts["videos"],
        count_readable(connection, dataset.dataset_id),
        counts["captions"],
        counts["references"],
        counts["keypoints"],
        counts["ratings"],
        counts["qa"],
        dataset=dataset.name,
        first=tuple(load_samples(connection, first, inputs)) if first and inputs else (),
    )


@dataclass(slots=True)
class _Tally:
    """How many rows of a manifest were read, by kind; of videos also how many have a file, and the files' bytes.

    media: the folder that the paths of videos are relative to.
    """

    media: Path
    n: Counter[str] = field(default_factory=Counter)
    size_bytes: int = 0

    def add(self, row: RawRow) -> None:
        """Count a row, valid or not."""
        fields = row.payload or {}
        self.n[row.kind] += 1
        self.n["reference"] += row.kind == "caption" and fields.get("role") == "reference"
        if row.kind == "video" and (path := fields.get("path")):
            self.n["file"] += 1
            self.size_bytes += size_of_file(self.media, str(path))


@dataclass(frozen=True, slots=True)
class _FirstRows:
    """The valid rows of a manifest about its first videos, which have numbers."""

    videos: Mapping[int, VideoRow]
    captions: list[CaptionRow]
    questions: list[QARow]
    keypoints: list[KeypointRow]

    @classmethod
    def of(cls, manifest: Manifest, tally: _Tally) -> _FirstRows:
        """Read the tables, and count all their rows in the tally."""

        def rows(kind: str) -> Iterator[Any]:
            for raw in read_table(manifest.tables[kind], kind) if kind in manifest.tables else ():
                tally.add(raw)
                if not isinstance(row := validate(raw, manifest.dimensions), Reject):
                    yield row

        videos = nsmallest(FIRST_VIDEOS, rows("video"), key=lambda row: row.video_id)
        keys = {row.video_id for row in videos}
        captions, questions, keypoints = (
            [row for row in rows(kind) if row.video_id in keys] for kind in ("caption", "qa", "keypoint")
        )
        n_segments: Counter[str] = Counter()
        for row in captions:
            if row.role == "reference":
                n_segments[row.video_id] = max(n_segments[row.video_id], len(row.segments or ()))
        # Ingest refuses a keypoint of a segment that no reference has.
        keypoints = [
            row for row in keypoints if row.segment_index is None or row.segment_index < n_segments[row.video_id]
        ]
        return cls(dict(enumerate(videos, 1)), captions, questions, keypoints)

    def samples(self, dataset: str) -> Iterator[PendingSample]:
        """The samples with the inputs that ingest would give them if it could decode every file."""
        references = _by_video((row for row in self.captions if row.role == "reference"), "caption_id")
        keypoints = _by_video(self.keypoints, "keypoint_id")
        numbers = {row.video_id: number for number, row in self.videos.items()}
        ids = count(1)

        def inputs(row: CaptionRow | QARow) -> dict[str, Any]:
            video = self.videos[numbers[row.video_id]]
            state = VideoState("text_only" if video.path is None else "ok")
            return unstored_inputs(
                row.content, references.get(row.video_id, []), keypoints.get(row.video_id, []), state
            )

        for row in self.captions:
            if row.role == "candidate":
                named = (dataset, row.caption_id, "caption", row.system, row.text)
                yield PendingSample(next(ids), *named, None, None, numbers[row.video_id], inputs=inputs(row))
        for pair in self.questions:
            named = (dataset, pair.qa_id, "qa", pair.system or DEFAULT_QA_SYSTEM, qa_text(pair))
            asked = (pair.question, pair.answer)
            yield PendingSample(next(ids), *named, *asked, numbers[pair.video_id], inputs=inputs(pair))


def _by_video(rows: Iterable[CaptionRow | KeypointRow], key: str) -> dict[str, list[dict[str, Any]]]:
    """The fields of rows by the key of their video, in the order of their own keys."""
    by_video: dict[str, list[dict[str, Any]]] = {}
    for row in sorted((row.content for row in rows), key=itemgetter(key)):
        by_video.setdefault(row["video_id"], []).append(row)
    return by_video


def size_of_file(folder: Path, path: str) -> int:
    """The bytes of the file at a path of a manifest; 0 for one elsewhere, and for one that ingest will refuse."""
    try:
        return 0 if is_address(path) else resolve_inside(folder, path).stat().st_size
    except (PathRejected, OSError):
        return 0
