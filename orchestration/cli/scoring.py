"""Commands about scores: score, scores, calibrate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from string import ascii_lowercase
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli.output import AsJson, DatasetName, console, print_json, print_plan, print_rows
from orchestration.cli.refusals import UsageError

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from db.manifest.datasets import Dataset


# The command calibrate: chooses the thresholds of ECS on labels.


class Objective(str, Enum):
    """What a threshold is chosen for."""

    F1 = "f1"
    YOUDEN = "youden"
    MCC = "mcc"
    COVERAGE = "coverage"


class Labels(str, Enum):
    """On which labels thresholds are chosen."""

    CALIBRATION = "calibration"
    ALL = "all"


def calibrate(
    dataset: DatasetName,
    objective: Annotated[
        Objective, typer.Option(help="f1, youden, mcc, or coverage: as many keypoints covered as the labels say.")
    ] = Objective.F1,
    labels: Annotated[
        Labels, typer.Option(help="Labels of a fifth of the videos, so that the others show how good it is; or all.")
    ] = Labels.CALIBRATION,
    judge: Annotated[
        bool, typer.Option("--judge", help="Labels of a chat model, which are made first, in place of people's.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, max=1_000_000, help="With --judge: the most captions that it labels (default: all)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Choose a threshold of ECS for every dimension on the labels of a dataset, and score with the new thresholds."""
    from orchestration.launch import run_calibration

    if limit is not None and not judge:
        raise UsageError("--limit concerns the captions that a judge labels: give --judge too")
    report = run_calibration(dataset, objective.value, labels.value, judge=judge, judge_limit=limit)
    if as_json:
        print_json({"dataset": dataset, **report})
        return
    if report["judged"]:
        console.print(_judged(report), markup=False)
    console.print(f"[bold]thresholds for the best {objective.value}, with their 95 % intervals[/bold]")
    print_rows([_threshold(row) for row in report["thresholds"]], empty="no dimension has labels")
    console.print("\n[bold]on the labels of the other videos[/bold]")
    print_rows(
        [_evaluation(row) for row in report["evaluation"]],
        empty="no labels are left: thresholds were chosen on all, so nothing says how good they are",
    )
    if report["evaluation"]:
        console.print("majority: accuracy of the more frequent answer; always yes: F1 of that answer", style="dim")
    console.print(f"\nthe scores of {dataset} follow these thresholds now", markup=False)


def _judged(report: Mapping[str, Any]) -> str:
    """What the judge did, in a sentence."""
    counts = report["judged"]
    without = counts["failed"] + counts["refused"]
    left = f"; {without} have no labels because it failed or declined" if without else ""
    done = f"{counts['judged']} of {counts['captions']} captions judged by this run"
    return f"on labels of {report['labels_of']}, not of people; {done}{left}\n"


def _threshold(row: Mapping[str, Any]) -> dict[str, Any]:
    """A threshold as a row that fits 80 columns."""
    interval = "–" if row["low"] is None else f"{row['low']:.3f} – {row['high']:.3f}"
    chosen_on = "all" if row["pooled"] else "its own"
    names = ("dimension", "threshold", "labels", "positive", "f1")
    return {**{name: row[name] for name in names}, "interval": interval, "labels of": chosen_on}


def _evaluation(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("dimension", "labels", "accuracy", "majority", "f1")
    return {**{name: row[name] for name in names}, "always yes": row["all_positive_f1"], "mcc": row["mcc"]}


# What stands for a missing value whatever the metric; other statuses get letters.
MARKS = {"not_applicable": "–", "unscored": "·", "stale": "~", "failed": "!"}
# A name is not made shorter than this.
SHORTEST = 8


class Engine(str, Enum):
    """Where scores are computed."""

    PROCESS = "process"
    RAY = "ray"


class Kind(str, Enum):
    """A kind of samples."""

    CAPTION = "caption"
    QA = "qa"


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
        bool,
        typer.Option("--dry-run", help="Only say the plan, what is pending and what model servers would be asked."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Score every sample without a score or with a stale one. Stop at any moment: the same command goes on.

    Commands that run at once, on this or other machines, share the shards among them.
    """
    from assets.scores.registry import source_kinds
    from orchestration.cluster.launch import run_on_ray
    from orchestration.forecasts import forecast_scoring, metrics_without_values, plan_of_dataset
    from orchestration.launch import run_scoring
    from orchestration.terminal import warn

    metrics = known_metrics(metric)
    if early_exit and not any("early_exit" in kind.options for kind in source_kinds(metrics).values()):
        raise UsageError(f"--early-exit concerns metrics whose models can stop early, not {', '.join(metrics)}")
    for _, sentence in metrics_without_values(dataset, metrics, shard):
        warn(sentence)
    if dry_run:
        rows = forecast_scoring(dataset, metrics, shard)
        if as_json:
            print_json(rows)
        else:
            print_plan(plan_of_dataset(dataset, metrics))
            print_rows(rows, empty="")
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
    by: Annotated[
        str | None, typer.Option(help="Metric or simple score that orders the table (default: the first metric).")
    ] = None,
    kind: Annotated[Kind | None, typer.Option(help="Which samples; a table is of one kind, JSON of both.")] = None,
    limit: Limit = 20,
    components: Annotated[bool, typer.Option("--components", help="With --json: the parts of each score.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the scores of a dataset, best first; where there is no value, a mark stands for the status.

    A metric without any value is left out, with the reason.
    """
    from assets.datasets import dataset_of_key
    from assets.reports.labels import metric_label
    from db.scores.present import active_scorers, list_scores
    from orchestration.platform import installed

    if components and not as_json:
        raise UsageError("--components needs --json: a table has no room for the parts of every score")
    found = dataset_of_key(installed().engine, dataset)
    metrics = shown_metrics(found)
    if by is not None:
        # A simple score stands in the table that it orders.
        metrics = list(dict.fromkeys([*metrics, *shown_metrics(found, [by])]))
    by, wanted = by or metrics[0], kind and kind.value
    with installed().engine.connect() as connection:
        if as_json:
            print_json(list_scores(connection, dataset, by, None, kind=wanted, components=components))
            return
        rows = list_scores(connection, dataset, by, limit, kind=wanted)
        captions = _captions(connection, dataset, by, rows) if wanted is None else []
        rows = captions or rows
        has_values = {name for name, each in active_scorers(connection, found).items() if each.n_defined}
        shown = [metric for metric in metrics if metric in has_values]
        labels = {metric: metric_label(connection, metric) for metric in shown}
    empty = f"dataset {dataset} has no samples" + (f" of kind {wanted}" if wanted else "")
    print_rows(score_table(rows, shown, console.width), empty=empty, right=shown)
    for line in (*_legend(rows, labels), *_left_out(rows, [metric for metric in metrics if metric not in has_values])):
        console.print(line, markup=False)
    if captions:
        console.print("captions alone: question-answer pairs have values of another scale; --kind qa lists them")
    if len(rows) == limit:
        console.print(f"the first {limit}; --limit shows more, --json all")


def known_metrics(chosen: list[str] | None) -> list[str]:
    """The chosen metrics and simple scores, or all that can be used where none is chosen. Opens the database then.

    UsageError for an unknown name.
    """
    from assets.scores.registry import METRICS
    from orchestration.platform import installed

    return _among(METRICS, chosen) if chosen else installed().usable_metrics


def shown_metrics(dataset: Dataset, chosen: list[str] | None = None) -> list[str]:
    """The chosen metrics of a dataset, those imported into it among them, or all; UsageError for one that it lacks."""
    from db.scores.present import known_metrics as metrics_of
    from orchestration.platform import installed

    with installed().engine.connect() as connection:
        return _among(metrics_of(connection, dataset), chosen, f" in dataset {dataset.name!r}")


def _among(metrics: Sequence[str], chosen: list[str] | None, where: str = "") -> list[str]:
    from db.scores.present import SIMPLE_SCORES

    if unknown := [name for name in chosen or [] if name not in (*metrics, *SIMPLE_SCORES)]:
        simple = " or ".join(SIMPLE_SCORES)
        raise UsageError(
            f"there is no metric {unknown[0]!r}{where}: choose one of {', '.join(metrics)}, or a simple score, {simple}"
        )
    return list(dict.fromkeys(chosen or metrics))


def _part(dataset: str, shards: list[int] | None) -> str:
    """The dataset, or the chosen shards of it."""
    if not shards:
        return dataset
    return f"shard{'s' if len(shards) > 1 else ''} {', '.join(map(str, shards))} of {dataset}"


def _captions(connection: Connection, dataset: str, by: str, best: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The best captions, where question-answer pairs with values are among the best samples and captions have some too.

    One order of both would compare values of two scales.
    """
    from db.scores.present import list_scores

    if not any(row["kind"] == Kind.QA.value and row[by] is not None for row in best):
        return []
    captions = list_scores(connection, dataset, by, len(best), kind=Kind.CAPTION.value)
    return captions if captions and captions[0][by] is not None else []


def score_table(rows: Sequence[Mapping[str, Any]], metrics: Sequence[str], width: int) -> list[dict[str, str]]:
    """The rows as a table with one line for each sample: values to three decimals, and a mark where there is none.

    The longest names lose their middle where the table would be wider than the terminal.

    >>> row = {"sample": "clip_001__sys_faithful", "system": "brief", "kind": "caption", "vcs": 0.5, "vcs_status": "ok"}
    >>> score_table([row], ["vcs"], 32)
    [{'sample': 'clip_001…faithful', 'system': 'brief', 'vcs': '0.500'}]
    """
    marks = _marks(rows, metrics)
    values = {
        metric: [marks[_status(row, metric)] if row[metric] is None else f"{row[metric]:.3f}" for row in rows]
        for metric in metrics
    }
    names = ("sample", "kind", "system") if len({row["kind"] for row in rows}) > 1 else ("sample", "system")
    taken = sum(max([len(metric), *map(len, cells)]) for metric, cells in values.items())
    room = width - taken - 2 * (len(names) + len(values) - 1)
    sizes = {name: max([len(name), *(len(row[name]) for row in rows)]) for name in names}
    while sum(sizes.values()) > room and max(sizes.values()) > SHORTEST:
        sizes[max(sizes, key=sizes.__getitem__)] -= 1
    return [
        {name: _middle_cut(row[name], size) for name, size in sizes.items()}
        | {metric: cells[place] for metric, cells in values.items()}
        for place, row in enumerate(rows)
    ]


def _middle_cut(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    return f"{text[: width // 2]}…{text[len(text) - (width - width // 2 - 1) :]}"


def _status(row: Mapping[str, Any], metric: str) -> str:
    return row[f"{metric}_status"] or "unscored"


def _marks(rows: Sequence[Mapping[str, Any]], metrics: Sequence[str]) -> dict[str, str]:
    """A mark for each status of a missing value, in the order in which the statuses appear."""
    missing = dict.fromkeys(_status(row, metric) for row in rows for metric in metrics if row[metric] is None)
    letters = iter(ascii_lowercase)
    return {status: MARKS.get(status) or next(letters) for status in missing}


def _left_out(rows: Sequence[Mapping[str, Any]], metrics: Sequence[str]) -> Iterator[str]:
    """A line about the metrics without a value in the whole dataset, with the statuses that stand in their place."""
    statuses = {metric: dict.fromkeys(_status(row, metric).replace("_", " ") for row in rows) for metric in metrics}
    if rows and metrics:
        why = ", ".join(f"{metric} ({', '.join(found)})" for metric, found in statuses.items())
        yield f"left out, since no sample has a value: {why}"


def _legend(rows: Sequence[Mapping[str, Any]], labels: Mapping[str, str]) -> Iterator[str]:
    """What the marks mean, and which metrics were made with a stand-in for a real model."""
    if marks := _marks(rows, list(labels)):
        yield "  ".join(f"{mark} {status.replace('_', ' ')}" for status, mark in marks.items())
    if stand_ins := [label for metric, label in labels.items() if label != metric]:
        yield ", ".join(stand_ins)
