"""The command report: writes a page about a dataset."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assets.home.files import keep_files_private
from orchestration.cli.output import AsJson, DatasetName, console, print_json, show_progress
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from orchestration.installation import Installation


@pass_installation
def report(
    installation: Installation,
    dataset: DatasetName,
    to: Annotated[
        Path | None, typer.Option(help="Folder to write the page to (default: reports/DATASET in the home folder).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a page about a dataset: its systems, whether each metric agrees with people, and samples to look at."""
    from assets.datasets.lookup import require_dataset
    from assets.reports.report import choose_report_folder, create_report

    stored_dataset = require_dataset(installation.engine, dataset)
    folder = to or choose_report_folder(installation.curation.home, dataset)
    with show_progress() as tell, nullcontext() if to else keep_files_private():
        files = create_report(installation.engine, stored_dataset, installation.curation.scorers, folder, tell)
    if as_json:
        print_json({"dataset": dataset, "page": str(files.page), "numbers": str(files.numbers)})
        return
    places = (("page", str(files.page)), ("data", str(files.numbers)))
    for name, line in (*files.answers.format_lines(), *places):
        console.print(f"{name + ':':<13}{line}")
