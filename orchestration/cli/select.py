"""The command select: freezes what a recipe takes, or previews it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli.output import AsJson, DatasetName, print_error, show_progress
from orchestration.cli.pass_installation import pass_installation
from orchestration.cli.recipe_options import parse_promise_options, parse_recipe_options
from orchestration.cli.selection_text import print_preview, print_promise, print_selection

if TYPE_CHECKING:
    from assets.promise.terms import PromiseTerms
    from db.manifest.datasets import Dataset
    from db.selection.recipes import Recipe
    from orchestration.installation import Installation


@pass_installation
def select(
    installation: Installation,
    context: typer.Context,
    dataset: DatasetName,
    by: Annotated[list[str] | None, typer.Option(help="Metric that ranks the samples; several as NAME=WEIGHT.")] = None,
    keep: Annotated[float | None, typer.Option(help="Share to keep of the eligible samples.")] = None,
    count: Annotated[int | None, typer.Option(help="Number of samples to keep, instead of a share.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="caption, qa or all (default: captions, where both could be taken).")
    ] = None,
    where: Annotated[
        str | None, typer.Option(help="""A condition, such as "vcs > 0.3 and system != 'brief'".""")
    ] = None,
    at_least: Annotated[
        list[str] | None, typer.Option(help="Least value as NAME=NUMBER, or a stored threshold: vcs='keep 0.25'.")
    ] = None,
    combine: Annotated[str | None, typer.Option(help="Mean of the `ranks` or `values` of several metrics.")] = None,
    dedupe: Annotated[
        float | None, typer.Option(help="Of samples whose texts have this cosine or more, keep the best.")
    ] = None,
    dedupe_videos: Annotated[
        float | None, typer.Option(help="Of videos whose pictures are this similar, such as 0.6, keep the best.")
    ] = None,
    video_encoder: Annotated[
        str | None, typer.Option(help="Compare videos by the manifest's vectors of this encoder, not by pictures.")
    ] = None,
    choose: Annotated[str | None, typer.Option(help="best, random or diverse.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of random numbers.")] = None,
    per: Annotated[
        str | None, typer.Option(help="Column of strata, such as system, duration_s or extra_FIELD.")
    ] = None,
    bands: Annotated[
        str | None, typer.Option(help="Limits that divide a numeric --per into strata, such as 10,30,60.")
    ] = None,
    quota: Annotated[
        list[str] | None, typer.Option(help="Most samples of a stratum as NAME=NUMBER; *=NUMBER caps the others.")
    ] = None,
    ties: Annotated[
        str | None, typer.Option(help="Samples of equal value at the cutoff: refuse, random, include or exclude.")
    ] = None,
    stale: Annotated[str | None, typer.Option(help="Stale scores: refuse or leave_out.")] = None,
    recipe: Annotated[Path | None, typer.Option(help="Read the whole recipe from this YAML file instead.")] = None,
    preview: Annotated[bool, typer.Option("--preview", help="Show what would be selected; freeze nothing.")] = False,
    export: Annotated[
        Path | None, typer.Option(help="Also write the selection to this .parquet, .jsonl or .csv file.")
    ] = None,
    promise: Annotated[
        str | None, typer.Option(help="""Freeze the most that answers confirm to be good: "errors <= 0.05".""")
    ] = None,
    confidence: Annotated[float | None, typer.Option(help="Confidence of the promise (default: 0.95).")] = None,
    by_people: Annotated[str | None, typer.Option(help="The promise counts people's ratings of this aspect.")] = None,
    by_judge: Annotated[
        bool, typer.Option("--by-judge", help="The promise counts scores of the metric judge.")
    ] = False,
    error_below: Annotated[
        float | None,
        typer.Option(
            help="A rating (1 to 5, or on the aspect's scale) or a judge's score (0 to 1) below this is an error."
        ),
    ] = None,
    raters: Annotated[
        int | None, typer.Option(min=1, help="The mean of this many first ratings decides (default: 1).")
    ] = None,
    shares: Annotated[
        str | None, typer.Option(help="Shares of the order to try, strictest first, such as 0.125,0.25,0.5,1.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Choose samples by a recipe, and freeze the choice. The same recipe and scores give the same rows.

    One of --keep, --count, --quota and --at-least must give the size, or --promise lets answers decide it.
    """
    from assets.datasets import require_dataset
    from assets.selection.export import export_selection
    from assets.selection.export_target import require_export_target
    from assets.selection.select import make_selection, preview_selection

    rule = parse_recipe_options(context.params)
    terms = parse_promise_options(context.params, rule)
    if export:
        require_export_target(export)
    dataset_row = require_dataset(installation.engine, dataset)
    if any(isinstance(least, str) for least in rule.at_least.values()):
        # Imported late: with it comes the machinery of runs.
        from orchestration.launch import create_missing_thresholds

        with show_progress() as tell:
            create_missing_thresholds(installation, dataset_row, rule, tell)
    if terms is not None:
        _select_with_promise(installation, dataset_row, rule, terms, export, as_json=as_json)
        return
    if preview:
        with show_progress() as tell, _raise_usage_error_without_size():
            ask = partial(tell.confirm, question="Embed them for this preview?")
            encoder = partial(_make_encoder, installation)
            seen = preview_selection(installation.engine, dataset_row, rule, encoder, tell, ask)
        print_preview(installation, seen, rule, dataset, as_json=as_json)
        return
    with show_progress() as tell, _raise_usage_error_without_size():
        chosen = make_selection(installation.engine, dataset_row, rule, partial(_make_encoder, installation), tell)
        path = export_selection(installation.engine, chosen.selection_id, export, tell=tell).path if export else None
    print_selection(installation, chosen, rule, dataset, path, as_json=as_json)


def _select_with_promise(
    installation: Installation,
    dataset: Dataset,
    rule: Recipe,
    terms: PromiseTerms,
    export: Path | None,
    *,
    as_json: bool,
) -> None:
    """Freeze and print what a promise lets through; where nothing is confirmed, print why and the sets, and end with
    exit code 1.
    """
    from assets.promise.select import PromiseUnconfirmed, make_promised_selection
    from assets.selection.export import export_selection

    try:
        with show_progress() as tell:
            made = make_promised_selection(
                installation.engine, dataset, rule, terms, partial(_make_encoder, installation), tell
            )
    except PromiseUnconfirmed as refusal:
        print_error(f"error: {refusal}")
        print_promise(refusal.state, None, as_json=as_json)
        raise typer.Exit(1) from None
    selection_id = made.selection.selection_id
    path = export_selection(installation.engine, selection_id, export, tell=tell).path if export else None
    print_promise(made.state, made, as_json=as_json)
    if not as_json:
        print_selection(installation, made.selection, rule, dataset.name, path, as_json=False)


@contextmanager
def _raise_usage_error_without_size() -> Iterator[None]:
    """Turn SizeMissing into UsageError, so that options without a size end with exit code 2."""
    from db.selection.recipes import SizeMissing
    from orchestration.cli.refusals import UsageError

    try:
        yield
    except SizeMissing as error:
        raise UsageError(str(error)) from error


def _make_encoder(installation: Installation) -> Any:
    # Imported late: with it comes the machinery of runs, which few selections need.
    from assets.selection.vectors import find_text_encoder

    return find_text_encoder(installation.curation.scorers)
