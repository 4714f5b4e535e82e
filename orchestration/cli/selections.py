"""The command selections: lists frozen selections, shows the recipe of one, and compares two."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assets.words.text import escape_controls
from orchestration.cli.output import AsJson, print_json, print_rows, print_sentence
from orchestration.cli.pass_installation import pass_installation
from orchestration.cli.selection_text import explain_choice

if TYPE_CHECKING:
    from db.selection.diff import Difference
    from orchestration.installation import Installation

_SHOWN = 20
selections = typer.Typer(help="List, show and compare frozen selections.", invoke_without_command=True)


@selections.callback()
@pass_installation
def print_selections(
    installation: Installation,
    context: typer.Context,
    dataset: Annotated[str | None, typer.Option("--dataset", "-d", help="Name of the dataset (default: all).")] = None,
    as_json: AsJson = False,
) -> None:
    """List frozen selections with their size and recipe, the newest first."""
    if context.invoked_subcommand is not None:
        return
    from assets.datasets.lookup import require_dataset
    from db.selection.recipes import convert_rule
    from db.selection.stored_selections import list_selections

    with installation.engine.connect() as connection:
        rows = list_selections(connection, dataset)
    if dataset and not rows:
        require_dataset(installation.engine, dataset)
    printed = [
        {
            "selection": row["selection_id"],
            "dataset": row["dataset_name"] if as_json or row["dataset_id"] else f"{row['dataset_name']} (dropped)",
            **(
                {"n": row["n"], "n_eligible": row["n_eligible"]}
                if as_json
                else {"n": f"{row['n']} of {row['n_eligible']}"}
            ),
            "cutoff": row["cutoff"],
            "made": row["created_at"].strftime("%Y-%m-%d %H:%M"),
            "recipe": row["spec"] if as_json else _format_recipe(convert_rule(row["spec"])),
        }
        for row in rows
    ]
    if as_json:
        print_json({"selections": printed})
    else:
        of = f" of {dataset}" if dataset else ""
        print_rows(printed, empty=f"there are no selections{of}: make one with reelsieve select")


@selections.command()
@pass_installation
def show(
    installation: Installation,
    selection_id: Annotated[int, typer.Argument(help="Number of the selection.")],
    as_json: AsJson = False,
) -> None:
    """Print the recipe of a frozen selection, as a YAML file that makes it again from the same scores."""
    from db.selection.recipes import convert_rule
    from db.selection.stored_selections import require_selection

    with installation.engine.connect() as connection:
        selection = require_selection(connection, selection_id)
    if as_json:
        print_json({**selection, "recipe": convert_rule(selection["spec"])})
        return
    typer.echo(format_recipe_file(dict(selection)), nl=False)


@selections.command()
@pass_installation
def diff(
    installation: Installation,
    first: Annotated[int, typer.Argument(help="Number of a selection.")],
    second: Annotated[int, typer.Argument(help="Number of the selection to compare it with.")],
    as_json: AsJson = False,
) -> None:
    """Show which samples only one of two selections holds, and why."""
    from dataclasses import asdict

    from db.selection.diff import compare_selections

    with installation.engine.connect() as connection:
        differences = list(compare_selections(connection, first, second))
    if as_json:
        print_json({"differences": [asdict(row) for row in differences]})
        return
    counts = Counter(row.change for row in differences)
    print_sentence(
        f"from selection {first} to {second}: {counts['went out']:,} went out, {counts['came in']:,} came in"
    )
    for change in ("went out", "came in"):
        _print_change(change, [row for row in differences if row.change == change])


def _print_change(change: str, rows: Sequence[Difference]) -> None:
    """Print a table for every reason, below the reason: the samples, with their values at that time where known."""
    for why in dict.fromkeys(row.reason for row in rows):
        same = [row for row in rows if row.reason == why]
        print_sentence(f"{len(same):,} {change}: {why}")
        shown: list[dict[str, Any]] = [{"sample": row.sample, "system": row.system} for row in same[:_SHOWN]]
        if any(row.value_then is not None for row in same):
            shown = [{**cells, "value": row.value_then} for cells, row in zip(shown, same, strict=False)]
        print_rows(shown, empty="")
        if len(same) > _SHOWN:
            print_sentence(f"and {len(same) - _SHOWN:,} more: --json lists all of them")


def format_recipe_file(selection: Mapping[str, Any]) -> str:
    """Return the recipe of a stored selection as YAML, with its size, ties and score hash as comments before it.
    selection: its row in table `selection`. Characters that a terminal would obey are escaped.

    Lines are not wrapped: a wrapped line could be another recipe, or none.
    """
    import yaml

    from assets.promise.sentences import explain_promise
    from db.selection.recipes import convert_rule

    spec, size = selection["spec"], f"{selection['n']:,} of {selection['n_eligible']:,} eligible samples"
    lines = [
        f"selection {selection['selection_id']}: {size}, score hash {selection['score_hash'][:16]}…",
        *explain_choice({**selection, "cuts": spec.get("cuts", {})}),
    ]
    if promise := selection.get("promise"):
        lines.append(explain_promise(promise, selection["n"]))
    if encoder := spec.get("encoder"):
        lines.append(f"texts compared by {encoder['model_id']}, revision {encoder['revision'][:19]}")
    comments = "".join(f"# {escape_controls(' '.join(line.split()))}\n" for line in lines)
    recipe, escaped = (
        str(yaml.safe_dump(convert_rule(spec), sort_keys=False, width=math.inf, allow_unicode=allow_unicode))
        for allow_unicode in (True, False)
    )
    return comments + (recipe if escape_controls(recipe) == recipe else escaped)


def _format_recipe(recipe: dict[str, object]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in recipe.items())
