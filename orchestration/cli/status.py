"""The command status: shows what every dataset holds, what is left to score, and its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape

from orchestration.cli.output import AsJson, console, print_json, print_plan, print_rows
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from orchestration.installation import Installation


@pass_installation
def status(installation: Installation, as_json: AsJson = False) -> None:
    """Show every dataset: what it holds, how many samples every metric has still to score, and its plan."""
    rows = _list_dataset_states(installation) if installation.has_database() else []
    if as_json:
        print_json(rows)
    else:
        from orchestration.forecasts import load_dataset_plan

        print_rows(rows, empty="no dataset yet: try reelsieve demo, or reelsieve try FOLDER")
        for row in rows:
            console.print(f"\n[bold]{escape(row['dataset'])}[/bold]")
            print_plan(load_dataset_plan(installation, row["dataset"]))


def _list_dataset_states(installation: Installation) -> list[dict[str, Any]]:
    """Return a row of counts for every dataset."""
    from assets.scores.pending import count_pending_by_shard
    from db.manifest.datasets import list_datasets
    from db.reports.summary import load_dataset_summary

    rows = []
    with installation.engine.connect() as connection:
        datasets = list_datasets(connection)
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
