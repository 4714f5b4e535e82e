"""The files of a report: its page and its numbers, both written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from assets.reports.answer import Answers
from assets.reports.facts import Report
from assets.reports.page import render
from assets.reports.page_figures import draw
from assets.reports.sample_facts import SampleFacts
from assets.selection.partial_file import partial_file, remove_abandoned

PAGE, NUMBERS = "index.html", "report.json"
PROBE = ".reelsieve-probe"
AGREEMENT_FIELDS = (
    "metric",
    "aspect",
    "grouping",
    "statistic",
    "value",
    "low",
    "high",
    "n",
    "n_undefined",
    "baseline",
)


class ReportError(ValueError):
    """A report that cannot be written; the message says why and what to do."""

    plain = True


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """Where a report lies, what a reader must know first, and what it answers."""

    page: Path
    numbers: Path
    notices: tuple[str, ...]
    answers: Answers


def writable_folder(folder: Path) -> Path:
    """Make a folder for a report, and return its absolute path.

    Raises ReportError where it cannot be made or written to: better before the work than after it.
    """
    try:
        target = folder.expanduser().resolve()
        target.mkdir(parents=True, exist_ok=True)
        remove_abandoned(target)
        with partial_file(target / PROBE):
            pass
        (target / PROBE).unlink()
    except (OSError, RuntimeError) as error:  # RuntimeError: the home folder of nobody
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ReportError(f"{folder}: no report can be written there ({reason}): name a folder with --to") from error
    return target


def write_report(report: Report, folder: Path) -> ReportFiles:
    """Write page and numbers into a folder. Other files there stay. Raises ReportError where the disk refuses."""
    contents = {NUMBERS: dumped(report), PAGE: render(report, draw(report))}
    try:
        for name, content in contents.items():
            with partial_file(folder / name) as file:
                file.write(content.encode())
    except OSError as error:
        raise ReportError(f"{folder}: the report cannot be written ({error.strerror}): make room there") from error
    return ReportFiles(folder / PAGE, folder / NUMBERS, report.notices, report.answers)


def dumped(report: Report) -> str:
    """The facts of a report as JSON, without pictures and points."""
    plain = {each.name: getattr(report, each.name) for each in fields(report)}
    plain["agreement"] = [{name: getattr(row, name) for name in AGREEMENT_FIELDS} for row in report.agreement]
    plain["trust"] = _without(asdict(report.trust), ("rows", "scatters"))
    plain["groups"] = {group.name: [_sample(sample) for sample in group.samples] for group in report.groups}
    return json.dumps(plain, ensure_ascii=False, indent=1, default=_plain)


def _sample(sample: SampleFacts) -> dict[str, Any]:
    return _without(asdict(sample), ("frames", "lines", "rows"))


def _without(value: Any, names: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {name: _without(each, names) for name, each in value.items() if name not in names}
    return [_without(each, names) for each in value] if isinstance(value, list | tuple) else value


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return dict(value) if isinstance(value, Mapping) else asdict(value)
