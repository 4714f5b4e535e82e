"""Ratings from Label Studio: its JSON export of annotated tasks as raw rows of table `ratings`.

`reelsieve export --format label-studio` writes the tasks; labelstud.io/guide/task_format describes what comes back.
Options `--column` cannot map it: an aspect is the name of a control, and a rater mostly a number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from assets.ingest.files import open_file
from assets.ingest.hygiene import format_raw_row, format_value
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.rows import RawRow
from assets.ingest.strict_json import read_json

SUFFIX = ".json"
KIND = "rating"
# The beginning of the name of a rater that an export only numbers.
_RATER_PREFIX = "label-studio:"
_REMEDY = "export the project from Label Studio as JSON"


def read_rating_rows(path: Path) -> Iterator[RawRow]:
    """Yield a RawRow for each rating of each annotation in an export of Label Studio; its line is the number of its
    task in the file, from 1. Cancelled annotations and results of other controls are skipped. What cannot be read is a
    RawRow with a Reject.

    Raises ManifestError if the file cannot be read, or is no list of tasks.
    """
    with open_file(path) as file:
        tasks = read_json(file)
    if isinstance(tasks, Reject):
        raise ManifestError(f"{path.name}: {tasks.reason}: {_REMEDY}")
    if not isinstance(tasks, list):
        raise ManifestError(f"{path.name}: it is not a list of tasks: {_REMEDY}")
    for place, task in enumerate(tasks, start=1):
        for content in _parse_ratings(task):
            raw = format_raw_row(json.dumps(task, ensure_ascii=False).encode("utf-8", "backslashreplace"))
            if isinstance(content, Reject):
                yield RawRow(path.name, place, KIND, None, content, raw)
            else:
                yield RawRow(path.name, place, KIND, content, None, raw)


def _parse_ratings(task: Any) -> Iterator[dict[str, Any] | Reject]:
    """Yield the fields, or the Reject, of every rating of a task."""
    if not isinstance(task, dict):
        yield Reject("not_an_object", f"a task is {format_value(task)}, not an object: {_REMEDY}")
        return
    data, annotations = task.get("data"), task.get("annotations", [])
    sample = data.get("sample") if isinstance(data, dict) else None
    if not isinstance(sample, str):
        yield Reject(
            "missing_field",
            "a task has no 'sample' in its data: make the tasks with reelsieve export --format label-studio",
        )
        return
    if not isinstance(annotations, list):
        yield Reject("wrong_type", f"field 'annotations' is {format_value(annotations)}: {_REMEDY}, not as JSON-MIN")
        return
    for annotation in annotations:
        if not isinstance(annotation, dict) or not isinstance(annotation.get("result"), list):
            yield Reject("wrong_type", "an annotation has no list 'result': export the project as JSON")
        elif not annotation.get("was_cancelled"):
            yield from (
                _build_rating(sample, task, annotation, result) for result in annotation["result"] if _is_rating(result)
            )


def _is_rating(result: Any) -> bool:
    return isinstance(result, dict) and result.get("type") == "rating"


def _build_rating(
    sample: str, task: Mapping[str, Any], annotation: Mapping[str, Any], result: Mapping[str, Any]
) -> Any:
    """Build the fields of a row of table `ratings`; rater, time and annotation are among them."""
    value = result["value"].get("rating") if isinstance(result.get("value"), dict) else None
    row = {
        "caption_id": sample,
        "rater": _format_rater(annotation.get("completed_by")),
        "aspect": result.get("from_name"),
        "value": int(value) if isinstance(value, float) and value.is_integer() else value,
        "rated_at": annotation.get("updated_at") or annotation.get("created_at"),
        "lead_time_s": annotation.get("lead_time"),
        "tool": "label-studio",
        "task": task.get("id"),
        "annotation": annotation.get("id"),
    }
    return {name: value for name, value in row.items() if value is not None}


def _format_rater(completed_by: Any) -> str | None:
    """Return the rater's name: the mail address where an export has one, else a name made of the number; None without
    both.

    >>> _format_rater(7), _format_rater({"id": 7, "email": "ann@example.org"})
    ('label-studio:7', 'ann@example.org')
    """
    if isinstance(completed_by, dict):
        address = completed_by.get("email")
        return address if isinstance(address, str) and address else _format_rater(completed_by.get("id"))
    return (
        f"{_RATER_PREFIX}{completed_by}"
        if isinstance(completed_by, int) and not isinstance(completed_by, bool)
        else None
    )
