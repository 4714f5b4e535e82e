"""From valid manifest rows to database rows.

A resolver takes a batch of rows of one table and asks the database once or twice for the rows that they point to. It
gives one database row or one refusal for every row, in the order of the rows.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pgvector import Vector

from assets.ingest.rejects import Reject
from assets.ingest.rows import (
    ORIGIN_FIELDS,
    CaptionRow,
    KeypointLabelRow,
    KeypointRow,
    QARow,
    RatingRow,
    VectorRow,
    VideoRow,
)
from assets.ingest.video_columns import inspect_videos
from assets.words.text import format_count
from db.evidence.verdicts import MANIFEST_LABEL_SOURCE
from db.manifest.store import IngestStore

# A segment may end this long after its video: containers round durations, and annotators round times.
SEGMENT_TOLERANCE_S = 1.0
DEFAULT_QA_SYSTEM = "qa"


class DatabaseRow(NamedTuple):
    """A row that is ready to be written: the name of its database table, and its values by column name."""

    table: str
    columns: dict[str, Any]


ResolvedRow = DatabaseRow | Reject


def reject_missing_target(target: str, field: str, key: str) -> Reject:
    """Build the Reject of a row whose `field` has the value `key`, while the dataset has no such target. target: the
    word for it, such as video.
    """
    return Reject(
        "dangling_reference", f"field '{field}' is {key!r}: there is no such {target}; add it before this row"
    )


def resolve_videos(store: IngestStore, folder: Path, rows: Sequence[VideoRow]) -> Iterator[ResolvedRow]:
    """Yield for every video row, in order, a row of table `video`, or a Reject where its file is refused. A file that
    is new or changed since the last ingest is read and probed. folder: that of the manifest.
    """
    stored = store.load_earlier_videos([row.video_id for row in rows])
    for row, media in zip(rows, inspect_videos(folder, rows, stored), strict=True):
        if isinstance(media, Reject):
            yield media
            continue
        columns = {
            "dataset_id": store.dataset.dataset_id,
            "shard": store.dataset.compute_shard(row.video_id),
            "key": row.video_id,
            **media,
            **{name: getattr(row, name) for name in ORIGIN_FIELDS},
        }
        yield _build_row("video", row, columns, note=row.note)


def resolve_captions(store: IngestStore, _folder: Path, rows: Sequence[CaptionRow]) -> Iterator[ResolvedRow]:
    """Yield for every caption, in order, a row of table `reference` or `sample` by its role, or a Reject where the
    video is not stored, a caption of the other role has the id, or a segment ends more than a second after the video.
    """
    videos = store.load_videos([row.video_id for row in rows])
    ids_of_other_role = {
        "candidate": store.load_earlier_reference_keys([row.caption_id for row in rows if row.role == "candidate"]),
        "reference": store.load_earlier_caption_keys([row.caption_id for row in rows if row.role == "reference"]),
    }
    for row in rows:
        video = videos.get(row.video_id)
        if video is None:
            yield reject_missing_target("video", "video_id", row.video_id)
        elif row.caption_id in ids_of_other_role[row.role]:
            yield _reject_other_role(row)
        elif fault := _find_segment_fault(_segments(row), video.duration_s):
            yield fault
        elif row.role == "reference":
            columns = {
                "dataset_id": store.dataset.dataset_id,
                "video_id": video.video_id,
                "key": row.caption_id,
                "annotator": row.system,
                "text": row.text,
                "segments": _segments(row),
                "text_sha256": hashlib.sha256(row.text.encode()).digest(),
            }
            yield _build_row("reference", row, columns, parse_error=row.parse_error)
        else:
            columns = {
                **_build_sample_columns(store, video, row.caption_id, "caption", row.system, row.text),
                "question": None,
                "answer": None,
                "segments": _segments(row),
            }
            yield _build_row("sample", row, columns, parse_error=row.parse_error)


def resolve_qa(store: IngestStore, _folder: Path, rows: Sequence[QARow]) -> Iterator[ResolvedRow]:
    """Yield for every question-answer pair, in order, a row of table `sample`, or a Reject where its video is not
    stored. The sample's text is question and answer joined by a space (EVQAScore's Concat).
    """
    videos = store.load_videos([row.video_id for row in rows])
    for row in rows:
        video = videos.get(row.video_id)
        if video is None:
            yield reject_missing_target("video", "video_id", row.video_id)
            continue
        columns = {
            **_build_sample_columns(
                store, video, row.qa_id, "qa", row.system or DEFAULT_QA_SYSTEM, join_question_and_answer(row)
            ),
            "question": row.question,
            "answer": row.answer,
            "segments": None,
        }
        yield _build_row("sample", row, columns, quality=row.quality or None)


def resolve_keypoints(store: IngestStore, _folder: Path, rows: Sequence[KeypointRow]) -> Iterator[ResolvedRow]:
    """Yield for every keypoint, in order, a row of table `keypoint`, or a Reject. Its video must be stored, and some
    reference of the video must have a segment of the keypoint's segment index, if it has one.
    """
    videos = store.load_videos([row.video_id for row in rows])
    segment_counts = store.count_segments([video.video_id for video in videos.values()])
    for row in rows:
        video = videos.get(row.video_id)
        if video is None:
            yield reject_missing_target("video", "video_id", row.video_id)
        elif row.segment_index is not None and row.segment_index >= (n := segment_counts.get(video.video_id, 0)):
            reason = (
                f"field 'segment_index' is {row.segment_index}: the references of video {row.video_id!r} have at "
                f"most {n} segments, counted from 0"
            )
            yield Reject("segment_index_out_of_range", reason)
        else:
            columns = {
                "dataset_id": store.dataset.dataset_id,
                "video_id": video.video_id,
                "key": row.keypoint_id,
                "dimension": row.dimension,
                "text": row.text,
                "segment_index": row.segment_index,
            }
            yield _build_row("keypoint", row, columns)


def resolve_keypoint_labels(
    store: IngestStore, _folder: Path, rows: Sequence[KeypointLabelRow]
) -> Iterator[ResolvedRow]:
    """Yield for every label, in order, a row of table `keypoint_label`, or a Reject. Its keypoint and its candidate
    caption must be stored and belong to the same video.
    """
    keypoints = store.load_keypoints([row.keypoint_id for row in rows])
    samples = store.load_samples("caption", [row.caption_id for row in rows])
    for row in rows:
        keypoint, sample = keypoints.get(row.keypoint_id), samples.get(row.caption_id)
        if keypoint is None:
            yield reject_missing_target("keypoint", "keypoint_id", row.keypoint_id)
        elif sample is None:
            yield reject_missing_target("candidate caption", "caption_id", row.caption_id)
        elif keypoint.video_id != sample.video_id:
            reason = (
                f"keypoint {row.keypoint_id!r} and caption {row.caption_id!r} belong to different videos: "
                "label a keypoint with captions of its own video"
            )
            yield Reject("mismatched_video", reason)
        else:
            columns = {
                "keypoint_id": keypoint.keypoint_id,
                "sample_id": sample.sample_id,
                "source": MANIFEST_LABEL_SOURCE,
                "covered": row.covered,
            }
            yield _build_row("keypoint_label", row, columns)


def resolve_ratings(store: IngestStore, _folder: Path, rows: Sequence[RatingRow]) -> Iterator[ResolvedRow]:
    """Yield for every rating, in order, a row of table `rating`, or a Reject where its candidate caption is not
    stored.
    """
    samples = store.load_samples("caption", [row.caption_id for row in rows])
    for row in rows:
        sample = samples.get(row.caption_id)
        if sample is None:
            yield reject_missing_target("candidate caption", "caption_id", row.caption_id)
            continue
        columns = {
            "sample_id": sample.sample_id,
            "rater": row.rater,
            "aspect": row.aspect,
            "value": float(row.value),
        }
        yield _build_row("rating", row, columns)


def resolve_vectors(store: IngestStore, _folder: Path, rows: Sequence[VectorRow]) -> Iterator[ResolvedRow]:
    """Yield for every vector, in order, a row of table `video_embedding`, or a Reject. Its video must be stored, and
    its length that of the encoder's stored vectors, or without any that of most of these rows. A vector that was stored
    for an earlier file of its video is refused too.
    """
    videos = store.load_videos([row.video_id for row in rows])
    encoders = {name: store.register_encoder(name) for name in sorted({row.encoder for row in rows})}
    lengths, stored = {}, {}
    for name, encoder in encoders.items():
        counts = Counter(len(row.vector) for row in rows if row.encoder == name)
        lengths[name] = encoder.length or counts.most_common(1)[0][0]
        stored[name] = store.load_vector_rows(encoder.model_id, [video.video_id for video in videos.values()])
    for row in rows:
        video = videos.get(row.video_id)
        if video is None:
            yield reject_missing_target("video", "video_id", row.video_id)
            continue
        earlier = stored[row.encoder].get(video.video_id)
        if len(row.vector) != lengths[row.encoder]:
            reason = (
                f"field 'vector' has {format_count(len(row.vector), 'number')}, and other vectors of {row.encoder!r} "
                f"have {lengths[row.encoder]:,}: embed the video with the same model, or name another encoder"
            )
            yield Reject("vector_length", reason)
        elif earlier and earlier.row_sha256 == row.content_sha256 and earlier.content_sha256 != video.content_sha256:
            reason = "the vector was stored for an earlier file of the video: embed the present file, or remove the row"
            yield Reject("vector_outdated", reason)
        else:
            columns = {
                "model_id": encoders[row.encoder].model_id,
                "video_id": video.video_id,
                "content_sha256": video.content_sha256,
                "embedding": Vector(row.vector),
            }
            yield _build_row("video_embedding", row, columns)


Resolver = Callable[[IngestStore, Path, Sequence[Any]], Iterator[ResolvedRow]]
# The resolver of every kind of row.
RESOLVERS: Mapping[str, Resolver] = {
    "video": resolve_videos,
    "caption": resolve_captions,
    "keypoint": resolve_keypoints,
    "keypoint_label": resolve_keypoint_labels,
    "qa": resolve_qa,
    "rating": resolve_ratings,
    "vector": resolve_vectors,
}


def join_question_and_answer(row: QARow) -> str:
    """Return the text of a question-answer pair as metrics score it: stripped question, a space, stripped answer."""
    return f"{row.question.strip()} {row.answer.strip()}"


def _build_row(table: str, row: Any, columns: dict[str, Any], **added: Any) -> DatabaseRow:
    """Build a row of a table from these columns and those that all tables have: the hash of the manifest row, and its
    own fields, before which those of `added` come that are not None.
    """
    extra = {**{name: value for name, value in added.items() if value is not None}, **row.extra}
    return DatabaseRow(table, {**columns, "extra": extra or None, "row_sha256": row.content_sha256})


def _build_sample_columns(
    store: IngestStore, video: Any, key: str, kind: str, system: str, text: str
) -> dict[str, Any]:
    return {
        "dataset_id": store.dataset.dataset_id,
        "shard": video.shard,
        "video_id": video.video_id,
        "key": key,
        "kind": kind,
        "system": system,
        "text": text,
        "text_sha256": hashlib.sha256(text.encode()).digest(),
    }


def _segments(row: CaptionRow) -> list[dict[str, Any]] | None:
    """Return the segments as plain data; None where the caption has none."""
    return None if row.segments is None else row.content["segments"]


def _find_segment_fault(segments: list[dict[str, Any]] | None, duration_s: float | None) -> Reject | None:
    if segments and duration_s is not None:
        last = max(segment["end_s"] for segment in segments)
        if last > duration_s + SEGMENT_TOLERANCE_S:
            reason = f"a segment ends at {last:g} s but the video lasts {duration_s:.2f} s: correct the segment's times"
            return Reject("segment_outside_clip", reason)
    return None


def _reject_other_role(row: CaptionRow) -> Reject:
    other = "candidate" if row.role == "reference" else "reference"
    reason = f"caption_id {row.caption_id!r} already belongs to a {other}: give the {row.role} an id of its own"
    return Reject("duplicate_conflict", reason)
