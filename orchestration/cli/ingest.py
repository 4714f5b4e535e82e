"""The command ingest: reads a manifest folder into a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.column_options import ColumnOption, parse_columns
from orchestration.cli.output import AsJson, DatasetName, print_error, print_json, print_rows, print_sentence
from orchestration.cli.pass_installation import pass_installation
from orchestration.cli.refusals import UsageError

if TYPE_CHECKING:
    from assets.ingest.report import IngestReport
    from orchestration.installation import Installation


@pass_installation
def ingest(
    installation: Installation,
    folder: Annotated[Path, typer.Argument(help="Folder with videos, captions, ... as .jsonl, .csv or .parquet.")],
    dataset: DatasetName,
    rows: Annotated[
        Path | None,
        typer.Option(help="File of more rows: .jsonl with a field `kind`, or Label Studio's .json of ratings."),
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="Number of shards of a new dataset (default: one per 4,000 samples)."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, max=64, help="Number of processes that read new videos; other such commands share the work."
        ),
    ] = None,
    column: ColumnOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be accepted and refused, and change nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Store a manifest, such as `init` writes, as a dataset. Bad rows never stop good ones.

    The same folder again changes nothing.
    """
    from assets.datasets.lookup import BadDatasetName, check_dataset_name
    from assets.ingest.manifest import read_manifest_folder
    from assets.ingest.manifest_tables import list_field_names
    from assets.words.text import format_count
    from orchestration.launch import run_ingest

    try:
        check_dataset_name(dataset, folder, installation.settings.home_folder)
    except BadDatasetName as error:
        raise UsageError(str(error)) from error
    columns = parse_columns(column, list_field_names())
    # A folder that is no manifest is refused before there is a run.
    read_manifest_folder(folder, rows, columns)
    folder, rows = folder.resolve(), rows.resolve() if rows else None
    if dry_run:
        _run_trial(installation, folder, dataset, rows, columns, as_json)
        return
    report = run_ingest(installation, folder, dataset, rows, shards, columns, workers)
    _print_notes(report)
    if as_json:
        print_json(report.as_dict())
        return
    _print_tables(report)
    if report.rejected:
        print_sentence(f"{format_count(report.rejected, 'row')} refused: reelsieve dataset rejects {dataset} shows why")


def _run_trial(
    installation: Installation,
    folder: Path,
    dataset: str,
    rows: Path | None,
    columns: Mapping[str, str],
    as_json: bool,
) -> None:
    from assets.ingest.run import try_ingest

    report, refused = try_ingest(installation.engine, folder, dataset, mixed_rows=rows, columns=columns)
    _print_notes(report)
    if as_json:
        print_json({**report.as_dict(), "refused": refused})
        return
    _print_tables(report)
    print_rows(refused, empty="no row would be refused")
    print_sentence("nothing was changed: the same command without --dry-run ingests")


def _print_notes(report: IngestReport) -> None:
    for note in report.notes:
        print_error(note)


def _print_tables(report: IngestReport) -> None:
    tables = [
        {"table": table, "accepted": n, "unchanged": report.unchanged[table]} for table, n in report.accepted.items()
    ]
    print_rows(tables, empty="")
