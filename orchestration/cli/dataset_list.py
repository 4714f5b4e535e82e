"""The command dataset list: shows what every dataset holds and what is left to score, and the plan of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli.output import AsJson, Wide, print_json, print_plan, print_rows, print_sentence
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from orchestration.installation import Installation


# The counts of the table without --wide, those to leave out first at the end.
_SHOWN = ("videos", "captions", "qa", "rejects", "ratings", "references", "keypoints")
_PENDING = "_pending"


@pass_installation
def show_datasets(
    installation: Installation,
    dataset: Annotated[str | None, typer.Option("--dataset", "-d", help="Show this dataset, with its plan.")] = None,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:
    """List the datasets: what each holds, and how many scores are left to do. A name shows its plan too."""
    # A name that is asked for has to exist.
    rows = _list_dataset_states(installation, dataset) if dataset or installation.has_database() else []
    if as_json:
        print_json(rows)
        return

    from orchestration.forecasts import load_dataset_plan

    pending = [
        {name.removesuffix(_PENDING): n for name, n in row.items() if name.endswith(_PENDING) and n} for row in rows
    ]
    shown = [
        {"dataset": row["dataset"], "to score": sum(counts.values()), **{name: row[name] for name in _SHOWN}}
        for row, counts in zip(rows, pending, strict=True)
    ]
    settings = installation.settings
    place = "the database of CURATION_DB_URL" if settings.database_url else f"home {settings.home_folder}"
    empty = f"no dataset yet in {place}: try reelsieve demo, or reelsieve try FOLDER"
    print_rows(rows if wide else shown, empty=empty, kept=None if wide else ("dataset", "to score"))
    if dataset is None:
        if rows:
            print_sentence("reelsieve dataset list NAME shows the plan of one dataset")
        return
    for row, counts in zip(rows, pending, strict=True):
        of_metrics = ", ".join(f"{metric} {n}" for metric, n in counts.items())
        print_sentence(f"samples to score: {of_metrics or 'none'}")
        print_plan(load_dataset_plan(installation, row["dataset"]))


def _list_dataset_states(installation: Installation, name: str | None) -> list[dict[str, Any]]:
    """Return a row of counts for the dataset of this name, or without a name for every dataset."""
    from assets.datasets.lookup import require_dataset
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
