"""Inputs of scorers, and files to decode, built from rows of a manifest that is in no database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from assets.ingest.rejects import Reject
from assets.ingest.rows import VideoRow
from assets.ingest.video_columns import inspect_video
from db.evidence.frames import StoredVideo
from db.schema.inputs import DRAW_NAME, KEYPOINTS, REFERENCES, SEGMENTS, TEXT, THRESHOLDS, VIDEO, VideoState


def build_unstored_inputs(
    sample: Mapping[str, Any],
    references: Sequence[Mapping[str, Any]],
    keypoints: Sequence[Mapping[str, Any]],
    state: VideoState,
) -> dict[str, Any]:
    """Build the inputs of the built-in metrics, by name, for a sample that is in no database. sample: the fields of its
    row. references, keypoints: the fields of the rows about its video, by order of their keys. state: that of the
    video.

    The input `text` is None, thresholds are the default ones, and the sample counts as drawn.

    >>> reference = {"caption_id": "r", "text": "A dog runs.", "segments": [{"start_s": 0, "end_s": 2}]}
    >>> inputs = build_unstored_inputs({"text": "A dog."}, [reference], [], VideoState("text_only"))
    >>> inputs["references"][0].text, inputs["segments"].references[0][0].end_s, inputs["keypoints"]
    ('A dog runs.', 2.0, ())
    """
    texts = [{"key": row["caption_id"], "text": row["text"]} for row in references]
    times = {
        "caption": sample.get("segments"),
        "references": [row.get("segments") for row in references],
        "parse_error": sample.get("parse_error"),
    }
    points = [
        {
            "keypoint_id": number,
            "key": row["keypoint_id"],
            "dimension": row["dimension"],
            "text": row["text"],
            "segment_index": row.get("segment_index"),
        }
        for number, row in enumerate(keypoints, 1)
    ]
    return {
        TEXT.name: None,
        REFERENCES.name: REFERENCES.decode(texts),
        SEGMENTS.name: SEGMENTS.decode(times),
        KEYPOINTS.name: KEYPOINTS.decode(points),
        VIDEO.name: state,
        THRESHOLDS.name: {},
        # It is scored because somebody named it.
        DRAW_NAME: True,
    }


def inspect_unstored_video(folder: Path, row: VideoRow, number: int) -> tuple[VideoState, list[StoredVideo]] | Reject:
    """Read and probe the video of a manifest's row, or fetch it from its address. Return the state that ingest would
    give it, and a list with its file, empty if it does not decode; or a Reject where ingest would refuse it.

    folder: that of the manifest. number: the video_id that the file gets.
    """
    columns = inspect_video(folder, row, None)
    if isinstance(columns, Reject):
        return columns
    state = VideoState(columns["status"], columns["error"])
    if state.status not in ("ok", "damaged"):
        return state, []
    known: dict[str, Any] = {"video_id": number, "key": row.video_id, **columns}
    return state, [StoredVideo(**{column.name: known[column.name] for column in fields(StoredVideo)})]
