"""Cues of WebVTT and SubRip files as segments of a caption. Whatever is not taken over is named."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple

from assets.new_manifest.findings import Reason

_TIME = r"(?:(\d{1,6}):)?(\d{1,2}):(\d{1,2})(?:[.,](\d+))?"
_TIMES = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?!\S)")
_LIKE_TIMES = re.compile(r"\s*-?\d[\d:.,\s]*-->")
# Tags of WebVTT and HTML, times inside a cue, and the positions of SubStation files.
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<[\d:.]*>|</>|\{\\[^{}]*\}")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_COMMENT = re.compile(r"(NOTE|STYLE|REGION)(\s|$)")
# Cues of rolling subtitles follow each other at once, or show what both have for a moment.
_LONGEST_PAUSE_S, _MOMENT_S = 0.5, 0.05
# Lines that a rolling cue shares with the one before at most, and words that the cues of such a file share at least.
_LINES, _FEWEST_REPEATED = 4, 3


class Subtitles(NamedTuple):
    """The segments of a file of subtitles in the order of their times: dicts of `start_s`, `end_s` and `text` on one
    line; and a reason for each thing that was left out.
    """

    segments: list[dict[str, Any]]
    left_out: list[Reason]


@dataclass(slots=True)
class _Cue:
    start_s: float
    end_s: float
    lines: list[list[str]]  # of words

    @property
    def words(self) -> list[str]:
        return list(chain.from_iterable(self.lines))


def parse_subtitles(content: str) -> Subtitles:
    """Parse the cues of WebVTT or SubRip. Tags, numbers, notes and styles are no text. Blank lines in a cue, or none
    between two, do no harm. Where cues roll, so that each repeats the one before, every phrase is taken once, from the
    time at which it appears.

    >>> parse_subtitles("WEBVTT\\n\\n00:01.000 --> 00:02.500\\nA <i>cat</i>\\nsleeps.\\n").segments
    [{'start_s': 1.0, 'end_s': 2.5, 'text': 'A cat sleeps.'}]
    """
    left_out: list[Reason] = []
    cues: list[_Cue] = []
    in_file = [cue for cue in _read_cues(re.split(r"\r\n|\r|\n", content), left_out) if cue.words]
    for before, cue in pairwise(in_file):
        if cue.start_s < before.start_s:
            left_out.append(Reason.UNSORTED_CUE)
    for cue in sorted(in_file, key=lambda cue: cue.start_s):
        if cue in cues[-1:]:
            left_out.append(Reason.REPEATED_CUE)
        else:
            cues.append(cue)
    for cue in cues:
        if cue.end_s < cue.start_s:
            left_out.append(Reason.CUE_WITHOUT_END)
            cue.end_s = cue.start_s
    segments = [
        {"start_s": cue.start_s, "end_s": cue.end_s, "text": " ".join(cue.words[n:])}
        for cue, n in zip(cues, _count_rolled_words(cues), strict=True)
        if n < len(cue.words)
    ]
    return Subtitles(segments, left_out)


def _count_rolled_words(cues: list[_Cue]) -> list[int]:
    """Count the words at the beginning of each cue that belong to the one before: 0 unless most cues roll."""
    repeated = [_count_repeated_words(before, cue) for before, cue in pairwise(cues)]
    # "No." after "No." stands twice, but not where it is shown for a moment, or where more follows.
    rolling = [
        n
        for n, cue in zip(repeated, cues[1:], strict=True)
        if n < len(cue.words) or cue.end_s - cue.start_s <= _MOMENT_S
    ]
    is_rolling = 2 * sum(n > 0 for n in rolling) >= len(repeated) and sum(rolling) >= _FEWEST_REPEATED
    return [0, *repeated][: len(cues)] if is_rolling else [0] * len(cues)


def _read_cues(lines: list[str], left_out: list[Reason]) -> Iterator[_Cue]:
    """Yield the cues of the lines of a file in their order, with clean lines; there may be none."""
    has_header = lines[0].startswith("WEBVTT")
    places = [place for place, line in enumerate(lines) if _LIKE_TIMES.match(line)]
    # The lines of a cue reach from its times to the name or number of the next cue.
    numbers: list[int | None] = [None]
    ends = []
    for place in places:
        end, number = _find_name(lines, place, numbers, has_header)
        ends.append(end)
        numbers.append(number)
    before = lines[: ends[0] if ends else None]
    if has_header:
        before = list(_skip_comments(before[before.index("") :])) if "" in before else []
    if any(map(str.strip, before)):
        left_out.append(Reason.TEXT_BEFORE_CUES)
    for place, end in zip(places, [*ends, len(lines)][1:], strict=True):
        times = _TIMES.match(lines[place])
        if times is None:
            left_out.append(Reason.UNREADABLE_CUE)
            continue
        text = lines[place + 1 : end]
        words = [_clean(line).split() for line in (_skip_comments(text) if has_header else text)]
        yield _Cue(_seconds(times.groups()[:4]), _seconds(times.groups()[4:]), [line for line in words if line])


def _find_name(lines: list[str], place: int, numbers: list[int | None], has_header: bool) -> tuple[int, int | None]:
    """Return the place of the name or number of the cue whose times are at `place`, or `place`, and its number, if any.
    numbers: of the cues before.
    """
    above = next((at for at in range(place - 1, -1, -1) if lines[at].strip()), -1)
    if above < 0 or _LIKE_TIMES.match(lines[above]):
        return place, None
    text = lines[above].strip()
    is_near, is_apart = above == place - 1, above == 0 or not lines[above - 1].strip()
    if text.isdecimal() and len(text) < 10:
        follows = numbers[-1] is not None and int(text) == numbers[-1] + 1
        if follows or (is_near and (is_apart or numbers[-1] is not None)) or len(numbers) == 1:
            return above, int(text)
    is_name = has_header and is_near and is_apart and above > 0
    return (above if is_name else place), None


def _skip_comments(lines: list[str]) -> Iterator[str]:
    """Yield the lines of a cue without the notes, styles and regions behind it, each up to an empty line."""
    is_comment = False
    for before, line in pairwise(["-", *lines]):
        is_comment = (is_comment and line != "") or (before == "" and bool(_COMMENT.match(line)))
        if not is_comment:
            yield line


def _clean(line: str) -> str:
    return html.unescape(_TAG.sub("", _BREAK.sub(" ", line)))


def _count_repeated_words(before: _Cue, cue: _Cue) -> int:
    """Count the words at the beginning of a cue that the cue before still shows: whole lines of either at its end."""
    if cue.start_s - before.end_s > _LONGEST_PAUSE_S:
        return 0
    shown, words = before.words, cue.words
    counts = [*accumulate(map(len, cue.lines[:_LINES])), *accumulate(map(len, before.lines[: -_LINES - 1 : -1]))]
    return max((n for n in counts if shown[-n:] == words[:n]), default=0)


def _seconds(parts: tuple[str | None, ...]) -> float:
    hours, minutes, seconds, fraction = (part or "0" for part in parts)
    return int(hours) * 3600 + int(minutes) * 60 + float(f"{seconds}.{fraction[:9]}")
