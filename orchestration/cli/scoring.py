"""Commands about scores: score, scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from orchestration.cli.output import AsJson, DatasetName, console, print_json, print_rows

Limit = Annotated[int, typer.Option(min=1, help="Rows in the table; --json prints all.")]


def score(
    dataset: DatasetName,
    metric: Annotated[
        list[str] | None, typer.Option(help="A metric; may be given several times (default: all).")
    ] = None,
    early_exit: Annotated[
        bool, typer.Option("--early-exit", help="Stop verifying a keypoint at its threshold: same ECS, fewer passes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Embed and score what the dataset lacks. Stop it at any moment: the same command goes on where it was."""
    from assets.scores.registry import METRICS, reads_verdicts
    from orchestration.cli.errors import UsageError
    from orchestration.launch import run_scoring

    metrics = metric or list(METRICS)
    if unknown := [name for name in metrics if name not in METRICS]:
        raise UsageError(f"there is no metric {unknown[0]!r}: choose of {', '.join(METRICS)}")
    if early_exit and not any(map(reads_verdicts, metrics)):
        raise UsageError(f"--early-exit concerns metrics that verify keypoints, which {', '.join(metrics)} does not")
    shards = [{"shard": key, **written} for key, written in run_scoring(dataset, metrics, early_exit=early_exit)]
    if as_json:
        print_json({"dataset": dataset, "shards": shards})
    else:
        print_rows(shards, empty=f"nothing to score: every sample of {dataset} is scored")


def scores(
    dataset: DatasetName,
    by: Annotated[str | None, typer.Option(help="Metric that orders the table (default: the first).")] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List the scores of a dataset, best first; a value that is not defined is null."""
    from assets.partitions import dataset_of_key
    from assets.reports.labels import metric_label
    from assets.scores.registry import METRICS
    from db.selection import list_scores
    from orchestration.cli.errors import UsageError
    from orchestration.platform import engine

    if by is not None and by not in METRICS:
        raise UsageError(f"there is no metric {by!r}: choose of {', '.join(METRICS)}")
    dataset_of_key(engine(), dataset)
    with engine().connect() as connection:
        rows = list_scores(connection, dataset, by or METRICS[0], None if as_json else limit)
        labels = {metric: metric_label(connection, metric) for metric in METRICS}
    if as_json:
        print_json(rows)
        return
    print_rows([_cells(row, labels) for row in rows], empty=f"dataset {dataset} has no samples")
    if len(rows) == limit:
        console.print(f"the first {limit}; --limit shows more, --json all")


def _cells(row: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, Any]:
    """A row of the table: where a metric has no value its status stands instead, so that all fits the terminal."""
    cells = {name: row[name] for name in ("sample", "video", "kind", "system")}
    for metric, label in labels.items():
        cells[label] = row[f"{metric}_status"] if row[metric] is None else row[metric]
    return cells
