"""The holdings of a dataset or a manifest: counts, and its first samples, from which a plan is made."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from operator import itemgetter
from typing import Any

from sqlalchemy.engine import Connection

from assets.ingest.resolve import DEFAULT_QA_SYSTEM, join_question_and_answer
from assets.ingest.rows import CaptionRow, QARow, RawRow, VideoRow
from assets.ingest.validate import validate_row
from assets.planning.unstored_samples import build_unstored_inputs
from db.manifest.datasets import Dataset
from db.reports.summary import count_readable_videos, load_dataset_summary
from db.schema.inputs import Input, VideoState
from db.scores.pending import PendingSample, list_samples_of_first_videos, load_samples

# Scorers look at the samples of so many videos, by order of their keys, to say what can be scored.
FIRST_VIDEOS = 500
_AboutVideo = CaptionRow | QARow


@dataclass(frozen=True, slots=True)
class Holdings:
    """The counts of what a dataset or a manifest holds, and the samples of its first 500 videos by order of keys.
    `files` counts videos with a file, `captions` only candidates. `dataset` is "" for a manifest; `first_samples` come
    with their known inputs.
    """

    videos: int
    files: int
    captions: int
    references: int = 0
    keypoints: int = 0
    ratings: int = 0
    questions: int = 0
    dataset: str = ""
    first_samples: tuple[PendingSample, ...] = ()

    @property
    def samples(self) -> int:
        """The number of samples: candidate captions plus question-answer pairs."""
        return self.captions + self.questions


def load_dataset_holdings(connection: Connection, dataset: Dataset, inputs: Collection[Input[Any]]) -> Holdings:
    """Load the counts of a stored dataset and its first samples; a video that does not decode counts as one without a
    file. inputs: what the scorers need to know about the first samples; without any, no samples are loaded.
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
    """A counter of a new manifest's rows, which must not be keypoints. It keeps the valid captions and questions of the
    first 500 videos by order of keys; a video's row has to be added before the rows about it.
    """

    counts: Counter[str] = field(default_factory=Counter)
    _videos: dict[str, VideoRow] = field(default_factory=dict)
    # The keys of the first videos in order, and by such a key the rows about the video with their places among all.
    _keys: list[str] = field(default_factory=list)
    _rows: dict[str, list[tuple[int, _AboutVideo]]] = field(default_factory=dict)

    def add(self, raw: RawRow) -> None:
        """Count a row, valid or not, and keep it if it is valid and about one of the first videos."""
        fields = raw.fields or {}
        self.counts[raw.kind] += 1
        self.counts["reference"] += raw.kind == "caption" and fields.get("role") == "reference"
        self.counts["file"] += raw.kind == "video" and bool(fields.get("path"))
        if self._may_be_kept(raw.kind, fields.get("video_id")):
            row = validate_row(raw)
            if isinstance(row, VideoRow):
                self._keep_video(row)
            elif isinstance(row, CaptionRow | QARow):
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
            ratings=n["rating"],
            questions=n["qa"],
            first_samples=tuple(_build_samples(videos, rows)),
        )

    def _may_be_kept(self, kind: str, key: object) -> bool:
        """Return whether a row of this kind is about a video that is, or would be, one of the first."""
        if not isinstance(key, str):
            return False
        if kind == "video":
            return key not in self._videos and (len(self._keys) < FIRST_VIDEOS or key < self._keys[-1])
        return kind in ("caption", "qa") and key in self._videos

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
    references: dict[str, list[dict[str, Any]]] = {}
    for fields in sorted((row.content for row in captions if row.role == "reference"), key=itemgetter("caption_id")):
        references.setdefault(fields["video_id"], []).append(fields)
    numbers = {row.video_id: number for number, row in videos.items()}
    ids = count(1)

    def inputs(row: _AboutVideo) -> dict[str, Any]:
        state = VideoState("text_only" if videos[numbers[row.video_id]].path is None else "ok")
        return build_unstored_inputs(row.content, references.get(row.video_id, []), [], state)

    for row in captions:
        if row.role == "candidate":
            named = ("", row.caption_id, "caption", row.system, row.text)
            yield PendingSample(next(ids), *named, None, None, numbers[row.video_id], inputs=inputs(row))
    for pair in rows:
        if isinstance(pair, QARow):
            named = ("", pair.qa_id, "qa", pair.system or DEFAULT_QA_SYSTEM, join_question_and_answer(pair))
            asked = (pair.question, pair.answer)
            yield PendingSample(next(ids), *named, *asked, numbers[pair.video_id], inputs=inputs(pair))
