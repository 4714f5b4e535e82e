"""Rewrites the files of OmniDCBench as the tables of a manifest."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from assets.ingest.hygiene import format_value
from assets.ingest.rejects import ManifestError
from lab.adapters.omnidcbench.predictions import Prediction, read_outputs, read_prediction
from lab.adapters.omnidcbench.references import DIMENSIONS, Clip, Keypoint, read_references
from lab.adapters.tables import Row, read_models, write_tables

# Clip paths of OmniDCBench: predictions and judgements may name a clip by another folder than the references.


def match_clips(paths: Iterable[str], clips: Collection[str], source: str) -> dict[str, str]:
    """The clips by path: the clip of the same path, else the only clip with the same file name.

    Paths without a clip are left out. A clip whose full path is among `paths` gets no other path. Raises ManifestError
    if a file name fits two clips, or if two paths fit one clip.

    >>> match_clips(["a/1.mp4", "elsewhere/2.mp4", "b/3.mp4"], ["a/1.mp4", "a/2.mp4"], "predictions.jsonl")
    {'a/1.mp4': 'a/1.mp4', 'elsewhere/2.mp4': 'a/2.mp4'}
    """
    known = set(clips)
    distinct_paths = list(dict.fromkeys(paths))
    matched = {path: path for path in distinct_paths if path in known}
    by_name: dict[str, list[str]] = {}
    for clip in clips:
        by_name.setdefault(_file_name(clip), []).append(clip)
    path_by_clip: dict[str, str] = {}
    for path in distinct_paths:
        alike = by_name.get(_file_name(path), [])
        if path in matched or all(clip in matched for clip in alike):
            continue
        if len(alike) > 1:
            raise ManifestError(f"{source}: {path!r} may be {alike[0]!r} or {alike[1]!r}: give full clip paths")
        if (other := path_by_clip.setdefault(alike[0], path)) != path:
            raise ManifestError(f"{source}: {other!r} and {path!r} may both be {alike[0]!r}: give full clip paths")
    return {**matched, **{path: clip for clip, path in path_by_clip.items()}}


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]


# Judgements of a language model on captions of OmniDCBench, as one boolean per keypoint.

REMEDY = 'give one object per clip: {"clip_path": .., "by_dim": {dimension: {"correct_keypoints": a list of texts}}}'
_ENDS_OF_SENTENCES = " .,;:!?。、"


class _Answer(BaseModel):
    # Judges return values of all types. A value that is not the text of a keypoint is counted.
    correct_keypoints: list[Any]


class _Judgement(BaseModel):
    clip_path: str
    by_dim: dict[str, _Answer]


def read_judgements(source: Path) -> dict[str, list[tuple[str, object]]]:
    """The keypoints that the judge calls covered, by clip path, as pairs of dimension (manifest's name) and text.

    The judge's own counts may contradict its lists and are not read. Raises ManifestError, with file, line and field,
    for a line of another form, and for a clip that comes twice.
    """
    judgements: dict[str, list[tuple[str, object]]] = {}
    for judgement in read_models(source, _Judgement, REMEDY):
        if judgement.clip_path in judgements:
            raise ManifestError(f"{source.name}: clip {judgement.clip_path!r} is judged twice: keep one of the lines")
        judgements[judgement.clip_path] = [
            (DIMENSIONS.get(name.removesuffix("_en"), name), text)
            for name, answer in judgement.by_dim.items()
            for text in answer.correct_keypoints
        ]
    return judgements


def covered_keypoints(keypoints: Sequence[Keypoint], returned: Sequence[tuple[str, object]]) -> tuple[list[bool], int]:
    """Whether the judge returned each keypoint, in their order, and the number of returned texts without a keypoint.

    Case, white space, Unicode forms and punctuation at the end do not count when texts are compared. A returned text
    covers the first keypoint with this text that is not covered yet, so two equal keypoints need two returned texts.

    >>> points = [Keypoint(0, "acoustics", place, "Rain falls.") for place in (1, 2)]
    >>> covered_keypoints(points, [("acoustics", "rain  FALLS"), ("acoustics", "Thunder.")])
    ([True, False], 1)
    """
    waiting = Counter((dimension, _compared(text)) for dimension, text in returned)
    covered = []
    for keypoint in keypoints:
        key = keypoint.dimension, _compared(keypoint.text)
        covered.append(waiting[key] > 0)
        waiting[key] -= covered[-1]
    return covered, sum(waiting.values())


def _compared(text: object) -> str | None:
    if not isinstance(text, str):
        return None
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(_ENDS_OF_SENTENCES)


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
                f"system {format_value(system)}: its name is part of ids: give 1 to {MAX_SYSTEM} characters other than "
                f"{REFERENCE!r} that does not begin with _ and has no two _ side by side"
            )
    if strange := [system for system in labels if system not in predictions]:
        raise ManifestError(f"labels of {format_value(strange[0])}: give the predictions of this system too")


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
