"""Rewrites the files of OmniDCBench as the tables of a manifest."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from assets.ingest.adapters.omnidcbench.labels import covered_keypoints, read_judgements
from assets.ingest.adapters.omnidcbench.paths import match_clips
from assets.ingest.adapters.omnidcbench.predictions import Prediction, read_outputs, read_prediction
from assets.ingest.adapters.omnidcbench.references import Clip, Keypoint, read_references
from assets.ingest.adapters.tables import Row, write_tables
from assets.ingest.hygiene import shown
from assets.ingest.rejects import ManifestError

REFERENCE = "reference"
MAX_SYSTEM = 100


def convert(
    references: Path, folder: Path, *, predictions: Mapping[str, Path], labels: Mapping[str, Path] | None = None
) -> dict[str, Any]:
    """Write videos, captions, keypoints and keypoint_labels, and return counts; `systems` has the counts by system.

    `predictions` and `labels` are files by system. A clip that a system has no prediction for has no candidate of that
    system; `missing` counts such clips. An unreadable prediction becomes a candidate with an empty text, a
    `parse_error` and the `raw` output. Ids are `<clip>__reference`, `<clip>__<system>` and
    `<clip>__<segment>__<dimension>__<place>`. Videos have no duration, so that ingest does not refuse a prediction that
    ends after its clip.

    Raises ManifestError, before anything is written, for references or labels of another form, for the name of a system
    that would make ids ambiguous, and for a path that fits two clips.
    """
    labels = labels or {}
    _check_systems(predictions, labels)
    clips = {clip.path: clip for clip in read_references(references)}
    captions = [_caption_row(clip, REFERENCE, clip.text, clip.segments) for clip in clips.values() if clip.text]
    counts: dict[str, Any] = {
        "clips": len(clips),
        "references": len(captions),
        "keypoints": sum(len(clip.keypoints) for clip in clips.values()),
        "swapped": sum(clip.n_swapped for clip in clips.values()),
        "dropped": sum(clip.n_dropped for clip in clips.values()),
        "systems": {},
    }
    label_rows: list[Row] = []
    for system, source in predictions.items():
        rows, of_system = _candidates(clips, system, source)
        captions += rows
        if system in labels:
            labelled, of_judge = _labels(clips, system, labels[system], {row["video_id"] for row in rows})
            label_rows += labelled
            of_system |= of_judge
        counts["systems"][system] = of_system
    tables = {
        "videos": [{"video_id": clip} for clip in clips],
        "captions": captions,
        "keypoints": [_keypoint_row(clip.path, keypoint) for clip in clips.values() for keypoint in clip.keypoints],
        "keypoint_labels": label_rows,
    }
    write_tables(folder, tables)
    return counts


def _check_systems(predictions: Mapping[str, Path], labels: Mapping[str, Path]) -> None:
    for system in predictions:
        # With such a name the last __ of `<clip>__<system>` parts clip and system, and no two captions share an id.
        is_clear = system.strip() and system != REFERENCE and not system.startswith("_") and "__" not in system
        if not is_clear or len(system) > MAX_SYSTEM:
            raise ManifestError(
                f"system {shown(system)}: its name is part of ids: give one of 1 to {MAX_SYSTEM} characters other than "
                f"{REFERENCE!r} that does not begin with _ and has no two _ side by side"
            )
    if strange := [system for system in labels if system not in predictions]:
        raise ManifestError(f"labels of {shown(strange[0])}: give the predictions of this system too")


def _candidates(clips: Mapping[str, Clip], system: str, source: Path) -> tuple[list[Row], dict[str, int]]:
    """The rows of the system's captions in the order of the clips, and their counts."""
    outputs, n_lost = read_outputs(source)
    clip_of = match_clips([output.clip_path for output in outputs], clips, source.name)
    matched = [output for output in outputs if output.clip_path in clip_of]
    # A script that is started again appends its new outputs to the old ones, so the last output of a clip counts.
    latest = {clip_of[output.clip_path]: output for output in matched}
    read = {clip: read_prediction(latest[clip]) for clip in clips if clip in latest}
    counts = {
        "predictions": len(read),
        "malformed": sum(prediction.parse_error is not None for prediction in read.values()),
        "missing": len(clips) - len(read),
        "swapped": sum(prediction.n_swapped for prediction in read.values()),
        "unreadable_segments": sum(prediction.n_unreadable for prediction in read.values()),
        "untimed_segments": sum(prediction.n_untimed for prediction in read.values()),
        "repeated": len(matched) - len(latest),
        "unmatched": len(outputs) - len(matched),
        "lines_without_clip": n_lost,
    }
    return [_candidate_row(clips[clip], system, prediction) for clip, prediction in read.items()], counts


def _labels(
    clips: Mapping[str, Clip], system: str, source: Path, captioned: Collection[str]
) -> tuple[list[Row], dict[str, int]]:
    """The label rows of every clip that has a judgement and a caption by the system, and their counts."""
    judgements = read_judgements(source)
    path_of = {clip: path for path, clip in match_clips(judgements, clips, source.name).items() if clip in captioned}
    rows: list[Row] = []
    n_unmatched = 0
    for clip in filter(path_of.__contains__, clips):
        keypoints = clips[clip].keypoints
        covered, unmatched = covered_keypoints(keypoints, judgements[path_of[clip]])
        rows += [_label_row(clip, system, *pair) for pair in zip(keypoints, covered, strict=True)]
        n_unmatched += unmatched
    ignored = len(judgements) - len(path_of)
    return rows, {"labels": len(rows), "judge_unmatched": n_unmatched, "judgements_without_caption": ignored}


def _caption_row(clip: Clip, system: str, text: str, segments: Sequence[Row]) -> Row:
    row: Row = {
        "caption_id": f"{clip.path}__{system}",
        "video_id": clip.path,
        "role": REFERENCE if system == REFERENCE else "candidate",
        "system": system,
        "text": text,
    }
    return {**row, "segments": list(segments)} if segments else row


def _candidate_row(clip: Clip, system: str, prediction: Prediction) -> Row:
    notes = {
        "unreadable_segments": prediction.n_unreadable,
        "untimed_segments": prediction.n_untimed,
        "parse_error": prediction.parse_error,
        "raw": prediction.raw,
    }
    row = _caption_row(clip, system, prediction.text, prediction.segments)
    return {**row, **{name: note for name, note in notes.items() if note}}


def _keypoint_id(clip: str, keypoint: Keypoint) -> str:
    return f"{clip}__{keypoint.segment}__{keypoint.dimension}__{keypoint.place}"


def _keypoint_row(clip: str, keypoint: Keypoint) -> Row:
    return {
        "keypoint_id": _keypoint_id(clip, keypoint),
        "video_id": clip,
        "dimension": keypoint.dimension,
        "text": keypoint.text,
        "segment_index": keypoint.segment,
    }


def _label_row(clip: str, system: str, keypoint: Keypoint, covered: bool) -> Row:
    return {"keypoint_id": _keypoint_id(clip, keypoint), "caption_id": f"{clip}__{system}", "covered": covered}
