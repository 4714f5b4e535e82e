"""Commands on datasets: ingest, rejects, drop, rename."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.output import AsJson, DatasetName, console, print_json, print_rows
from orchestration.cli.refusals import UsageError

if TYPE_CHECKING:
    from assets.ingest.report import IngestReport

# Commands that take a dataset away or give it another name: drop, rename.

Name = Annotated[str | None, typer.Argument(metavar="DATASET", help="Name of the dataset.")]
DatasetToo = Annotated[str | None, typer.Option("--dataset", "-d", help="Name of the dataset, here or as argument.")]


def drop(
    name: Name = None,
    option: DatasetToo = None,
    metric: Annotated[str | None, typer.Option(help="Drop only the scores that were imported under this name.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Drop it without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Drop a dataset with its scores and their history; say first what would go, and ask. Frozen selections stay.

    The files of its manifest, its videos, reports and exports stay too. Without a terminal nothing is dropped but with
    --yes. With --metric only scores go that rs.import_scores stored; with the last of them goes the metric's column.
    """
    from orchestration import removal

    (dataset,) = _names("drop DATASET", option, name)
    going, n_selections = removal.what_would_go(dataset, metric)
    meant = f"the imported scores of {metric} from dataset {dataset}" if metric else f"dataset {dataset}"
    if not as_json:
        print_rows([{"goes": what, "rows": n} for what, n in going.items()], empty=f"nothing is in {meant}")
        console.print(f"stays: {n_selections} frozen selections, and all files", markup=False)
        if n_selections:
            console.print("export them first to have references, durations and own fields in the exports", markup=False)
    is_wanted = yes or (not as_json and sys.stdin.isatty() and typer.confirm(f"drop {meant}?"))
    if is_wanted and metric:
        removal.drop_imported(dataset, metric)
    elif is_wanted:
        removal.drop(dataset)
    if as_json:
        print_json({"dataset": dataset, "dropped": is_wanted, "goes": going, "selections_stay": n_selections})
    else:
        console.print("dropped" if is_wanted else "nothing was dropped; --yes drops it")


def rename(
    name: Name = None,
    new_name: Annotated[str | None, typer.Argument(metavar="NEW", help="Its new name.")] = None,
    option: DatasetToo = None,
    as_json: AsJson = False,
) -> None:
    """Give a dataset another name. Nothing is scored again; frozen selections show the new name."""
    from orchestration import removal
    from orchestration.platform import installed

    old, new = _names("rename DATASET NEW", option, name, new_name)
    removal.rename(old, new)
    if as_json:
        print_json({"old": old, "new": new})
        return
    console.print(f"dataset {old} is {new} now", markup=False)
    if (installed().curation.home / "inbox" / old).is_dir():
        console.print(f"rename its folder in the inbox too, or a change there makes {old} anew", markup=False)


def _names(usage: str, option: str | None, *arguments: str | None) -> list[str]:
    """The names that a command was given, that of the dataset first: by --dataset, or as an argument."""
    names = [name for name in (option, *arguments) if name is not None]
    command, *wanted = usage.split()
    if len(names) != len(wanted):
        by_option = " ".join([command, "--dataset", *wanted])
        raise UsageError(f"write reelsieve {usage}, or reelsieve {by_option} (see reelsieve {command} --help)")
    return names


def ingest(
    folder: Annotated[Path, typer.Argument(help="Folder with videos, captions, ... as .jsonl, .csv or .parquet.")],
    dataset: DatasetName,
    rows: Annotated[
        Path | None,
        typer.Option(
            help="A further .jsonl file of mixed rows with a field `kind`, or Label Studio's .json of ratings."
        ),
    ] = None,
    shards: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Shards of a new dataset (default: one per 4,000 samples).")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be accepted and refused; change nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read a manifest folder into a dataset. The same folder again changes nothing; bad rows never stop good ones."""
    from assets.datasets import BadDatasetName, check_dataset_name
    from assets.ingest.manifest import find_manifest
    from orchestration.launch import run_ingest
    from orchestration.settings import settings

    try:
        check_dataset_name(dataset, folder, settings().home_folder)
    except BadDatasetName as error:
        raise UsageError(str(error)) from error
    find_manifest(folder, rows)
    if dry_run:
        _try(folder.resolve(), dataset, rows.resolve() if rows else None, as_json)
        return
    report = run_ingest(folder.resolve(), dataset, rows.resolve() if rows else None, shards)
    if as_json:
        print_json(report.as_dict())
        return
    _print_tables(report)
    if report.rejected:
        console.print(f"{report.rejected} rows refused: reelsieve rejects --dataset {dataset} says why")


def _try(folder: Path, dataset: str, rows: Path | None, as_json: bool) -> None:
    from assets.ingest.run import try_folder
    from orchestration.platform import installed

    report, refused = try_folder(installed().engine, folder, dataset, mixed_rows=rows)
    if as_json:
        print_json({**report.as_dict(), "refused": refused})
        return
    _print_tables(report)
    print_rows(refused, empty="no row would be refused")
    console.print("nothing was changed: the same command without --dry-run ingests")


def _print_tables(report: IngestReport) -> None:
    tables = [
        {"table": table, "accepted": n, "unchanged": report.unchanged[table]} for table, n in report.accepted.items()
    ]
    print_rows(tables, empty="")


def rejects(dataset: DatasetName, as_json: AsJson = False) -> None:
    """List the rows that the last ingest of every file refused, with the reasons."""
    from assets.datasets import dataset_of_key
    from db.manifest.rejects import list_rejects
    from orchestration.platform import installed

    dataset_row = dataset_of_key(installed().engine, dataset)
    with installed().engine.connect() as connection:
        rows = list_rejects(connection, dataset_row.dataset_id)
    if as_json:
        print_json(rows)
    else:
        print_rows(rows, empty=f"no row of {dataset} was refused")
