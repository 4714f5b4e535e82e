"""Writes a report's page (`index.html`) and its numbers (`report.json`), each whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from assets.reports.answer_records import ReportAnswers
from assets.reports.page import render_page
from assets.reports.records import Report
from assets.reports.sample_records import ShownSample
from assets.selection.partial_file import open_partial_file, remove_abandoned
from assets.trial.sentences import describe_trial

PAGE, NUMBERS = "index.html", "report.json"
PROBE = ".reelsieve-probe"


class ReportError(ValueError):
    """Raised when a report cannot be written; the message has the reason and a remedy."""

    plain = True


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """A report that was written: the paths of its page (index.html) and its numbers (report.json), its notices, and the
    answers of its first screen.
    """

    page: Path
    numbers: Path
    notices: tuple[str, ...]
    answers: ReportAnswers


def create_report_folder(folder: Path) -> Path:
    """Create a folder for a report, with its parents, unless it exists, and return its absolute path with ~ expanded.
    Removes partial files of killed processes. Raises ReportError where it cannot be created or written to.
    """
    try:
        target = folder.expanduser().resolve()
        target.mkdir(parents=True, exist_ok=True)
        remove_abandoned(target)
        with open_partial_file(target / PROBE):
            pass
        (target / PROBE).unlink()
    except (OSError, RuntimeError) as error:  # RuntimeError: the home folder of an unknown user
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ReportError(f"{folder}: no report can be written there ({reason}): name a folder with --to") from error
    return target


def write_report(report: Report, folder: Path) -> ReportFiles:
    """Plot and render a report's page, and write it to a folder as index.html, with its numbers as report.json. Return
    their paths with the notices and answers. Replaces these two files only. Raises ReportError where they cannot be
    written.
    """
    contents = {NUMBERS: format_report_json(report), PAGE: render_page(report)}
    try:
        for name, content in contents.items():
            with open_partial_file(folder / name) as file:
                file.write(content.encode())
    except OSError as error:
        raise ReportError(
            f"{folder}: the report cannot be written ({error.strerror}): fix this, or name another folder"
        ) from error
    return ReportFiles(folder / PAGE, folder / NUMBERS, report.notices, report.answers)


def format_report_json(report: Report) -> str:
    """Return the records of a report as JSON text, under the names of their fields. Frames and explanations of scores
    are left out.
    """
    plain = {field.name: getattr(report, field.name) for field in fields(report)}
    plain["estimated_means"] = [mean.as_dict() for mean in report.estimated_means]
    plain["trust"] = _drop_fields(asdict(report.trust), ("rows",))
    plain["trials"] = [describe_trial(trial) for trial in report.trials]
    plain["groups"] = {group.name: [_convert_sample(sample) for sample in group.samples] for group in report.groups}
    return json.dumps(plain, ensure_ascii=False, indent=1, default=_convert_plain)


def _convert_sample(sample: ShownSample) -> dict[str, Any]:
    """Return a shown sample as plain data, without frames and explanations."""
    return _drop_fields(asdict(sample), ("frames", "lines", "rows", "marks", "pieces"))


def _drop_fields(value: Any, names: tuple[str, ...]) -> Any:
    """Return nested plain data without the fields of these names."""
    if isinstance(value, dict):
        return {name: _drop_fields(part, names) for name, part in value.items() if name not in names}
    return [_drop_fields(part, names) for part in value] if isinstance(value, list | tuple) else value


def _convert_plain(value: Any) -> Any:
    """Return a value that JSON does not know as plain data: times as text, mappings and records as dicts."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return dict(value) if isinstance(value, Mapping) else asdict(value)
