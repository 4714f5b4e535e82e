"""The command that freezes subsets: select."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from orchestration.cli.chosen import show_preview, show_selection
from orchestration.cli.output import AsJson, DatasetName, progress
from orchestration.cli.recipe_options import recipe_said


def select(
    context: typer.Context,
    dataset: DatasetName,
    by: Annotated[list[str] | None, typer.Option(help="Metric that ranks the samples; several as NAME=WEIGHT.")] = None,
    keep: Annotated[float | None, typer.Option(help="Share to keep of the eligible samples; 0.125 by default.")] = None,
    count: Annotated[int | None, typer.Option(help="Number of samples to keep, instead of a share.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="caption, qa or all; captions by default where both could be taken.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="""A condition, such as "vcs > 0.3 and system != 'brief'".""")
    ] = None,
    at_least: Annotated[
        list[str] | None, typer.Option(help="Least value as NAME=NUMBER, or a stored threshold: vcs='keep 0.25'.")
    ] = None,
    combine: Annotated[str | None, typer.Option(help="Of several metrics, the mean of `ranks` or `values`.")] = None,
    dedupe: Annotated[float | None, typer.Option(help="Of texts with this cosine or more, keep the best.")] = None,
    choose: Annotated[str | None, typer.Option(help="best, random or diverse.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of a random choice.")] = None,
    per: Annotated[
        str | None, typer.Option(help="Column of strata, such as system, duration_s or extra_FIELD.")
    ] = None,
    bands: Annotated[str | None, typer.Option(help="Limits of bands of --per, such as 10,30,60.")] = None,
    quota: Annotated[
        list[str] | None, typer.Option(help="Samples of a stratum as NAME=NUMBER; *=NUMBER caps the others.")
    ] = None,
    stale: Annotated[str | None, typer.Option(help="Stale scores: refuse or leave_out.")] = None,
    recipe: Annotated[Path | None, typer.Option(help="All of the above from a YAML file.")] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Show what it would take; freeze nothing.")] = False,
    export: Annotated[Path | None, typer.Option(help="Also write it to this .parquet, .jsonl or .csv file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Freeze samples by a recipe: rows, rule, cutoff and score hash. The same recipe and scores give the same rows."""
    from assets.datasets import dataset_of_key
    from assets.selection.export import export_selection
    from assets.selection.making import make_selection, prepared
    from assets.selection.target import export_target
    from db.selections.preview import preview as preview_of
    from orchestration.platform import engine

    rule = recipe_said(context.params)
    if export:
        export_target(export)
    dataset_row = dataset_of_key(engine(), dataset)
    if any(isinstance(least, str) for least in rule.at_least.values()):
        # Imported late: with it comes the machinery of runs.
        from orchestration.named_thresholds import make_named_thresholds

        with progress() as tell:
            make_named_thresholds(dataset_row, rule, tell)
    if preview:
        with progress() as tell:
            chooser = prepared(engine(), dataset_row, rule, _encoder, tell)
            with engine().begin() as connection:
                found = preview_of(connection, dataset_row, rule, chooser)
        show_preview(found, rule, dataset, as_json=as_json)
        return
    with progress() as tell:
        chosen = make_selection(engine(), dataset_row, rule, _encoder, tell)
        path = export_selection(engine(), chosen.selection_id, export, tell=tell).path if export else None
    show_selection(chosen, rule, dataset, path, as_json=as_json)


def _encoder() -> Any:
    # Imported late: with it comes the machinery of runs, which few selections need.
    from assets.selection.vectors import text_encoder
    from orchestration.launch import curation_scorers

    return text_encoder(curation_scorers())
