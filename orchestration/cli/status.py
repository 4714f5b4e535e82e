"""The command status: shows what every dataset holds, what is left to score, and its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from orchestration.cli.output import AsJson, Wide, console, print_json, print_plan, print_rows
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from orchestration.installation import Installation


# The counts of the table without --wide.
_SHOWN = ("videos", "captions", "qa", "references", "keypoints", "ratings", "rejects")
_PENDING = "_pending"


@pass_installation
def status(
    installation: Installation,
    dataset: Annotated[str | None, typer.Option("--dataset", "-d", help="Show only this dataset.")] = None,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:
    """Show every dataset: what it holds, how many samples every metric has still to score, and its plan."""
    # A name that is asked for has to exist.
    rows = _list_dataset_states(installation, dataset) if dataset or installation.has_database() else []
    if as_json:
        print_json(rows)
        return

    from orchestration.forecasts import load_dataset_plan

    shown = rows if wide else [{name: row[name] for name in ("dataset", *_SHOWN)} for row in rows]
    settings = installation.settings
    place = "the database of CURATION_DB_URL" if settings.database_url else f"home {settings.home_folder}"
    print_rows(shown, empty=f"no dataset yet in {place}: try reelsieve demo, or reelsieve try FOLDER")
    for row in rows:
        console.print(f"\n[bold]{escape(row['dataset'])}[/bold]")
        counts = [f"{name.removesuffix(_PENDING)} {n}" for name, n in row.items() if name.endswith(_PENDING) and n]
        console.print(f"samples to score: {', '.join(counts) or 'none'}", markup=False)
        print_plan(load_dataset_plan(installation, row["dataset"]))


def _list_dataset_states(installation: Installation, name: str | None) -> list[dict[str, Any]]:
    """Return a row of counts for the dataset of this name, or without a name for every dataset."""
    from assets.datasets import require_dataset
    from assets.scores.pending import count_pending_by_shard
    from db.manifest.datasets import list_datasets
    from db.reports.summary import load_dataset_summary

    rows = []
    with installation.engine.connect() as connection:
        datasets = [require_dataset(installation.engine, name)] if name else list_datasets(connection)
    scorers = {metric: installation.curation.scorers[metric] for metric in installation.usable_metrics}
    # Counted first: the summary reads the counts that this stores.
    pending = {
        metric: count_pending_by_shard(installation.engine, scorer, datasets) for metric, scorer in scorers.items()
    }
    with installation.engine.connect() as connection:
        for dataset in datasets:
            row = load_dataset_summary(connection, dataset.name)
            for metric, counts in pending.items():
                row[f"{metric}_pending"] = sum(n for (name, _), n in counts.items() if name == dataset.name)
            rows.append(row)
    return rows
