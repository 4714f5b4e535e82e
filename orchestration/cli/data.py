"""Commands that bring data in: ingest, rejects."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli.output import AsJson, DatasetName, console, print_json, print_rows


def ingest(
    folder: Annotated[Path, typer.Argument(help="Folder with videos, captions, ... as .jsonl, .csv or .parquet.")],
    dataset: DatasetName,
    rows: Annotated[Path | None, typer.Option(help="A further .jsonl file of mixed rows with a field `kind`.")] = None,
    shards: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Shards of a new dataset (default: one per 4,000 samples).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read a manifest folder into a dataset. The same folder again changes nothing; bad rows never stop good ones."""
    from assets.datasets import BadDatasetName, check_dataset_name
    from assets.ingest.files import require_regular
    from assets.ingest.readers import find_tables
    from orchestration.cli.errors import UsageError
    from orchestration.launch import run_ingest
    from orchestration.settings import settings

    try:
        check_dataset_name(dataset, folder, settings().home_folder)
    except BadDatasetName as error:
        raise UsageError(str(error)) from error
    if rows is not None:
        require_regular(rows)
    find_tables(folder)
    report = run_ingest(folder.resolve(), dataset, rows.resolve() if rows else None, shards)
    if as_json:
        print_json(report)
        return
    tables = [
        {"table": table, "accepted": report["accepted"][table], "unchanged": report["unchanged"][table]}
        for table in report["accepted"]
    ]
    print_rows(tables, empty="")
    if report["rejected"]:
        console.print(f"{report['rejected']} rows refused: reelsieve rejects --dataset {dataset} says why")


def rejects(dataset: DatasetName, as_json: AsJson = False) -> None:
    """List the rows that the last ingest of every file refused, with the reasons."""
    from assets.datasets import dataset_of_key
    from db.manifest import list_rejects
    from orchestration.platform import engine

    dataset_row = dataset_of_key(engine(), dataset)
    with engine().connect() as connection:
        rows = list_rejects(connection, dataset_row.dataset_id)
    if as_json:
        print_json(rows)
    else:
        print_rows(rows, empty=f"no row of {dataset} was refused")
