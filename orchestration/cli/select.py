"""The command select: freezes what a recipe takes, or previews it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from orchestration.cli.output import AsJson, DatasetName, show_progress
from orchestration.cli.pass_installation import pass_installation
from orchestration.cli.recipe_options import (
    AtLeast,
    By,
    Dedupe,
    RecipeFile,
    Seed,
    Where,
    make_text_encoder,
    prepare_recipe,
)
from orchestration.cli.selection_text import print_preview, print_selection

if TYPE_CHECKING:
    from orchestration.installation import Installation


@pass_installation
def select(
    installation: Installation,
    dataset: DatasetName,
    by: By = None,
    keep: Annotated[float | None, typer.Option(help="Share of the eligible samples to keep.")] = None,
    count: Annotated[int | None, typer.Option(help="Number of samples to keep, instead of a share.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="Kind of samples: caption, qa or all (default: captions, where both could be taken)."),
    ] = None,
    where: Where = None,
    at_least: AtLeast = None,
    dedupe: Dedupe = None,
    choose: Annotated[str | None, typer.Option(help="Way to choose: best, random or diverse.")] = None,
    seed: Seed = None,
    per: Annotated[
        str | None, typer.Option(help="Column of strata, such as system, duration_s or extra_FIELD.")
    ] = None,
    stale: Annotated[str | None, typer.Option(help="Rule for stale scores: refuse or leave_out.")] = None,
    recipe: RecipeFile = None,
    preview: Annotated[
        bool, typer.Option("--preview", help="Show what would be selected, and freeze nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Choose samples by a recipe, and freeze the choice. The same recipe and scores give the same rows.

    One of --keep, --count and --at-least must give the size, or a recipe file, which has more fields.
    """
    from assets.selection.select import make_selection, preview_selection

    stored_dataset, rule = prepare_recipe(
        installation,
        dataset,
        recipe,
        by=by,
        keep=keep,
        count=count,
        kind=kind,
        where=where,
        at_least=at_least,
        dedupe=dedupe,
        choose=choose,
        seed=seed,
        per=per,
        stale=stale,
    )
    encoder = partial(make_text_encoder, installation)
    with show_progress() as tell, _raise_usage_error_without_size():
        if preview:
            ask = partial(tell.confirm, question="Embed them for this preview?")
            seen = preview_selection(installation.engine, stored_dataset, rule, encoder, tell, ask)
        else:
            chosen = make_selection(installation.engine, stored_dataset, rule, encoder, tell)
    if preview:
        print_preview(installation, seen, rule, dataset, as_json=as_json)
    else:
        print_selection(installation, chosen, rule, dataset, as_json=as_json)


@contextmanager
def _raise_usage_error_without_size() -> Iterator[None]:
    """Turn SizeMissing into UsageError, so that options without a size end with exit code 2."""
    from db.selection.recipes import SizeMissing
    from orchestration.cli.refusals import UsageError

    try:
        yield
    except SizeMissing as error:
        raise UsageError(str(error)) from error
