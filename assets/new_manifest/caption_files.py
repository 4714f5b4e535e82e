"""The captions in the files that belong to one video: .txt, .json, .vtt and .srt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from assets.ingest import strict_json
from assets.ingest.hygiene import is_blank
from assets.ingest.lines import MAX_ROW_BYTES
from assets.ingest.rejects import Reject
from assets.new_manifest.columns import captions_in, fields_of_its_own, guess_columns
from assets.new_manifest.found import Caption, Findings
from assets.new_manifest.subtitles import segments_of

# In the order of trust: where a video has several, the first that holds a caption counts.
CAPTION_SUFFIXES = (".txt", ".json", ".vtt", ".srt")
# One byte more tells a file that is too long.
READ_BYTES = MAX_ROW_BYTES + 1


class CaptionFile(NamedTuple):
    """A file: how people find it, its suffix in small letters, and its content up to READ_BYTES."""

    name: str
    suffix: str
    data: bytes

    @classmethod
    def of(cls, path: str, data: bytes) -> CaptionFile:
        """The file at a path."""
        return cls(path, PurePosixPath(path).suffix.lower(), data)


def captions_of(files: list[CaptionFile], findings: Findings) -> tuple[Caption, ...]:
    """The captions of one video, from its files of the most trusted kind.

    The fields of a JSON object become own fields of the caption that stands in a text file beside it. A file that
    cannot be read, or holds no caption where no other one does, is left out with the reason.
    """
    empty: list[str] = []
    for suffix in CAPTION_SUFFIXES:
        captions: list[Caption] = []
        for file in files:
            if file.suffix == suffix and (content := _content(file, findings)) is not None:
                found = _captions(content, file, findings)
                captions += found
                empty += [] if found else [file.name]
        if captions:
            if len({file.suffix for file in files}) > 1:
                findings.guess("where a video has several caption files, .txt counts before .json, .vtt and .srt")
            extra = _fields_beside(files, findings) if suffix == ".txt" else {}
            return tuple(replace(each, extra={**extra, **each.extra}) for each in captions)
    for name in empty:
        findings.leave_out("a caption file without a caption", name)
    return ()


def _content(file: CaptionFile, findings: Findings) -> str | None:
    if len(file.data) > MAX_ROW_BYTES:
        findings.leave_out(f"a caption file of more than {MAX_ROW_BYTES} bytes", file.name)
        return None
    try:
        return file.data.decode("utf-8-sig")
    except UnicodeDecodeError:
        findings.leave_out("a caption file that is not valid UTF-8: save it as UTF-8", file.name)
        return None


def _captions(content: str, file: CaptionFile, findings: Findings) -> list[Caption]:
    """The captions in a file; a text file and one of subtitles hold one."""
    if file.suffix == ".json":
        return _of_json(strict_json.parse(content), file.name, findings)
    if file.suffix == ".txt":
        return [] if is_blank(content) else [Caption(content.strip())]
    segments = segments_of(content)
    return [Caption(" ".join(segment["text"] for segment in segments), segments=segments)] if segments else []


def _fields_beside(files: list[CaptionFile], findings: Findings) -> Mapping[str, Any]:
    """The fields of the JSON objects beside a text file, but for captions."""
    fields: dict[str, Any] = {}
    for file in files:
        content = _content(file, findings) if file.suffix == ".json" else None
        value = None if content is None else strict_json.parse(content)
        if isinstance(value, dict):
            fields |= fields_of_its_own(value, guess_columns(value), findings)
    return fields


def _of_json(value: Any, name: str, findings: Findings) -> list[Caption]:
    """A text, an object with a field such as `caption`, or a list of these."""
    if isinstance(value, Reject):
        findings.leave_out("a caption file that is not valid JSON", name)
        return []
    captions: list[Caption] = []
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, dict):
            columns = guess_columns(each)
            captions += captions_in(each, columns, name, findings)
            if columns.caption:
                findings.guess(f"captions of JSON files in field {columns.caption!r}")
        elif isinstance(each, str) and not is_blank(each):
            captions.append(Caption(each.strip()))
    return captions
