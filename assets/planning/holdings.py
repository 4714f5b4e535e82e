"""The holdings of a dataset or a manifest: counts, and its first samples, from which a plan is made."""

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

from assets.home.settings import read_settings
from assets.ingest.manifest import read_manifest_folder
from assets.ingest.paths import PathRejected, resolve_inside
from assets.ingest.readers import read_table
from assets.ingest.resolve import DEFAULT_QA_SYSTEM, join_question_and_answer
from assets.ingest.rows import DIMENSIONS, CaptionRow, KeypointRow, QARow, RawRow, VideoRow
from assets.ingest.validate import validate_row
from assets.ingest.video_columns import resolve_container
from assets.media.address import AddressRefused, MemberAddress, is_address, is_member_address, parse_member_address
from assets.media.file_state import FileState
from assets.media.members import load_tar_index
from assets.media.settings import MediaSettings
from assets.planning.unstored_samples import build_unstored_inputs
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
    """The counts of what a dataset or a manifest holds, and the samples of its first 500 videos by order of keys.
    `files` counts videos with a file, `captions` only candidates, `size_bytes` the bytes of a manifest's files on this
    machine. `dataset` is "" for a manifest; `first_samples` come with their known inputs.

    `first_videos`: for a manifest, the rows of the first videos by the video_id in the samples; empty for a dataset.
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
        """The number of samples: candidate captions plus question-answer pairs."""
        return self.captions + self.questions

    def rename(self, dataset: str) -> Holdings:
        """Return a copy of these holdings, and of their first samples, under the name of a dataset."""
        return replace(
            self,
            dataset=dataset,
            first_samples=tuple(replace(sample, dataset=dataset) for sample in self.first_samples),
        )


def read_manifest_holdings(folder: Path) -> Holdings:
    """Read every table of a manifest folder once and return its counts and first samples. Rows are counted whether they
    are valid or not, and no video is decoded. The result has no dataset name. Raises ManifestError where the folder
    holds no manifest.
    """
    manifest = read_manifest_folder(folder)
    tally = HoldingsTally(folder, manifest.dimensions)
    for kind, path in manifest.tables.items():
        for raw in read_table(path, kind):
            tally.add(raw)
    return tally.build_holdings()


def load_dataset_holdings(connection: Connection, dataset: Dataset, inputs: Collection[Input[Any]]) -> Holdings:
    """Load the counts of a stored dataset and its first samples; a video that does not decode counts as one without a
    file. inputs: what the scorers need to know about the first samples; without any, no samples are loaded. The size of
    files is not counted and stays 0.
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
    """A counter of a manifest's rows, which also keeps the valid rows about the first 500 videos by order of keys. A
    video's row has to be added before the rows about it. `media_folder` is the folder that paths of videos are relative
    to, and `dimensions` are the names that keypoints may use.
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
        """Count a row, valid or not, and keep it if it is valid and about one of the first videos. The size of a
        video's file is looked up on the disk.
        """
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
        """Build the Holdings of all rows that were added so far."""
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
        """Return whether a row of this kind is about a video that is, or would be, one of the first."""
        if not isinstance(key, str):
            return False
        if kind == "video":
            return key not in self._videos and (len(self._keys) < FIRST_VIDEOS or key < self._keys[-1])
        return kind in _ABOUT_VIDEOS and key in self._videos

    def _keep_video(self, row: VideoRow) -> None:
        """Keep a video, and drop the one that is no longer one of the first."""
        insort(self._keys, row.video_id)
        self._videos[row.video_id] = row
        self._rows[row.video_id] = []
        if len(self._keys) > FIRST_VIDEOS:
            last = self._keys.pop()
            del self._videos[last], self._rows[last]


def _build_samples(videos: Mapping[int, VideoRow], rows: Collection[_AboutVideo]) -> Iterator[PendingSample]:
    """Build the samples from the rows about these videos, with the inputs that ingest gives them if every file decodes.

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
    """Group the fields of rows by the key of their video, sorted by their own key."""
    by_video: dict[str, list[dict[str, Any]]] = {}
    for row in sorted((row.content for row in rows), key=itemgetter(key)):
        by_video.setdefault(row["video_id"], []).append(row)
    return by_video


def measure_file_size(folder: Path, path: str) -> int:
    """Return the size in bytes of the file at a manifest's path, which may lie in a tar file of the folder. The size is
    0 for another address, also that of a row in a Lance table, for a path that ingest refuses, and for a file that
    cannot be looked up.
    """
    try:
        if is_member_address(path):
            return _measure_member_size(folder, parse_member_address(path))
        return 0 if is_address(path) else resolve_inside(folder, path).stat().st_size
    except (AddressRefused, PathRejected, OSError):
        return 0


def _measure_member_size(folder: Path, address: MemberAddress) -> int:
    if is_address(address.container) or address.scheme == "lance":
        return 0
    settings = read_settings(MediaSettings)
    tar = resolve_container(folder, address, settings)
    members = load_tar_index(tar, FileState.build_from_stat(tar.stat()), settings).members
    return members[address.name].size_bytes if address.name in members else 0
