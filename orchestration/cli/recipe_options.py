"""The options of a recipe, which the commands select and promise share, and the recipe that they give."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli.output import show_progress

if TYPE_CHECKING:
    from db.manifest.datasets import Dataset
    from db.selection.recipes import Recipe
    from metrics_core.protocols import TextEncoder
    from orchestration.installation import Installation

By = Annotated[list[str] | None, typer.Option(help="Metric to rank the samples by; several as NAME=WEIGHT.")]
Where = Annotated[str | None, typer.Option(help="Condition on samples, such as \"vcs > 0.3 and system != 'brief'\".")]
AtLeast = Annotated[
    list[str] | None, typer.Option(help="Lowest value to keep, as NAME=NUMBER, or a stored threshold: vcs='keep 0.25'.")
]
Dedupe = Annotated[float | None, typer.Option(help="Cosine of texts from which on only the best sample is kept.")]
Seed = Annotated[int | None, typer.Option(help="Seed of random numbers.")]
RecipeFile = Annotated[Path | None, typer.Option(help="File in YAML to read the whole recipe from instead.")]


def prepare_recipe(
    installation: Installation, dataset: str, path: Path | None, **options: Any
) -> tuple[Dataset, Recipe]:
    """Return the dataset of this name and the recipe of a command, after computing missing thresholds that the recipe
    names. path: the recipe file; None for a recipe by options. options: values by field of a recipe, None or empty
    where not given. Raises SelectionError for a file together with options, and for impossible values, and what
    `require_dataset` raises.
    """
    from assets.datasets.lookup import require_dataset

    rule = _read_options(path, {name: value for name, value in options.items() if value not in (None, [], ())})
    stored_dataset = require_dataset(installation.engine, dataset)
    if any(isinstance(least, str) for least in rule.at_least.values()):
        # Imported late: with it comes the machinery of runs.
        from orchestration.launch import create_missing_thresholds

        with show_progress() as tell:
            create_missing_thresholds(installation, stored_dataset, rule, tell)
    return stored_dataset, rule


def make_text_encoder(installation: Installation) -> TextEncoder:
    """Return the encoder that compares the texts of samples, as `find_text_encoder` does."""
    # Imported late: with it comes the machinery of runs, which few selections need.
    from assets.selection.vectors import find_text_encoder

    return find_text_encoder(installation.curation.scorers)


def _read_options(path: Path | None, fields: dict[str, Any]) -> Recipe:
    from assets.selection.recipe_file import read_recipe
    from db.selection.recipes import SelectionError, parse_recipe

    if path is None:
        if "by" in fields:
            fields["by"] = _parse_pairs("by", [text if "=" in text else f"{text}=1" for text in fields["by"]])
        if "at_least" in fields:
            fields["at_least"] = _parse_pairs("at-least", fields["at_least"])
        return parse_recipe(fields)
    if fields:
        given = ", ".join(f"--{name.replace('_', '-')}" for name in fields)
        them = "it" if len(fields) == 1 else "them"
        raise SelectionError(f"--recipe holds the whole recipe: leave {given} out, or write {them} into {path}")
    return read_recipe(path)


def _parse_pairs(option: str, texts: Sequence[str]) -> dict[str, float | str]:
    """Return {NAME: VALUE} of NAME=VALUE; a value that reads as a number is a float, any other a text."""
    from db.selection.recipes import SelectionError

    pairs: dict[str, float | str] = {}
    for text in texts:
        name, _, value = (part.strip() for part in text.rpartition("="))
        if not name or not value:
            raise SelectionError(f"--{option} {text}: write it as NAME=VALUE, such as vcs=0.3")
        if name in pairs:
            raise SelectionError(f"--{option} names {name[:40]!r} twice: leave one out")
        try:
            pairs[name] = float(value)
        except ValueError:
            pairs[name] = value
    return pairs
