"""The options of a recipe, which the commands select and promise share, and the recipe that they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestration.cli.output import show_progress

if TYPE_CHECKING:
    from db.manifest.datasets import Dataset
    from db.selection.recipes import Recipe
    from metrics_core.protocols import TextEncoder
    from orchestration.installation import Installation

By = Annotated[list[str] | None, typer.Option(help="Metric that ranks the samples; several as NAME=WEIGHT.")]
Where = Annotated[str | None, typer.Option(help="""A condition, such as "vcs > 0.3 and system != 'brief'".""")]
AtLeast = Annotated[
    list[str] | None, typer.Option(help="Least value as NAME=NUMBER, or a stored threshold: vcs='keep 0.25'.")
]
Dedupe = Annotated[float | None, typer.Option(help="Of samples whose texts have this cosine or more, keep the best.")]
Seed = Annotated[int | None, typer.Option(help="Seed of random numbers.")]
RecipeFile = Annotated[Path | None, typer.Option(help="Read the whole recipe from this YAML file instead.")]


def prepare_recipe(installation: Installation, options: Mapping[str, Any]) -> tuple[Dataset, Recipe]:
    """Return the dataset and the recipe of a command, after the thresholds that the recipe names are there. options:
    values by parameter name, of which `dataset`, `recipe` and the fields of a recipe count. Raises SelectionError as
    `parse_recipe_options` does, and what `require_dataset` raises.
    """
    from assets.datasets.lookup import require_dataset

    rule = parse_recipe_options(options)
    dataset = require_dataset(installation.engine, options["dataset"])
    if any(isinstance(least, str) for least in rule.at_least.values()):
        # Imported late: with it comes the machinery of runs.
        from orchestration.launch import create_missing_thresholds

        with show_progress() as tell:
            create_missing_thresholds(installation, dataset, rule, tell)
    return dataset, rule


def make_text_encoder(installation: Installation) -> TextEncoder:
    """Return the encoder that compares the texts of samples, as `find_text_encoder` does."""
    # Imported late: with it comes the machinery of runs, which few selections need.
    from assets.selection.vectors import find_text_encoder

    return find_text_encoder(installation.curation.scorers)


def parse_recipe_options(options: Mapping[str, Any]) -> Recipe:
    """Return the recipe of the file that option `recipe` names, or the recipe that the options of its fields give.
    Raises SelectionError if the file is given together with such options, and for values that no recipe can have.
    """
    from assets.selection.recipe_file import read_recipe
    from db.selection.recipes import Recipe, SelectionError, parse_recipe

    names = {*Recipe.model_fields, "quota"}
    fields = {name: value for name, value in options.items() if name in names and value not in (None, [], ())}
    path = options["recipe"]
    if path is not None:
        if fields:
            given = ", ".join(f"--{name.replace('_', '-')}" for name in fields)
            raise SelectionError(f"--recipe holds the whole recipe: leave {given} out, or write them into {path}")
        return read_recipe(path)
    if "by" in fields:
        fields["by"] = _parse_pairs("by", [text if "=" in text else f"{text}=1" for text in fields["by"]])
    if "quota" in fields:
        quotas = _parse_pairs("quota", fields.pop("quota"))
        fields["quotas"] = {
            name: int(n) if isinstance(n, float) and n.is_integer() else n for name, n in quotas.items()
        }
    if "at_least" in fields:
        fields["at_least"] = _parse_pairs("at-least", fields["at_least"])
    if "bands" in fields:
        fields["bands"] = parse_numbers("bands", fields["bands"])
    return parse_recipe(fields)


def parse_numbers(option: str, text: str) -> list[float]:
    """Return the numbers of a text such as "10,30,60". option: the name that SelectionError names.

    >>> parse_numbers("bands", "10,30.5")
    [10.0, 30.5]
    """
    return [_parse_number(option, part) for part in text.split(",")]


def _parse_pairs(option: str, texts: Sequence[str]) -> dict[str, float | str]:
    from db.selection.recipes import SelectionError

    pairs: dict[str, float | str] = {}
    for text in texts:
        name, value = _parse_pair(option, text)
        if name in pairs:
            raise SelectionError(f"--{option} names {name[:40]!r} twice: leave one out")
        pairs[name] = value
    return pairs


def _parse_pair(option: str, text: str) -> tuple[str, float | str]:
    """Return (NAME, VALUE) of NAME=VALUE; a value that reads as a number is a float, any other a text."""
    from db.selection.recipes import SelectionError

    name, sign, value = text.rpartition("=")
    if not sign or not name or not value:
        raise SelectionError(f"--{option} {text}: give it as NAME=VALUE")
    try:
        return name.strip(), float(value)
    except ValueError:
        return name.strip(), value.strip()


def _parse_number(option: str, text: str) -> float:
    from db.selection.recipes import SelectionError

    try:
        return float(text)
    except ValueError as error:
        raise SelectionError(f"--{option}: {text!r} is not a number: give numbers such as 10,30,60") from error
