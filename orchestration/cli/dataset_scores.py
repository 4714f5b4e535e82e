"""The command dataset scores: lists the scores of a dataset, best first."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli.metric_names import choose_dataset_metrics
from orchestration.cli.output import AsJson, DatasetName, Wide, console, print_json, print_rows, print_sentence
from orchestration.cli.pass_installation import pass_installation
from orchestration.cli.score_table import build_score_table, explain_left_out_metrics, explain_marks

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from orchestration.installation import Installation


class SampleKind(str, Enum):
    """The two kinds of samples: captions, and question-answer pairs."""

    CAPTION = "caption"
    QA = "qa"


Limit = Annotated[int, typer.Option(min=1, max=1_000_000, help="Rows in the table; --json prints all.")]


@pass_installation
def show_scores(
    installation: Installation,
    dataset: DatasetName,
    by: Annotated[
        str | None, typer.Option(help="Metric or simple score that orders the table (default: the first with a value).")
    ] = None,
    kind: Annotated[
        SampleKind | None, typer.Option(help="Kind of the samples (default: one kind in a table, both with --json).")
    ] = None,
    limit: Limit = 20,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:
    """List the scores of a dataset, best first; a mark in place of a value shows its status.

    A metric without any value is left out, with the reason.
    """
    from assets.datasets.lookup import require_dataset
    from assets.words.labels import load_metric_label
    from db.scores.sample_scores import list_scores, load_active_scorers

    stored_dataset = require_dataset(installation.engine, dataset)
    metrics = choose_dataset_metrics(installation, stored_dataset)
    if by is not None:
        # A simple score is a column of the table that it orders.
        metrics = list(dict.fromkeys([*metrics, *choose_dataset_metrics(installation, stored_dataset, [by])]))
    chosen_kind = kind and kind.value
    with installation.engine.connect() as connection:
        scorers = load_active_scorers(connection, stored_dataset)
        shown = [metric for metric in metrics if metric in scorers and scorers[metric].n_defined]
        by = by or next(iter([*shown, *metrics]))
        if as_json:
            print_json(list_scores(connection, dataset, by, None, kind=chosen_kind))
            return
        rows = list_scores(connection, dataset, by, limit, kind=chosen_kind)
        captions = _load_best_captions(connection, dataset, by, rows) if chosen_kind is None else []
        rows = captions or rows
        labels = {metric: load_metric_label(connection, metric) for metric in shown}
    empty = f"dataset {dataset} has no samples" + (f" of kind {chosen_kind}" if chosen_kind else "")
    table = build_score_table(rows, shown, sys.maxsize if wide else console.width)
    print_rows(table, empty=empty, right=shown, kept=None if wide else ("sample", "system", by))
    for line in (
        *explain_marks(rows, labels),
        *explain_left_out_metrics(rows, [metric for metric in metrics if metric not in shown]),
    ):
        print_sentence(line)
    if captions:
        print_sentence(
            "only captions are listed: values of question-answer pairs are on another scale; --kind qa lists them"
        )
    if len(rows) == limit:
        print_sentence(f"these are the first {limit} samples; --limit shows more, --json all")


def _load_best_captions(
    connection: Connection, dataset: str, by: str, best: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the best captions if question-answer pairs with values are among the best samples and captions have values
    too; else an empty list.

    One order of both would compare values of two scales.
    """
    from db.scores.sample_scores import list_scores

    if not any(row["kind"] == SampleKind.QA.value and row[by] is not None for row in best):
        return []
    captions = list_scores(connection, dataset, by, len(best), kind=SampleKind.CAPTION.value)
    return captions if captions and captions[0][by] is not None else []
