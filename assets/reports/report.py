"""Writes the report of a dataset: its page (`index.html`) and its numbers (`report.json`), each whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Engine

from assets.agreement.judged import JudgedSamples, load_judged_snapshot
from assets.agreement.scales import RatingSettings
from assets.agreement.table import store_agreement
from assets.home.files import create_home_folder
from assets.home.settings import read_settings
from assets.promise.estimated_means import store_estimated_means
from assets.reports.answer_records import ReportAnswers
from assets.reports.page import render_page
from assets.reports.samples import ShownSample
from assets.reports.sections import SECTIONS, Report
from assets.scores.base import Scorer
from assets.selection.partial_file import delete_abandoned_files, open_partial_file
from assets.thresholds.ratings import store_rating_thresholds
from assets.trial.sentences import describe_trial
from db.manifest.datasets import Dataset

PAGE, NUMBERS = "index.html", "report.json"
_PROBE = ".reelsieve-probe"


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


def create_report(
    engine: Engine,
    dataset: Dataset,
    scorers: Mapping[str, Scorer],
    folder: Path,
    tell: Callable[[str], None] = lambda line: None,
) -> ReportFiles:
    """Compute and store a dataset's agreement with people, estimated means and rating thresholds, then write its report
    page and numbers to a folder, which is created. Return the paths, notices and answers. scorers: by metric. tell:
    called with lines of progress. Reads REELSIEVE_GOOD_RATINGS. Raises ReportError where the folder cannot be written.

    Does what the assets `rating_threshold`, `agreement` and `dataset_report` do one after the other.
    """
    target = _create_report_folder(folder)
    tell("comparing the metrics with people")
    judged = load_judged_snapshot(engine, dataset)
    store_rating_thresholds(engine, dataset, judged, read_settings(RatingSettings).good_ratings)
    store_agreement(engine, dataset, judged)
    store_estimated_means(engine, dataset)
    return write_stored_report(engine, dataset, scorers, judged, target, tell)


def write_stored_report(
    engine: Engine,
    dataset: Dataset,
    scorers: Mapping[str, Scorer],
    judged: JudgedSamples,
    folder: Path,
    tell: Callable[[str], None] = lambda line: None,
) -> ReportFiles:
    """Write the report page of a dataset and its numbers to a folder, which is created, from what the database holds;
    agreement is not computed again. Return the paths, notices and answers. scorers: by metric. tell: called with lines
    of progress. Raises ReportError where the folder cannot be written.

    Everything is read from one state of the database; `judged` may be of an earlier one.
    """
    target = _create_report_folder(folder)
    # All sections see one state of the database.
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection, connection.begin():
        report = Report(engine, connection, dataset, scorers, judged, tell)
        contents = {NUMBERS: _format_report_json(report), PAGE: render_page(report)}
    try:
        for name, content in contents.items():
            with open_partial_file(target / name) as file:
                file.write(content.encode())
    except OSError as error:
        raise ReportError(
            f"{target}: the report cannot be written ({error.strerror}): fix this, or name another folder"
        ) from error
    return ReportFiles(target / PAGE, target / NUMBERS, report.notices, report.answers)


def choose_report_folder(home: Path, dataset: str) -> Path:
    """Return the default folder of a dataset's report, `reports/DATASET` in the home. Creates folder `reports` if it is
    missing, not the dataset's folder.
    """
    return create_home_folder(home, "reports") / dataset


def _create_report_folder(folder: Path) -> Path:
    """Create a folder for a report, with its parents, unless it exists, and return its absolute path with ~ expanded.
    Removes partial files of killed processes. Raises ReportError where it cannot be created or written to.
    """
    try:
        target = folder.expanduser().resolve()
        target.mkdir(parents=True, exist_ok=True)
        delete_abandoned_files(target)
        with open_partial_file(target / _PROBE):
            pass
        (target / _PROBE).unlink()
    except (OSError, RuntimeError) as error:  # RuntimeError: the home folder of an unknown user
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ReportError(f"{folder}: no report can be written there ({reason}): name a folder with --to") from error
    return target


def _format_report_json(report: Report) -> str:
    """Return the rows of a report's sections as JSON text, by their names. Frames and explanations of scores are left
    out.
    """
    plain = {name: getattr(report, name) for name in ("dataset", "made_at", "version", "notices", *SECTIONS)}
    plain["estimated_means"] = [mean.as_dict() for mean in report.estimated_means]
    plain["trust"] = {
        "aspects": [_convert_record(aspect, ("rows",)) for aspect in report.trust],
        **{name: getattr(report, name) for name in ("n_judged", "unscored", "side_by_side", "age")},
    }
    plain["trials"] = [describe_trial(trial) for trial in report.trials]
    plain["groups"] = {name: [_convert_sample(sample) for sample in samples] for name, samples in report.groups.items()}
    return json.dumps(plain, ensure_ascii=False, indent=1, default=_convert_plain)


def _convert_sample(sample: ShownSample) -> dict[str, Any]:
    """Return a shown sample as plain data, without frames and explanations of its scores."""
    scores = [_convert_record(score, ("lines", "rows", "marks")) for score in sample.scores]
    return {**_convert_record(sample, ("frames", "pieces")), "scores": scores}


def _convert_record(record: Any, hidden: Collection[str]) -> dict[str, Any]:
    """Return a record as plain data without the hidden fields. Names of a dataset, such as of aspects, stay."""
    return {name: value for name, value in asdict(record).items() if name not in hidden}


def _convert_plain(value: Any) -> Any:
    """Return a value that JSON does not know as plain data: times as text, mappings and records as dicts."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return dict(value) if isinstance(value, Mapping) else asdict(value)
