"""Commands about scores: score, scores."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any

import typer

from orchestration.cli.output import AsJson, DatasetName, console, print_json, print_rows


class Engine(str, Enum):
    """Where scores are computed."""

    PROCESS = "process"
    RAY = "ray"


Limit = Annotated[int, typer.Option(min=1, max=1_000_000, help="Rows in the table; --json prints all.")]


def score(
    dataset: DatasetName,
    metric: Annotated[
        list[str] | None, typer.Option(help="A metric; may be given several times (default: all).")
    ] = None,
    early_exit: Annotated[
        bool, typer.Option("--early-exit", help="Ask a model only until a decision is certain: same scores, less work.")
    ] = False,
    shard: Annotated[
        list[int] | None, typer.Option(help="The number of a shard; may be given several times (default: all).")
    ] = None,
    engine: Annotated[
        Engine, typer.Option(help="Score in this process, or on Ray: a cluster by RAY_ADDRESS, else this machine.")
    ] = Engine.PROCESS,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what is pending and what model servers would be asked.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Score every sample without a score or with a stale one. Stop at any moment: the same command goes on.

    Commands that run at once, on this or other machines, share the shards among them.
    """
    from assets.scores.registry import source_kinds
    from orchestration.cli.errors import UsageError
    from orchestration.cluster.launch import run_on_ray
    from orchestration.forecasts import forecast_scoring
    from orchestration.launch import run_scoring

    metrics = known_metrics(metric)
    if early_exit and not any("early_exit" in kind.options for kind in source_kinds(metrics).values()):
        raise UsageError(f"--early-exit concerns metrics whose models can stop early, not {', '.join(metrics)}")
    if dry_run:
        rows = forecast_scoring(dataset, metrics, shard)
        print_json(rows) if as_json else print_rows(rows, empty="")
        return
    options = {"early_exit": True} if early_exit else {}
    run = run_scoring if engine is Engine.PROCESS else run_on_ray
    shards = [{"shard": key, **written} for key, written in run(dataset, metrics, options, shard)]
    if as_json:
        print_json({"dataset": dataset, "shards": shards})
    else:
        print_rows(shards, empty=f"nothing to score: every sample of {_part(dataset, shard)} is scored")


def scores(
    dataset: DatasetName,
    by: Annotated[str | None, typer.Option(help="Metric that orders the table (default: the first).")] = None,
    limit: Limit = 20,
    components: Annotated[bool, typer.Option("--components", help="With --json: the parts of each score.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the scores of a dataset, best first; where there is no value, the table shows its status."""
    from assets.datasets import dataset_of_key
    from assets.reports.labels import metric_label
    from assets.scores.registry import METRICS
    from db.listing import list_scores
    from orchestration.cli.errors import UsageError
    from orchestration.platform import engine

    if by is not None:
        known_metrics([by])
    if components and not as_json:
        raise UsageError("--components needs --json: a table has no room for the parts of every score")
    dataset_of_key(engine(), dataset)
    with engine().connect() as connection:
        rows = list_scores(connection, dataset, by or METRICS[0], None if as_json else limit, components=components)
        labels = {metric: metric_label(connection, metric) for metric in METRICS}
    if as_json:
        print_json(rows)
        return
    print_rows([_cells(row, labels) for row in rows], empty=f"dataset {dataset} has no samples")
    if len(rows) == limit:
        console.print(f"the first {limit}; --limit shows more, --json all")


def known_metrics(chosen: list[str] | None) -> list[str]:
    """The chosen metrics, or all where none is chosen; UsageError for a metric that does not exist."""
    from assets.scores.registry import METRICS
    from orchestration.cli.errors import UsageError

    if unknown := [name for name in chosen or [] if name not in METRICS]:
        raise UsageError(f"there is no metric {unknown[0]!r}: choose one of {', '.join(METRICS)}")
    return chosen or list(METRICS)


def _part(dataset: str, shards: list[int] | None) -> str:
    """The dataset, or the chosen shards of it."""
    if not shards:
        return dataset
    return f"shard{'s' if len(shards) > 1 else ''} {', '.join(map(str, shards))} of {dataset}"


def _cells(row: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """A row of the table; a metric's status stands in place of a missing value, so that the row fits the terminal."""
    cells = {name: row[name] for name in ("sample", "video", "kind", "system")}
    for metric, label in labels.items():
        cells[label] = row[f"{metric}_status"] if row[metric] is None else row[metric]
    return cells
