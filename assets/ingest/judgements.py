"""From valid manifest rows to database rows: keypoints, their labels, and ratings. See assets/ingest/resolve.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assets.ingest.rejects import Reject
from assets.ingest.resolve import Resolved, TableRow, no_such
from assets.ingest.rows import KeypointLabelRow, KeypointRow, RatingRow
from db.evidence.verdicts import MANIFEST_LABELS
from db.manifest.store import IngestStore


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
