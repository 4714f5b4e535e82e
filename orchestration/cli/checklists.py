"""Commands about checklists: calibrate, explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from sqlalchemy.engine import RowMapping

from orchestration.cli.output import AsJson, DatasetName, console, print_json, print_rows

METRIC = "ecs"


class Objective(str, Enum):
    """What a threshold is best for."""

    F1 = "f1"
    YOUDEN = "youden"
    MCC = "mcc"
    COVERAGE = "coverage"


class Labels(str, Enum):
    """Whose labels thresholds are chosen on."""

    CALIBRATION = "calibration"
    ALL = "all"


def calibrate(
    dataset: DatasetName,
    objective: Annotated[
        Objective, typer.Option(help="f1, youden, mcc, or coverage: as many covered as labelled so.")
    ] = Objective.F1,
    labels: Annotated[
        Labels, typer.Option(help="Those of a fifth of the videos, the others showing how good it is; or all.")
    ] = Labels.CALIBRATION,
    as_json: AsJson = False,
) -> None:
    """Choose the thresholds of ECS by dimension on the labels of a dataset, and bring its scores up to them."""
    from orchestration.launch import run_calibration

    found = run_calibration(dataset, objective.value, labels.value)[METRIC]
    if as_json:
        print_json({"dataset": dataset, **found})
        return
    console.print(f"[bold]thresholds for the best {objective.value}, with their 95 % intervals[/bold]")
    print_rows([_threshold(row) for row in found["thresholds"]], empty="no dimension has labels")
    console.print("\n[bold]on the labels of the other videos[/bold]")
    print_rows(
        [_evaluation(row) for row in found["evaluation"]],
        empty="no labels are left: thresholds were chosen on all, so nothing says how good they are",
    )
    if found["evaluation"]:
        console.print("majority: accuracy of the more frequent answer; always yes: the F1 of that", style="dim")
    console.print(f"\nthe scores of {dataset} follow these thresholds now", markup=False)


def _threshold(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row that fits 80 columns."""
    interval = "–" if row["low"] is None else f"{row['low']:.3f} – {row['high']:.3f}"
    chosen_on = "all" if row["pooled"] else "its own"
    names = ("dimension", "threshold", "labels", "positive", "f1")
    return {**{name: row[name] for name in names}, "interval": interval, "labels of": chosen_on}


def _evaluation(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("dimension", "labels", "accuracy", "majority", "f1")
    return {**{name: row[name] for name in names}, "always yes": row["all_positive_f1"], "mcc": row["mcc"]}


def explain(
    sample: Annotated[str, typer.Argument(help="Id of a caption.")],
    dataset: DatasetName,
    as_json: AsJson = False,
) -> None:
    """Show why a caption has its ECS: each keypoint, whether it is covered, and the sentence that says so."""
    from assets.partitions import dataset_of_key
    from db.explain import caption_score, caption_verdicts
    from orchestration.cli.errors import UsageError
    from orchestration.platform import engine

    found = dataset_of_key(engine(), dataset)
    with engine().connect() as connection:
        score = caption_score(connection, found.dataset_id, sample, METRIC)
        verdicts = caption_verdicts(connection, dataset, sample)
    if score is None:
        raise UsageError(f"{dataset} has no caption {sample!r}: reelsieve scores --dataset {dataset} lists them")
    if score["status"] is None:
        raise UsageError(f"{sample!r} has no {METRIC} yet: reelsieve score --dataset {dataset} --metric {METRIC}")
    if as_json:
        print_json({**score, "verdicts": verdicts})
        return
    _print_score(score)
    if verdicts:
        console.print(_table(verdicts))


def _print_score(score: RowMapping) -> None:
    value = score["status"] if score["value"] is None else f"{score['value']:.4f}"
    console.print(f"[bold]{escape(score['sample'])}[/bold] by {escape(score['system'])}: {METRIC} [bold]{value}[/bold]")
    console.print(escape(score["text"]), style="dim")
    if score["error"]:
        console.print(escape(score["error"]))
    parts = score["components"]
    if parts:
        covered, total = sum(parts["covered"].values()), sum(parts["keypoints"].values())
        models = ", ".join(model["model_id"] for model in score["models"].values())
        console.print(f"{covered} of {total} keypoints covered; mode {parts['mode']}; {models}", markup=False)
    if parts and parts.get("parse_error"):
        console.print(f"the prediction could not be read: {parts['parse_error']}", markup=False)


def _table(verdicts: Sequence[Mapping[str, Any]]) -> Table:
    """A row per keypoint: what was asked, what was found, by which sentence, and what a label says."""
    table = Table(box=None, header_style="bold", pad_edge=False, show_lines=False)
    for name, justify in (("", "left"), ("p", "right"), ("from", "right"), ("label", "left")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]  # rich's own literal
    table.add_column("keypoint", overflow="fold", ratio=1)
    table.add_column("best sentence", overflow="fold", ratio=1)
    dimension = None
    for row in verdicts:
        if row["dimension"] != dimension:
            dimension = row["dimension"]
            table.add_row("", "", "", "", f"[bold]{escape(dimension)}[/bold]", "")
        bound = "≥ " if row["is_lower_bound"] else ""
        table.add_row(
            {True: "[green]✓[/green]", False: "[red]✗[/red]", None: "–"}[row["covered"]],
            "–" if row["probability"] is None else f"{bound}{row['probability']:.3f}",
            "–" if row["threshold"] is None else f"{row['threshold']:.3f}",
            {True: "yes", False: "no", None: "–"}[row["label"]],
            escape(row["keypoint_text"]),
            escape(row["sentence"] or "–"),
        )
    return table
