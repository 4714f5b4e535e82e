"""The references of OmniDCBench: the timed segments of every clip, and the keypoints of the segments."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from assets.ingest import hygiene
from assets.ingest.files import convert_os_errors
from assets.ingest.hygiene import format_value
from assets.ingest.lines import read_lines
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.strict_json import parse_json_object
from lab.adapters.tables import Row

# The segments of OmniDCBench: their dimensions, their times in every notation, and their text.

# The manifest's name of every dimension by its name in the files, in the order of the SodaM paper.
DIMENSIONS = {
    "segment_detail_caption": "segment_detail",
    "video_background": "video_background",
    "acoustics_content": "acoustics",
    "shooting_style": "shooting_style",
    "speech_content": "speech_content",
    "camera_state": "camera_state",
}
# Predictions may have this field beside the six dimensions. It has no keypoints.
STORYLINE = "storyline"
TIMES = '"MM:SS-MM:SS", "HH:MM:SS-HH:MM:SS", seconds as "5-12.5" or as [5, 12.5]'

_BETWEEN = re.compile(r"[-–—]")
_TIME = re.compile(r"(?:(?:([0-9]+):)?([0-9]+):)?([0-9]+(?:\.[0-9]+)?)")


class Span(NamedTuple):
    """A stretch of time in seconds, 0 <= start_s <= end_s. `swapped` is True if it was written from end to start."""

    start_s: float
    end_s: float
    swapped: bool


def span_of(timestamp: object) -> Span | None:
    """The times of a segment, or None if they cannot be read.

    >>> span_of("01:00:05-01:02:10.5")
    Span(start_s=3605.0, end_s=3730.5, swapped=False)
    >>> span_of([12.5, 3])
    Span(start_s=3.0, end_s=12.5, swapped=True)
    >>> span_of("from the beginning") is None
    True
    """
    ends = _BETWEEN.split(timestamp) if isinstance(timestamp, str) else timestamp
    if not isinstance(ends, list) or len(ends) != 2:
        return None
    start, end = _seconds(ends[0]), _seconds(ends[1])
    if start is None or end is None:
        return None
    return Span(min(start, end), max(start, end), end < start)


def text_of(segment: Mapping[str, Any], fields: Iterable[str]) -> str:
    """The `caption` of a segment, or else its fields joined by line feeds; "" if it has no text at all.

    A field may come in two languages, as `camera_state` and `camera_state_en`; the English text is preferred.
    """
    if caption := _text(segment, "caption"):
        return caption
    return "\n".join(filter(None, (_text(segment, f"{name}_en") or _text(segment, name) for name in fields)))


def _text(segment: Mapping[str, Any], name: str) -> str:
    value = segment.get(name)
    return value.strip() if isinstance(value, str) else ""


def _seconds(time: object) -> float | None:
    if isinstance(time, str):
        match = _TIME.fullmatch(time.strip())
        if match is None:
            return None
        hours, minutes, seconds = (float(part or 0) for part in match.groups())
        value = 3600 * hours + 60 * minutes + seconds
    elif isinstance(time, int | float) and not isinstance(time, bool):
        value = float(time)
    else:
        return None
    return value if 0 <= value < math.inf else None


# The ids of captions and keypoints begin with the clip path, and this leaves room for the rest of them.
MAX_CLIP_PATH = 400
ANNOTATIONS = ("human_json_anno_en", "human_json_anno")


class Keypoint(NamedTuple):
    """A fact of one segment (from 0) and dimension (manifest's name); `place` is its position in its list, from 1."""

    segment: int
    dimension: str
    place: int
    text: str


@dataclass(frozen=True, slots=True)
class Clip:
    """The reference of a clip: rows of segments with start_s, end_s and text, and keypoints.

    n_swapped: segments whose times were written from end to start, and were swapped.
    n_dropped: keypoints without text or for the storyline, which were left out.
    """

    path: str
    segments: list[Row]
    keypoints: list[Keypoint]
    n_swapped: int
    n_dropped: int

    @property
    def text(self) -> str:
        """The texts of the segments, joined by line feeds; "" if no segment has a text."""
        return "\n".join(filter(None, (segment["text"] for segment in self.segments)))


def read_references(source: Path) -> list[Clip]:
    """The clips of a file, in its order. Raises ManifestError with file, line and field for the first fault."""
    clips: dict[str, Clip] = {}
    with convert_os_errors(source), source.open("rb") as file:
        for line in read_lines(file):
            if not line.data.strip():
                continue
            try:
                clip = _read_clip(line.data)
                if clip.path in clips:
                    raise _Fault(f"clip_path: {format_value(clip.path)} came before: give each clip once")
            except _Fault as fault:
                raise ManifestError(f"{source.name}, line {line.number}, {fault}") from None
            clips[clip.path] = clip
    if not clips:
        raise ManifestError(f"{source.name}: there is no clip in it: give JSON Lines, one object per clip")
    return list(clips.values())


class _Fault(ValueError):
    """A line cannot be used. The message has the field, the fault and the remedy."""


def _read_clip(line: bytes) -> Clip:
    record = parse_json_object(line)
    if isinstance(record, Reject):
        raise _Fault(f"the line: {record.reason}: give JSON Lines, one object per clip")
    path = record.get("clip_path")
    if not isinstance(path, str) or not path.strip() or len(path) > MAX_CLIP_PATH:
        raise _Fault(f"clip_path: it is {format_value(path)}: give a path of 1 to {MAX_CLIP_PATH} characters")
    annotated = {name: record[name] for name in ANNOTATIONS if record.get(name) is not None}
    name = next(filter(annotated.get, annotated), next(iter(annotated), ANNOTATIONS[-1]))
    if not isinstance(annotated.get(name), list):
        raise _Fault(f"{name}: it is {format_value(annotated.get(name))}: give the list of the clip's segments")
    segments: list[Row] = []
    everything: list[Keypoint] = []
    n_swapped = 0
    for i, segment in enumerate(annotated[name]):
        row, keypoints, swapped = _read_segment(f"{name}[{i}]", i, segment)
        segments.append(row)
        everything += keypoints
        n_swapped += swapped
    usable = [keypoint for keypoint in everything if keypoint.text.strip() and keypoint.dimension != STORYLINE]
    clip = Clip(path, segments, usable, n_swapped, len(everything) - len(usable))
    fault = hygiene.find_fault({"clip_path": path, name: [clip.text, segments, [keypoint.text for keypoint in usable]]})
    if fault is not None:
        raise _Fault(fault.reason)
    return clip


def _read_segment(field: str, index: int, segment: object) -> tuple[Row, list[Keypoint], bool]:
    """The row of the segment, all its keypoints, and whether its times were swapped."""
    if not isinstance(segment, dict):
        raise _Fault(f"{field}: it is {format_value(segment)}: give an object with timestamp, texts and keypoints")
    span = span_of(segment.get("timestamp"))
    if span is None:
        raise _Fault(f"{field}.timestamp: it is {format_value(segment.get('timestamp'))}: write it as {TIMES}")
    for name in ("caption", *DIMENSIONS, *(f"{name}_en" for name in DIMENSIONS)):
        if not isinstance(segment.get(name), str | None):
            raise _Fault(f"{field}.{name}: it is {format_value(segment[name])}: give a text")
    keypoints = list(_read_keypoints(f"{field}.keypoints", index, segment.get("keypoints") or {}))
    # A segment that has only keypoints gets their texts as its text.
    text = text_of(segment, DIMENSIONS) or "\n".join(keypoint.text for keypoint in keypoints).strip()
    return {"start_s": span.start_s, "end_s": span.end_s, "text": text}, keypoints, span.swapped


def _read_keypoints(field: str, index: int, by_dimension: object) -> Iterator[Keypoint]:
    names = {**DIMENSIONS, STORYLINE: STORYLINE}
    if not isinstance(by_dimension, dict):
        raise _Fault(f"{field}: it is {format_value(by_dimension)}: give an object of dimensions")
    if strange := [name for name in by_dimension if name.removesuffix("_en") not in names]:
        raise _Fault(f"{field}: {format_value(strange[0])} is no dimension: use {', '.join(DIMENSIONS)}")
    for name, dimension in names.items():
        answer = by_dimension.get(f"{name}_en") or by_dimension.get(name) or {}
        texts = answer.get("gt_keypoints") or [] if isinstance(answer, dict) else None
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise _Fault(f'{field}.{name}: it is {format_value(answer)}: give {{"gt_keypoints": a list of texts}}')
        for place, text in enumerate(texts, start=1):
            yield Keypoint(index, dimension, place, text)
