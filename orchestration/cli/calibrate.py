"""The command calibrate: chooses the thresholds of ECS on labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from orchestration.cli.output import AsJson, DatasetName, print_json, print_rows, print_sentence
from orchestration.cli.pass_installation import pass_installation
from orchestration.cli.refusals import UsageError

if TYPE_CHECKING:
    from orchestration.installation import Installation


@pass_installation
def calibrate(
    installation: Installation,
    dataset: DatasetName,
    objective: Annotated[
        Literal["f1", "youden", "mcc", "coverage"],
        typer.Option(
            help="Objective to choose by: f1, youden, mcc, or coverage (as many keypoints covered as in the labels)."
        ),
    ] = "f1",
    labels: Annotated[
        Literal["calibration", "all"],
        typer.Option(help="Labels to choose on: those of a fifth of the videos, to test on the others, or all."),
    ] = "calibration",
    judge: Annotated[
        bool,
        typer.Option("--judge", help="Let a chat model label captions, and use these labels in place of people's."),
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, max=1_000_000, help="Number of captions to label with --judge (default: all)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Choose ECS's threshold for every dimension by a dataset's labels, store it, and score with it."""
    from orchestration.launch import run_calibration

    if limit is not None and not judge:
        raise UsageError("--limit is for the captions that the judge labels: add --judge, or leave --limit out")
    report = run_calibration(installation, dataset, objective, labels, judge=judge, judge_limit=limit)
    if as_json:
        print_json({"dataset": dataset, **report})
        return
    if report["judged"]:
        print_sentence(_explain_judged(report))
    print_sentence(f"thresholds for the best {objective}, with their 95 % intervals", style="bold")
    print_rows([_format_threshold(row) for row in report["thresholds"]], empty="no dimension has labels")
    print_sentence("\nagreement with the labels of the other videos", style="bold")
    why = "they were chosen on all labels" if labels == "all" else "no other video has labels"
    print_rows(
        [_format_evaluation(row) for row in report["evaluation"]],
        empty=f"how good the thresholds are was not measured: {why}",
    )
    if report["evaluation"]:
        print_sentence(
            "majority: accuracy of always giving the more frequent answer; always yes: F1 of always answering yes",
            style="dim",
        )
    print_sentence(f"\nthe scores of {dataset} use these thresholds now")


def _explain_judged(report: Mapping[str, Any]) -> str:
    """Return a sentence on the captions that the judge labelled, refused or failed at."""
    from assets.words.text import format_count

    counts = report["judged"]
    left = "".join(
        f"; {n:,} without labels, since the judge {why}"
        for n, why in ((counts["failed"], "failed"), (counts["refused"], "declined"))
        if n
    )
    done = f"{counts['judged']:,} of {format_count(counts['captions'], 'caption')} judged by this run"
    return f"chosen on labels of {report['labels_of']}, not of people; {done}{left}\n"


def _format_threshold(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a threshold as a row that fits 80 columns."""
    interval = "–" if row["low"] is None else f"{row['low']:.3f} – {row['high']:.3f}"
    chosen_on = "all" if row["pooled"] else "its own"
    names = ("dimension", "threshold", "labels", "positive", "f1")
    return {**{name: row[name] for name in names}, "interval": interval, "labels of": chosen_on}


def _format_evaluation(row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("dimension", "labels", "accuracy", "majority", "f1")
    return {**{name: row[name] for name in names}, "always yes": row["all_positive_f1"], "mcc": row["mcc"]}
