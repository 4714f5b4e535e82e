"""Samples without a value by the metrics that a recipe names: how many there are, and how they could get one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.scores.imported_scores import load_imported_scorers
from db.scores.sample_scores import FACT_COLUMNS, ActiveScorer
from db.scores.store import count_statuses
from db.selection.recipes import SAMPLE_KINDS, Recipe, SelectionError

# How many samples have no value, by metric and status.
MissingScores = Mapping[str, Mapping[str, int]]


def count_missing_scores(
    connection: Connection, dataset: Dataset, recipe: Recipe, scorers: Mapping[str, ActiveScorer]
) -> dict[str, dict[str, int]]:
    """Count by metric and status the samples of a dataset that have no value; a metric by which all samples have a
    value is left out. `scorers` has the active scorer of every metric to count. Raises SelectionError if a score is
    stale and the recipe refuses stale scores.
    """
    counted_by: dict[str, dict[str, int]] = {}
    for name, scorer in scorers.items():
        counts = count_statuses(connection, scorer.scorer_id, dataset.dataset_id)
        if missing := {status: n for status, n in counts.items() if status != "ok" and n}:
            counted_by[name] = missing
    stale = {name: counts["stale"] for name, counts in counted_by.items() if "stale" in counts}
    if stale and recipe.stale == "refuse":
        shown = " and ".join(f"{n:,} {name} {'score' if n == 1 else 'scores'}" for name, n in stale.items())
        are = "is stale, since its" if sum(stale.values()) == 1 else "are stale, since their"
        raise SelectionError(
            f"{shown} of dataset {dataset.name!r} {are} inputs have changed: "
            f"{_explain_how_to_score(connection, dataset, stale)} first, or leave stale samples out with stale: "
            "leave_out in the recipe (reelsieve select: --stale leave_out)"
        )
    return counted_by


def explain_no_candidates(connection: Connection, dataset: Dataset, recipe: Recipe, missing: MissingScores) -> str:
    """Return a sentence about why a recipe has no sample of a dataset to choose from, with the remedy. `missing` has
    the counts of `count_missing_scores`. Reads the database to name the command that would score.
    """
    kind = "value" if recipe.by.keys() <= FACT_COLUMNS.keys() else "score"
    nobody = f"no sample of dataset {dataset.name!r} has a {' and '.join(recipe.by)} {kind}"
    limits = [f"kind {recipe.kind}"] if recipe.kind in SAMPLE_KINDS else []
    limits += [repr(recipe.where)] if recipe.where else []
    limits += [f"{name} >= {least}" for name, least in recipe.at_least.items()]
    if limits:
        return f"{nobody} and passes {', '.join(limits)}: loosen the condition"
    counts = {name: counts for name, counts in missing.items() if counts.keys() - {"unscored"}}
    if not counts:
        return f"{nobody}: {_explain_how_to_score(connection, dataset, recipe.by)} first"
    reasons = "; ".join(
        f"{name}: {n:,} {'sample' if n == 1 else 'samples'} {status}"
        for name, by_status in counts.items()
        for status, n in by_status.items()
    )
    return f"{nobody} ({reasons}): see the reasons and remedies in column error of view current_score"


def _explain_how_to_score(connection: Connection, dataset: Dataset, names: Iterable[str]) -> str:
    """Return how these metrics and facts get values of the present inputs: commands, a function for imported ones."""
    imported, facts = load_imported_scorers(connection).keys() & set(names), FACT_COLUMNS.keys() & set(names)
    ways = [f"run reelsieve score --dataset {dataset.name}"] if set(names) - imported - facts else []
    ways += [f"run reelsieve facts --dataset {dataset.name}"] if facts else []
    ways += [f"import {', '.join(sorted(imported))} again by rs.import_scores"] if imported else []
    return " and ".join(ways)
