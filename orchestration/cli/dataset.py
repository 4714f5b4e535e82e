"""The commands dataset list, scores, rejects, holds and drop: what is in datasets, what was refused, and who holds a
video; and the end of a dataset.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli.metric_names import choose_dataset_metrics
from orchestration.cli.output import (
    AsJson,
    DatasetName,
    Wide,
    console,
    print_json,
    print_plan,
    print_rows,
    print_sentence,
)
from orchestration.cli.pass_installation import pass_installation
from orchestration.cli.score_table import build_score_table, explain_left_out_metrics, explain_marks

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from orchestration.installation import Installation

# The counts of the table without --wide, those to leave out first at the end.
_COUNTS = ("videos", "captions", "qa", "rejects", "ratings", "references", "keypoints")
_PENDING = "_pending"
_N_NAMED = 3

dataset = typer.Typer(
    help="List datasets, scores and refused rows; find a video; drop a dataset.", no_args_is_help=True
)


class SampleKind(str, Enum):
    """The two kinds of samples: captions, and question-answer pairs."""

    CAPTION = "caption"
    QA = "qa"


Limit = Annotated[int, typer.Option(min=1, max=1_000_000, help="Number of rows in the table; --json prints all.")]


@dataset.command("list")
@pass_installation
def show_datasets(
    installation: Installation,
    dataset: Annotated[
        str | None, typer.Option("--dataset", "-d", help="Name of a dataset to show, with its plan.")
    ] = None,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:
    """List what datasets hold and how many scores are left to do; for a name only that one, without --json its plan."""
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
        {"dataset": row["dataset"], "to score": sum(counts.values()), **{name: row[name] for name in _COUNTS}}
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
        of_metrics = ", ".join(f"{metric} {n:,}" for metric, n in counts.items())
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


@dataset.command("scores")
@pass_installation
def show_scores(
    installation: Installation,
    dataset: DatasetName,
    by: Annotated[
        str | None, typer.Option(help="Metric or simple score to order by (default: the first with a value).")
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
    from assets.words.text import format_count
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
        rows = list_scores(connection, dataset, by, limit + 1, kind=chosen_kind)
        captions = _load_best_captions(connection, dataset, by, rows) if chosen_kind is None else []
        rows = captions or rows
        has_more, rows = len(rows) > limit, rows[:limit]
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
    if has_more:
        print_sentence(f"the table ends after {format_count(limit, 'sample')}; --limit shows more, --json all")


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


@dataset.command("rejects")
@pass_installation
def show_rejects(installation: Installation, dataset: DatasetName, as_json: AsJson = False) -> None:
    """List the rows that the last ingest of every file refused, with the reasons."""
    from assets.datasets.lookup import require_dataset
    from db.manifest.rejects import list_rejects

    dataset_row = require_dataset(installation.engine, dataset)
    with installation.engine.connect() as connection:
        rows = list_rejects(connection, dataset_row.dataset_id)
    if as_json:
        print_json(rows)
    else:
        print_rows(rows, empty=f"no row of {dataset} was refused")


@dataset.command("holds")
@pass_installation
def show_holders(
    installation: Installation,
    name: Annotated[
        str,
        typer.Argument(
            metavar="VIDEO|URL",
            help="Key of a video, path of its file or the end of that, address, or the URL it was collected from.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """List the datasets and frozen selections that hold a video, such as for a request to delete it.

    Copies of its file under other names count too, and all that a tar file or Lance table of this machine holds.
    Exports are files that Reelsieve does not keep track of: the passport of an export names its selection.
    """
    from assets.home.settings import read_settings
    from assets.media.held_video import find_held_video
    from assets.media.settings import MediaSettings
    from db.selection.holders import list_holding_datasets, list_holding_selections

    held = find_held_video(name, read_settings(MediaSettings))
    with installation.engine.connect() as connection:
        videos, selections = list_holding_datasets(connection, held), list_holding_selections(connection, held)
    if as_json:
        print_json({"videos": videos, "selections": selections})
        return
    print_rows(videos, empty=f"no dataset holds {name}")
    shown = [
        {
            **row,
            "made": row["made"].strftime("%Y-%m-%d %H:%M"),
            "videos": ", ".join(row["videos"][:_N_NAMED]) + (", …" if len(row["videos"]) > _N_NAMED else ""),
        }
        for row in selections
    ]
    print_rows(shown, empty=f"no selection holds {name}")
    if selections:
        print_sentence(f"exports of such a selection contain {name} too; an export's passport names its selection")


@dataset.command("drop")
@pass_installation
def drop_dataset(
    installation: Installation,
    dataset: DatasetName,
    metric: Annotated[
        str | None, typer.Option(help="Name under which scores were imported; only these are dropped.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Drop it without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a dataset with its scores and their history; first list what would go, and ask. Frozen selections stay.

    The files of its manifest, its videos, reports and exports stay too. Without a terminal nothing is dropped unless
    --yes is given. With --metric only scores go that rs.import_scores stored; the last of them takes the column along.
    """
    from assets.words.text import format_count
    from orchestration import removal

    going, n_selections = removal.count_rows_to_delete(installation, dataset, metric)
    meant = f"the imported scores of {metric} from dataset {dataset}" if metric else f"dataset {dataset}"
    if not as_json:
        print_rows([{"goes": what, "rows": n} for what, n in going.items()], empty=f"nothing is in {meant}")
        files = "the files of manifest, videos, reports and exports"
        print_sentence(f"stays: {format_count(n_selections, 'frozen selection')}, and {files}")
        if n_selections and not metric:
            these = "the selection" if n_selections == 1 else "the selections"
            print_sentence(f"export {these} first: later exports lack references, durations and fields of the manifest")
    is_asked = not yes and not as_json and sys.stdin.isatty()
    is_wanted = yes or (is_asked and typer.confirm(f"drop {meant}?"))
    if is_wanted and metric:
        removal.delete_imported_metric(installation, dataset, metric)
    elif is_wanted:
        removal.delete_dataset_everywhere(installation, dataset)
    if as_json:
        print_json({"dataset": dataset, "dropped": is_wanted, "goes": going, "selections_stay": n_selections})
    else:
        hint = "" if is_asked else f": add --yes to drop {meant}"
        print_sentence("dropped" if is_wanted else f"nothing was dropped{hint}")
