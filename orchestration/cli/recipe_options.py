"""Turns the options of the command select into a recipe, and into the terms of a promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestration.cli.refusals import UsageError

if TYPE_CHECKING:
    from assets.promise.terms import PromiseTerms
    from db.selection.recipes import Recipe

PROMISE_OPTIONS = ("promise", "confidence", "by_people", "by_judge", "error_below", "raters", "shares")
"""Parameters of the command `select` that are the terms of a promise."""
# Options of the command that are no part of a recipe.
_OTHERS = ("dataset", "recipe", "preview", "export", "as_json", *PROMISE_OPTIONS)


def parse_recipe_options(options: Mapping[str, Any]) -> Recipe:
    """Return the recipe of the file that option `recipe` names, or the recipe that the other options give. options:
    values by the parameter names of the command `select`. Raises SelectionError if the file is given together with
    options of a recipe, and for values that no recipe can have.
    """
    from assets.selection.recipe_file import read_recipe
    from db.selection.recipes import SelectionError, parse_recipe

    fields = {name: value for name, value in options.items() if name not in _OTHERS and value not in (None, [], ())}
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
        fields["bands"] = [_parse_number("bands", part) for part in fields["bands"].split(",")]
    return parse_recipe(fields)


def parse_promise_options(options: Mapping[str, Any], rule: Recipe) -> PromiseTerms | None:
    """Return the terms of the promise that the options give, with the recipe's seed; None without --promise. options:
    as in `parse_recipe_options`. Raises UsageError for options that are missing, or that only a promise has, and
    SelectionError for values that no promise can have.
    """
    from assets.promise.terms import PromiseTerms, check_terms, parse_promise_limit
    from metrics_core.promise import DEFAULT_SHARES

    given = {name: options[name] for name in PROMISE_OPTIONS if options[name] not in (None, False)}
    if "promise" not in given:
        if given:
            names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise UsageError(f"{names}: only for a promise, give --promise 'errors <= 0.05' too, or leave it out")
        return None
    if ("by_people" in given) == ("by_judge" in given):
        raise UsageError("--promise needs answers: give either --by-people ASPECT or --by-judge")
    if "error_below" not in given:
        raise UsageError(
            "--promise does not know what an error is: give --error-below, such as 3 for ratings from 1 to 5"
        )
    if options["preview"]:
        raise UsageError("--preview shows no promise: leave it out, select freezes nothing that is not confirmed")
    shares = [_parse_number("shares", part) for part in given["shares"].split(",")] if "shares" in given else None
    terms = PromiseTerms(
        limit=parse_promise_limit(given["promise"]),
        error_below=given["error_below"],
        aspect=given.get("by_people"),
        confidence=given.get("confidence", 0.95),
        n_raters=given.get("raters", 1),
        shares=DEFAULT_SHARES if shares is None else tuple(shares),
        seed=rule.seed,
    )
    check_terms(terms, rule)
    return terms


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
