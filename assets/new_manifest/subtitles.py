"""Subtitles as timed text: WebVTT (.vtt) and SubRip (.srt)."""

from __future__ import annotations

import html
import re
from typing import Any

_TIME = r"(?:(\d+):)?(\d{1,2}):(\d{1,2})[.,](\d{1,3})"
_TIMES = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}")
_TAG = re.compile(r"</?[^<>]*>")


def segments_of(content: str) -> list[dict[str, Any]]:
    """The cues of subtitles in order, with `start_s` and `end_s` in seconds and `text` on one line.

    Cues without text are left out; tags, numbers, notes and styles are no text. A cue that repeats the last line of the
    one before it, as rolling subtitles do, adds only what is new.

    >>> segments_of("WEBVTT\\n\\n00:01.000 --> 00:02.500\\nA <i>cat</i>\\nsleeps.\\n")
    [{'start_s': 1.0, 'end_s': 2.5, 'text': 'A cat sleeps.'}]
    """
    segments: list[dict[str, Any]] = []
    shown: list[str] = []
    for block in re.split(r"\n[ \t]*\n", content.replace("\r\n", "\n").replace("\r", "\n")):
        lines = block.strip("\n").split("\n")
        place = next((n for n, line in enumerate(lines[:2]) if _TIMES.match(line)), None)
        if place is None:
            continue
        times = _TIMES.match(lines[place])
        text = [html.unescape(_TAG.sub("", line)).strip() for line in lines[place + 1 :]]
        text = [line for line in text if line]
        new = text[1:] if shown and text and text[0] == shown[-1] and len(text) > 1 else text
        shown = text or shown
        if new and times is not None:
            start, end = _seconds(times.groups()[:4]), _seconds(times.groups()[4:])
            segments.append({"start_s": start, "end_s": max(start, end), "text": " ".join(new)})
    return segments


def _seconds(parts: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, fraction = (part or "0" for part in parts)
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + int(fraction.ljust(3, "0")) / 1000
