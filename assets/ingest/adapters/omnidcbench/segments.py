"""The segments of OmniDCBench: their dimensions, their times in every notation, and their text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

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
