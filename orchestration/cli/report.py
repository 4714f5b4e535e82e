"""The command report: writes a page on a dataset."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assets.home_files import private_files
from orchestration.cli.installation import with_installation
from orchestration.cli.output import AsJson, DatasetName, console, print_json, progress

if TYPE_CHECKING:
    from orchestration.platform import Installation


@with_installation
def report(
    installation: Installation,
    dataset: DatasetName,
    to: Annotated[
        Path | None, typer.Option(help="Folder for the page (default: reports/DATASET in the home folder).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a page on a dataset: its systems, whether each metric agrees with people, and samples to look at."""
    from assets.datasets import dataset_of_key
    from assets.reports.report import make_report, report_folder

    found = dataset_of_key(installation.engine, dataset)
    folder = to or report_folder(installation.curation.home, dataset)
    with progress() as tell, nullcontext() if to else private_files():
        files = make_report(installation.engine, found, installation.curation.scorers, folder, tell)
    if as_json:
        print_json({"dataset": dataset, "page": str(files.page), "numbers": str(files.numbers)})
        return
    places = (("page", str(files.page)), ("data", str(files.numbers)))
    for name, line in (*files.answers.lines(), *places):
        console.print(f"{name + ':':<13}{line}", soft_wrap=True, markup=False)
