"""From valid manifest rows to database rows: ids looked up, and refused where they lead nowhere or contradict.

One function per kind of row; each takes a batch, asks the database once or twice, and answers in order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from assets.ingest.judgements import resolve_keypoint_labels, resolve_keypoints, resolve_ratings
from assets.ingest.media import media_columns
from assets.ingest.rejects import Reject
from assets.ingest.resolved import Resolved, TableRow, no_such
from assets.ingest.rows import (
    CaptionRow,
    QARow,
    Segment,
    ValidRow,
    VideoRow,
    content_sha256,
)
from db.manifest import IngestStore

# A segment may end this much after the clip: containers round durations and annotators round times.
SEGMENT_TOLERANCE_S = 1.0
DEFAULT_QA_SYSTEM = "qa"

_ID_FIELDS = {
    "video": ("video_id",),
    "caption": ("caption_id",),
    "keypoint": ("keypoint_id",),
    "keypoint_label": ("keypoint_id", "caption_id"),
    "qa": ("qa_id",),
    "rating": ("caption_id", "rater", "aspect"),
}


def resolve_videos(store: IngestStore, folder: Path, rows: Sequence[VideoRow]) -> list[Resolved]:
    """Videos, probed unless the file is the one that was probed before."""
    stored = store.videos([row.video_id for row in rows])
    resolved: list[Resolved] = []
    for row in rows:
        media = media_columns(folder, row, stored.get(row.video_id))
        if isinstance(media, Reject):
            resolved.append(media)
            continue
        extra = row.extra if row.note is None else {"note": row.note, **row.extra}
        columns = {
            "dataset_id": store.dataset.dataset_id,
            "shard": store.dataset.shard_of(row.video_id),
            "key": row.video_id,
            **media,
            "extra": extra or None,
            "row_sha256": content_sha256(row),
        }
        resolved.append(TableRow("video", columns))
    return resolved


def resolve_captions(store: IngestStore, _folder: Path, rows: Sequence[CaptionRow]) -> list[Resolved]:
    """References and candidates."""
    videos = store.videos([row.video_id for row in rows])
    taken = {
        "candidate": store.references([row.caption_id for row in rows if row.role == "candidate"]),
        "reference": store.samples("caption", [row.caption_id for row in rows if row.role == "reference"]),
    }
    resolved: list[Resolved] = []
    for row in rows:
        video = videos.get(row.video_id)
        if video is None:
            resolved.append(no_such("video", "video_id", row.video_id))
        elif row.caption_id in taken[row.role]:
            resolved.append(_other_role(row))
        elif fault := _segments_outside(row.segments, video.duration_s):
            resolved.append(fault)
        elif row.role == "reference":
            resolved.append(TableRow("reference", _reference_columns(store, row, video)))
        else:
            resolved.append(TableRow("sample", _caption_columns(store, row, video)))
    return resolved


def resolve_qa(store: IngestStore, _folder: Path, rows: Sequence[QARow]) -> list[Resolved]:
    """Question-answer pairs; their text is question and answer joined by a space (EVQAScore's Concat)."""
    videos = store.videos([row.video_id for row in rows])
    resolved: list[Resolved] = []
    for row in rows:
        video = videos.get(row.video_id)
        if video is None:
            resolved.append(no_such("video", "video_id", row.video_id))
            continue
        text = f"{row.question.strip()} {row.answer.strip()}"
        columns = {
            **_sample_columns(store, video, row.qa_id, "qa", row.system or DEFAULT_QA_SYSTEM, text),
            "question": row.question,
            "answer": row.answer,
            "segments": None,
            "extra": ({"quality": row.quality, **row.extra} if row.quality else row.extra) or None,
            "row_sha256": content_sha256(row),
        }
        resolved.append(TableRow("sample", columns))
    return resolved


RESOLVERS: dict[str, Callable[[IngestStore, Path, Sequence[Any]], list[Resolved]]] = {
    "video": resolve_videos,
    "caption": resolve_captions,
    "keypoint": resolve_keypoints,
    "keypoint_label": resolve_keypoint_labels,
    "qa": resolve_qa,
    "rating": resolve_ratings,
}


def row_key(kind: str, row: ValidRow) -> str:
    """The id of a row within its kind; a label's and a rating's is made of several fields."""
    parts = id_parts(kind, row)
    # A line feed may stand in an id, so the parts are told apart by their lengths too.
    return parts[0] if len(parts) == 1 else "\n".join(f"{len(part)}:{part}" for part in parts)


def id_parts(kind: str, row: ValidRow) -> list[str]:
    """The fields that together tell a row from all others of its kind."""
    return [getattr(row, field) for field in _ID_FIELDS[kind]]


def _reference_columns(store: IngestStore, row: CaptionRow, video: Any) -> dict[str, Any]:
    return {
        "dataset_id": store.dataset.dataset_id,
        "video_id": video.video_id,
        "key": row.caption_id,
        "annotator": row.system,
        "text": row.text,
        "segments": row.content.get("segments"),
        "text_sha256": hashlib.sha256(row.text.encode()).digest(),
        "extra": _extra(row),
        "row_sha256": content_sha256(row),
    }


def _caption_columns(store: IngestStore, row: CaptionRow, video: Any) -> dict[str, Any]:
    return {
        **_sample_columns(store, video, row.caption_id, "caption", row.system, row.text),
        "question": None,
        "answer": None,
        "segments": row.content.get("segments"),
        "extra": _extra(row),
        "row_sha256": content_sha256(row),
    }


def _extra(row: CaptionRow) -> dict[str, Any] | None:
    return (row.extra if row.parse_error is None else {"parse_error": row.parse_error, **row.extra}) or None


def _sample_columns(store: IngestStore, video: Any, key: str, kind: str, system: str, text: str) -> dict[str, Any]:
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


def _segments_outside(segments: list[Segment] | None, duration_s: float | None) -> Reject | None:
    if segments and duration_s is not None:
        last = max(segment.end_s for segment in segments)
        if last > duration_s + SEGMENT_TOLERANCE_S:
            reason = f"a segment ends at {last:g} s but the video lasts {duration_s:.2f} s: correct the segment's times"
            return Reject("segment_outside_clip", reason)
    return None


def _other_role(row: CaptionRow) -> Reject:
    other = "candidate" if row.role == "reference" else "reference"
    reason = f"caption_id {row.caption_id!r} is already a {other}: give the {row.role} an id of its own"
    return Reject("duplicate_conflict", reason)
