"""What there is to score: counts, and the samples of the first videos, of a manifest or of a stored dataset."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, count
from operator import itemgetter
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection

from assets.ingest.manifest import read_manifest_folder
from assets.ingest.paths import PathRejected, resolve_inside
from assets.ingest.readers import read_table
from assets.ingest.resolve import DEFAULT_QA_SYSTEM, join_question_and_answer
from assets.ingest.rows import DIMENSIONS, CaptionRow, KeypointRow, QARow, RawRow, VideoRow
from assets.ingest.validate import validate_row
from assets.media.address import is_address
from assets.unstored_samples import build_unstored_inputs
from db.manifest.datasets import Dataset
from db.reports.summary import count_readable_videos, load_dataset_summary
from db.schema.inputs import Input, VideoState
from db.scores.pending import PendingSample, list_samples_of_first_videos, load_samples

# Scorers look at the samples of so many videos, by order of their keys, to say what can be scored.
FIRST_VIDEOS = 500
# Kinds of rows that are about one video.
_ABOUT_VIDEOS = ("caption", "keypoint", "qa")
_AboutVideo = CaptionRow | KeypointRow | QARow


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
    first_samples: tuple[PendingSample, ...] = ()
    first_videos: Mapping[int, VideoRow] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        """What metrics can score."""
        return self.captions + self.questions

    def rename(self, dataset: str) -> Holdings:
        """Return these holdings under the name of a dataset."""
        return replace(
            self,
            dataset=dataset,
            first_samples=tuple(replace(sample, dataset=dataset) for sample in self.first_samples),
        )


def read_manifest_holdings(folder: Path) -> Holdings:
    """What the tables in a folder have, before anybody decodes the files. Every table is read once.

    They have no name of a dataset yet. Raises ManifestError for no manifest.
    """
    manifest = read_manifest_folder(folder)
    tally = HoldingsTally(folder, manifest.dimensions)
    for kind, path in manifest.tables.items():
        for raw in read_table(path, kind):
            tally.add(raw)
    return tally.build_holdings()


def load_dataset_holdings(connection: Connection, dataset: Dataset, inputs: Collection[Input[Any]]) -> Holdings:
    """What the database has of a dataset; a video that does not decode is one without a file.

    inputs: of all scorers that are to look at the first samples.
    """
    counts = load_dataset_summary(connection, dataset.name)
    first = list_samples_of_first_videos(connection, dataset.dataset_id, FIRST_VIDEOS)
    return Holdings(
        counts["videos"],
        count_readable_videos(connection, dataset.dataset_id),
        counts["captions"],
        counts["references"],
        counts["keypoints"],
        counts["ratings"],
        counts["qa"],
        dataset=dataset.name,
        first_samples=tuple(load_samples(connection, first, inputs)) if first and inputs else (),
    )


@dataclass(slots=True)
class HoldingsTally:
    """Counts the rows of a manifest, and keeps the valid ones about its first videos by order of keys.

    A video's row has to come before the rows about it. media: the folder that the paths of videos are relative to.
    dimensions: the names that keypoints may use.
    """

    media_folder: Path
    dimensions: Collection[str] = DIMENSIONS
    counts: Counter[str] = field(default_factory=Counter)
    _size_bytes: int = 0
    _videos: dict[str, VideoRow] = field(default_factory=dict)
    # The keys of the first videos in order, and by such a key the rows about the video with their places among all.
    _keys: list[str] = field(default_factory=list)
    _rows: dict[str, list[tuple[int, _AboutVideo]]] = field(default_factory=dict)

    def add(self, raw: RawRow) -> None:
        """Count a row, valid or not, and keep it where it is about one of the first videos."""
        fields = raw.fields or {}
        self.counts[raw.kind] += 1
        self.counts["reference"] += raw.kind == "caption" and fields.get("role") == "reference"
        if raw.kind == "video" and (path := fields.get("path")):
            self.counts["file"] += 1
            self._size_bytes += measure_file_size(self.media_folder, str(path))
        if self._may_be_kept(raw.kind, fields.get("video_id")):
            row = validate_row(raw, self.dimensions)
            if isinstance(row, VideoRow):
                self._keep_video(row)
            elif isinstance(row, CaptionRow | KeypointRow | QARow):
                self._rows[row.video_id].append((self.counts.total(), row))

    def build_holdings(self) -> Holdings:
        """Return the counts, and the samples of the first videos."""
        n = self.counts
        rows = [row for _, row in sorted(chain.from_iterable(self._rows.values()), key=itemgetter(0))]
        videos = {number: self._videos[key] for number, key in enumerate(self._keys, 1)}
        return Holdings(
            n["video"],
            n["file"],
            n["caption"] - n["reference"],
            n["reference"],
            n["keypoint"],
            n["rating"],
            n["qa"],
            self._size_bytes,
            first_samples=tuple(_build_samples(videos, rows)),
            first_videos=videos,
        )

    def _may_be_kept(self, kind: str, key: object) -> bool:
        """Whether a row of this kind belongs to a video of this key that is, or would be, one of the first."""
        if not isinstance(key, str):
            return False
        if kind == "video":
            return key not in self._videos and (len(self._keys) < FIRST_VIDEOS or key < self._keys[-1])
        return kind in _ABOUT_VIDEOS and key in self._videos

    def _keep_video(self, row: VideoRow) -> None:
        """Keep a video, and forget the one that is none of the first any more."""
        insort(self._keys, row.video_id)
        self._videos[row.video_id] = row
        self._rows[row.video_id] = []
        if len(self._keys) > FIRST_VIDEOS:
            last = self._keys.pop()
            del self._videos[last], self._rows[last]


def _build_samples(videos: Mapping[int, VideoRow], rows: Collection[_AboutVideo]) -> Iterator[PendingSample]:
    """The samples among the rows about these videos, with the inputs that ingest gives them if it decodes every file.

    Captions come before questions, and both in the order of the rows.
    """
    captions = [row for row in rows if isinstance(row, CaptionRow)]
    n_segments: Counter[str] = Counter()
    for row in captions:
        if row.role == "reference":
            n_segments[row.video_id] = max(n_segments[row.video_id], len(row.segments or ()))
    # Ingest refuses a keypoint of a segment that no reference has.
    keypoints = _group_by_video(
        (
            row
            for row in rows
            if isinstance(row, KeypointRow)
            and (row.segment_index is None or row.segment_index < n_segments[row.video_id])
        ),
        "keypoint_id",
    )
    references = _group_by_video((row for row in captions if row.role == "reference"), "caption_id")
    numbers = {row.video_id: number for number, row in videos.items()}
    ids = count(1)

    def inputs(row: CaptionRow | QARow) -> dict[str, Any]:
        state = VideoState("text_only" if videos[numbers[row.video_id]].path is None else "ok")
        return build_unstored_inputs(
            row.content, references.get(row.video_id, []), keypoints.get(row.video_id, []), state
        )

    for row in captions:
        if row.role == "candidate":
            named = ("", row.caption_id, "caption", row.system, row.text)
            yield PendingSample(next(ids), *named, None, None, numbers[row.video_id], inputs=inputs(row))
    for pair in rows:
        if isinstance(pair, QARow):
            named = ("", pair.qa_id, "qa", pair.system or DEFAULT_QA_SYSTEM, join_question_and_answer(pair))
            asked = (pair.question, pair.answer)
            yield PendingSample(next(ids), *named, *asked, numbers[pair.video_id], inputs=inputs(pair))


def _group_by_video(rows: Iterable[CaptionRow | KeypointRow], key: str) -> dict[str, list[dict[str, Any]]]:
    """The fields of rows by the key of their video, in the order of their own keys."""
    by_video: dict[str, list[dict[str, Any]]] = {}
    for row in sorted((row.content for row in rows), key=itemgetter(key)):
        by_video.setdefault(row["video_id"], []).append(row)
    return by_video


def measure_file_size(folder: Path, path: str) -> int:
    """The bytes of the file at a path of a manifest; 0 for one elsewhere, and for one that ingest will refuse."""
    try:
        return 0 if is_address(path) else resolve_inside(folder, path).stat().st_size
    except (PathRejected, OSError):
        return 0
