"""What a system predicted for the clips of OmniDCBench: files in three forms, and model output that may be broken."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from assets.ingest import hygiene
from assets.ingest.adapters.omnidcbench.segments import DIMENSIONS, STORYLINE, span_of, text_of
from assets.ingest.adapters.tables import Row
from assets.ingest.hygiene import shown
from assets.ingest.readers import readable
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.strict_json import parse, parse_object

# The first of these that holds anything counts: a script that could parse the output keeps both forms of it.
OUTPUT_FIELDS = ("prediction_json", "prediction", "pred")
MAX_RAW = 20_000

_FENCED = re.compile(r"```[a-zA-Z]*(.*?)(?:```|\Z)", re.DOTALL)
_CLIP_PATH = re.compile(r'"clip_path"\s*:\s*("(?:[^"\\]|\\.)*")')
_NOT_STORABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


class Output(NamedTuple):
    """What a file holds for a clip, and where: a list of segments or the text of one; else `fault` says why not."""

    clip_path: str
    where: str
    value: Any
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """A caption read from an output: its text, and rows of the segments that have times; or why there is none.

    A segment without text is unreadable. One whose times cannot be read is untimed: its text stays in the caption's.
    """

    text: str = ""
    segments: list[Row] = field(default_factory=list)
    n_unreadable: int = 0
    n_untimed: int = 0
    n_swapped: int = 0
    parse_error: str | None = None
    raw: str | None = None


def read_outputs(source: Path) -> tuple[list[Output], int]:
    """The outputs of a file, JSON Lines or one object {clip_path: segments}, and how many lines name no clip.

    Raises ManifestError where the file cannot be read or names no clip at all.
    """
    with readable(source):
        content = source.read_bytes().removeprefix(codecs.BOM_UTF8)
    whole = parse_object(content)
    if isinstance(whole, dict) and "clip_path" not in whole:
        return [Output(clip, f"{source.name}, clip {shown(clip)}", value) for clip, value in whole.items()], 0
    lines = [(number, line) for number, line in enumerate(content.split(b"\n"), start=1) if line.strip()]
    found = [_output(line, f"{source.name}, line {number}") for number, line in lines]
    outputs = [output for output in found if output is not None]
    if not outputs:
        whole_fault = f" ({whole.reason})" if isinstance(whole, Reject) else ""
        raise ManifestError(
            f"{source.name}: no line names a clip, and it is not one JSON object{whole_fault}: give JSON Lines with "
            f"clip_path and {' or '.join(OUTPUT_FIELDS)}, or one object {{clip_path: list of segments}}"
        )
    return outputs, len(lines) - len(outputs)


def read_prediction(output: Output) -> Prediction:
    """The caption of an output, or one with an empty text that says why nothing could be read and keeps what was."""
    value, fault = output.value, output.fault
    if fault is None and isinstance(value, str):
        value = parse(_unfenced(value))
        fault = value.reason if isinstance(value, Reject) else None
    if fault is None and not isinstance(value, list):
        fault = f"it is {shown(value)}, not a list of segments"
    if fault is None:
        prediction = _read_segments(value)
        too_long = hygiene.check({"text": prediction.text})
        if prediction.text and too_long is None:
            return prediction
        fault = too_long.reason if too_long else f"none of its {len(value)} segments holds a text"
    return Prediction(parse_error=_storable(f"{output.where}: {fault}"), raw=_raw(output.value))


def _output(line: bytes, where: str) -> Output | None:
    record = parse_object(line)
    if isinstance(record, dict):
        path = record.get("clip_path")
        value = next((record[name] for name in OUTPUT_FIELDS if record.get(name)), None)
        fault = None if value else f"{', '.join(OUTPUT_FIELDS)} are all absent or empty"
        return Output(path, where, value, fault) if isinstance(path, str) else None
    # A line that broke off still says whose it is.
    text = line.decode("utf-8", "backslashreplace")
    found = _CLIP_PATH.search(text)
    path = parse(found[1]) if found else None
    return Output(path, where, text, record.reason) if isinstance(path, str) else None


def _unfenced(text: str) -> str:
    """The inside of the first ```json fence, unless the text is JSON from its first character."""
    found = None if text.lstrip().startswith(("[", "{")) else _FENCED.search(text)
    return found[1] if found else text


def _read_segments(items: Sequence[object]) -> Prediction:
    texts: list[str] = []
    segments: list[Row] = []
    n_swapped = 0
    for item in items:
        segment = item if isinstance(item, dict) else {}
        text = text_of(segment, (*DIMENSIONS, STORYLINE))
        if not text or hygiene.check({"text": text}) is not None:
            continue
        texts.append(text)
        span = span_of(segment.get("timestamp"))
        if span is not None:
            segments.append({"start_s": span.start_s, "end_s": span.end_s, "text": text})
            n_swapped += span.swapped
    n_unreadable, n_untimed = len(items) - len(texts), len(texts) - len(segments)
    return Prediction("\n".join(texts), segments, n_unreadable, n_untimed, n_swapped)


def _raw(value: object) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _storable(text)[:MAX_RAW]


def _storable(text: str) -> str:
    return _NOT_STORABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
