"""Predictions of a system for the clips of OmniDCBench: files in three forms, with model output that may be broken."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from assets.ingest import hygiene
from assets.ingest.files import convert_os_errors
from assets.ingest.hygiene import format_value
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.strict_json import parse_json, parse_json_object
from assets.words.text import CONTROLS
from lab.adapters.omnidcbench.references import DIMENSIONS, STORYLINE, span_of, text_of
from lab.adapters.tables import Row

# The first of these fields that is not empty counts: some scripts keep the output both as parsed and as text.
OUTPUT_FIELDS = ("prediction_json", "prediction", "pred")
MAX_RAW = 20_000

_FENCED = re.compile(r"```[a-zA-Z]*(.*?)(?:```|\Z)", re.DOTALL)
_CLIP_PATH = re.compile(r'"clip_path"\s*:\s*("(?:[^"\\]|\\.)*")')
_NOT_STORABLE = re.compile(f"[{CONTROLS}]")


class Output(NamedTuple):
    """The model output for a clip: a list of segments, or such a list as text. `where` names file and line.

    `fault` is the reason why there is no usable output, or None.
    """

    clip_path: str
    where: str
    value: Any
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """A caption that was read from an output: its text and the rows of its timed segments, or a `parse_error`.

    A segment without text is unreadable. A segment whose times cannot be read is untimed: the caption keeps its text.
    """

    text: str = ""
    segments: list[Row] = field(default_factory=list)
    n_unreadable: int = 0
    n_untimed: int = 0
    n_swapped: int = 0
    parse_error: str | None = None
    raw: str | None = None


def read_outputs(source: Path) -> tuple[list[Output], int]:
    """The outputs in a file, and the number of lines that name no clip.

    The file is JSON Lines, or one object {clip_path: segments}. Raises ManifestError if it cannot be read or names no
    clip at all.
    """
    with convert_os_errors(source):
        content = source.read_bytes().removeprefix(codecs.BOM_UTF8)
    whole = parse_json_object(content)
    if isinstance(whole, dict) and "clip_path" not in whole:
        return [Output(clip, f"{source.name}, clip {format_value(clip)}", value) for clip, value in whole.items()], 0
    lines = [(number, line) for number, line in enumerate(content.split(b"\n"), start=1) if line.strip()]
    parsed = [_output(line, f"{source.name}, line {number}") for number, line in lines]
    outputs = [output for output in parsed if output is not None]
    if not outputs:
        whole_fault = f" ({whole.reason})" if isinstance(whole, Reject) else ""
        raise ManifestError(
            f"{source.name}: no line names a clip, and it is not one JSON object{whole_fault}: give JSON Lines with "
            f"clip_path and {' or '.join(OUTPUT_FIELDS)}, or one object {{clip_path: list of segments}}"
        )
    return outputs, len(lines) - len(outputs)


def read_prediction(output: Output) -> Prediction:
    """The caption in an output. If nothing can be read, it has an empty text, the reason, and the output as `raw`."""
    value, fault = output.value, output.fault
    if fault is None and isinstance(value, str):
        value = parse_json(_unfenced(value))
        fault = value.reason if isinstance(value, Reject) else None
    if fault is None and not isinstance(value, list):
        fault = f"it is {format_value(value)}, not a list of segments"
    if fault is None:
        prediction = _read_segments(value)
        too_long = hygiene.find_fault({"text": prediction.text})
        if prediction.text and too_long is None:
            return prediction
        fault = too_long.reason if too_long else f"none of its {len(value)} segments holds a text"
    return Prediction(parse_error=_storable(f"{output.where}: {fault}"), raw=_raw(output.value))


def _output(line: bytes, where: str) -> Output | None:
    record = parse_json_object(line)
    if isinstance(record, dict):
        path = record.get("clip_path")
        value = next((record[name] for name in OUTPUT_FIELDS if record.get(name)), None)
        fault = None if value else f"{', '.join(OUTPUT_FIELDS)} are all absent or empty"
        return Output(path, where, value, fault) if isinstance(path, str) else None
    # A line that is cut off may still name its clip.
    text = line.decode("utf-8", "backslashreplace")
    match = _CLIP_PATH.search(text)
    path = parse_json(match[1]) if match else None
    return Output(path, where, text, record.reason) if isinstance(path, str) else None


def _unfenced(text: str) -> str:
    """The text inside the first ```json fence, or the whole text if it begins as JSON or has no fence."""
    match = None if text.lstrip().startswith(("[", "{")) else _FENCED.search(text)
    return match[1] if match else text


def _read_segments(items: Sequence[object]) -> Prediction:
    texts: list[str] = []
    segments: list[Row] = []
    n_swapped = 0
    for item in items:
        segment = item if isinstance(item, dict) else {}
        text = text_of(segment, (*DIMENSIONS, STORYLINE))
        if not text or hygiene.find_fault({"text": text}) is not None:
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
    return _NOT_STORABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
