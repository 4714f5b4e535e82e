"""The command report: one page that says what is in a dataset, and which metric can be trusted there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli.output import AsJson, DatasetName, console, print_json, progress


def report(
    dataset: DatasetName,
    to: Annotated[
        Path | None, typer.Option(help="Folder for the page (default: reports/DATASET in the home folder).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a page on a dataset: its systems, whether each metric agrees with people, and samples to look at."""
    from assets.datasets import dataset_of_key
    from assets.reports.report import make_report, report_folder
    from orchestration.platform import curation, engine

    found = dataset_of_key(engine(), dataset)
    folder = to or report_folder(curation().home, dataset)
    with progress() as tell:
        files = make_report(engine(), found, curation().scorers, folder, tell)
    if as_json:
        print_json({"dataset": dataset, "page": str(files.page), "numbers": str(files.numbers)})
        return
    for conclusion in files.conclusions:
        console.print(conclusion, markup=False)
    console.print(f"page: {files.page}", soft_wrap=True, markup=False)
    console.print(f"data: {files.numbers}", soft_wrap=True, markup=False)
