"""The samples that a recipe may take, as a condition in SQL, with the scorers and thresholds that decide on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.schema import sample
from db.scores.present import (
    SIMPLE_SCORES,
    ActiveScorer,
    Column,
    PresentScores,
    active_scorers,
    is_number,
    known_scores,
    names_of,
    prepare_for_joins,
    present_scores,
)
from db.selection.columns import OWN, own_columns
from db.selection.filters import names_in, parse_filter
from db.selection.recipes import KINDS, Recipe, SelectionError
from db.selection.unjudged import count_unjudged

NO_STRATUM = "none"
"""The stratum of samples without a value in the column of strata."""


@dataclass(frozen=True, slots=True)
class Eligible:
    """The rows of `scores` that a recipe may take: those with a value in each of `by` that pass all `filters`.

    by: the columns that rank them. stratum: the name of each row's stratum, None for a recipe without strata. columns:
    all that the recipe may name. cuts: the stored thresholds that it names, as they are now, by metric. kind: which
    samples they are, "caption", "qa" or "all". n_others: how many samples of the other kind could be taken as well,
    where the recipe names no kind. metrics: those whose scores a frozen row keeps. scorers: all active ones, by metric.
    deciding: the metrics that the recipe names and that have a scorer. unjudged: how many samples of the dataset have
    no value of these, by metric and status.
    """

    dataset: Dataset
    recipe: Recipe
    scores: PresentScores
    columns: Mapping[str, Column]
    by: Sequence[Column]
    stratum: Column | None
    filters: Sequence[sa.ColumnElement[bool]]
    cuts: Mapping[str, Mapping[str, Any]]
    kind: str
    n_others: int
    metrics: Sequence[str]
    scorers: Mapping[str, ActiveScorer]
    deciding: Sequence[str]
    unjudged: Mapping[str, Mapping[str, int]]

    @property
    def conditions(self) -> tuple[sa.ColumnElement[bool], ...]:
        """What a row must fulfil to be eligible."""
        return (self.scores.of_dataset, *[value.is_not(None) for value in self.by], *self.filters)


def find_eligible(connection: Connection, dataset: Dataset, recipe: Recipe, *, lock: bool) -> Eligible:
    """Return what a recipe may take of a dataset now. Must begin a transaction, which then sees one snapshot.

    lock: whether other processes that would freeze wait until the transaction ends. Raises SelectionError for an
    unknown column, one that is no number, a threshold that is not stored, and stale scores that the recipe refuses;
    FilterError for a condition that is not allowed.
    """
    # The lock comes before the snapshot: of two processes that freeze at once the second one waits here, then finds
    # the selection of the first.
    connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    if lock:
        connection.exec_driver_sql("LOCK TABLE selection IN SHARE ROW EXCLUSIVE MODE")
    known = known_scores(connection, dataset)
    prepare_for_joins(connection)
    scorers = active_scorers(connection, dataset)
    scores = present_scores(dataset, known, scorers, next((name for name in recipe.by if name in scorers), None))
    columns = {**scores.shown, **own_columns(connection, dataset, recipe.names, scores)}
    by = [_number(columns, name, "by") for name in recipe.by]
    filters = [parse_filter(recipe.where, columns)] if recipe.where is not None else []
    floors = {name: _number(columns, name, "at_least") for name in recipe.at_least}
    stratum = _stratum(columns, recipe) if recipe.per else None
    kind, n_others, is_mixed = _kind(connection, dataset, recipe, scores, [scores.of_dataset, *filters], by)
    if is_mixed:
        filters.append(columns["kind"] == kind)
    cuts = {
        name: _stored_cut(connection, dataset, name, least, kind)
        for name, least in recipe.at_least.items()
        if isinstance(least, str)
    }
    for name, column in floors.items():
        filters.append(column >= (cuts[name]["at_least"] if name in cuts else recipe.at_least[name]))
    deciding = _deciding(recipe, scorers)
    return Eligible(
        dataset=dataset,
        recipe=recipe,
        scores=scores,
        columns=columns,
        by=by,
        stratum=stratum,
        filters=filters,
        cuts=cuts,
        kind=kind,
        n_others=n_others,
        metrics=[name for name in known if name not in SIMPLE_SCORES or name in recipe.names],
        scorers=scorers,
        deciding=deciding,
        unjudged=count_unjudged(connection, dataset, recipe, {name: scorers[name] for name in deciding}),
    )


def _kind(
    connection: Connection,
    dataset: Dataset,
    recipe: Recipe,
    scores: PresentScores,
    conditions: Sequence[sa.ColumnElement[bool]],
    by: Sequence[Column],
) -> tuple[str, int, bool]:
    """The kind of samples that a recipe takes, how many of the other kind it could take, and whether it must choose."""
    of_dataset = sa.select(sample.c.sample_id).where(sample.c.dataset_id == dataset.dataset_id)
    has = {kind: connection.scalar(sa.select(of_dataset.where(sample.c.kind == kind).exists())) for kind in KINDS}
    there = [kind for kind in KINDS if has[kind]]
    if recipe.kind is not None:
        return recipe.kind, 0, recipe.kind != "all" and there != [recipe.kind]
    if len(there) < 2:
        return (there or KINDS)[0], 0, False
    if recipe.per == "kind":
        # Each stratum is of one kind.
        return "all", 0, False
    kind = scores.columns["kind"]
    query = sa.select(kind, sa.func.count()).select_from(scores.rows).where(*conditions)
    counts = {row[0]: row[1] for row in connection.execute(query.where(*[v.is_not(None) for v in by]).group_by(kind))}
    if len(counts) < 2:
        return next(iter(counts), KINDS[0]), 0, False
    return KINDS[0], counts[KINDS[1]], True


def _stratum(columns: Mapping[str, Column], recipe: Recipe) -> Column:
    """The name of each row's stratum: the value of `per`, or its band."""
    assert recipe.per is not None
    if not recipe.bands:
        value = _column(columns, recipe.per, "per")
        if isinstance(value.type, sa.Double):
            value += 0.0  # else minus zero has another name than zero, which it equals
        return sa.func.coalesce(sa.cast(value, sa.Text), NO_STRATUM)
    value, bands = _number(columns, recipe.per, "per"), [repr(limit).removesuffix(".0") for limit in recipe.bands]
    between = [f"{low} to {high}" for low, high in pairwise(bands)]
    names = [f"below {bands[0]}", *between, f"{bands[-1]} and more"]
    cases = [(value < limit, sa.literal(name)) for limit, name in zip(recipe.bands, names, strict=False)]
    return sa.case((value.is_(None), sa.literal(NO_STRATUM)), *cases, else_=sa.literal(names[-1]))


def _stored_cut(connection: Connection, dataset: Dataset, metric: str, objective: str, kind: str) -> dict[str, Any]:
    """The cut on a metric's scores of a kind that is stored for the whole dataset with this objective."""
    if kind == "all":
        raise SelectionError(
            f"at_least names a threshold of {metric}, and each is of one kind: give kind caption or qa"
        )
    query = sa.text(
        "SELECT objective, at_least, low, high, n, n_kept, n_good FROM dataset_thresholds "
        "WHERE dataset_id = :dataset_id AND metric = :metric AND kind = :kind"
    )
    rows = connection.execute(query, {"dataset_id": dataset.dataset_id, "metric": metric, "kind": kind}).mappings()
    stored = {row["objective"]: dict(row) for row in rows}
    if objective not in stored:
        known = ", ".join(map(repr, sorted(stored))) or "none, since it has no scores of now there: score it first"
        raise SelectionError(
            f"at_least asks for the threshold {objective!r} of {metric}: stored for {dataset.name!r} are {known}"
        )
    return stored[objective]


def _number(columns: Mapping[str, Column], name: str, field: str) -> Column:
    numbers = {key: column for key, column in columns.items() if is_number(column)}
    if name in columns and name not in numbers:
        # The cells of a CSV are text, so a number becomes text without anybody's will.
        text = (
            " (own fields out of a CSV are text: JSON Lines and Parquet have numbers)" if name.startswith(OWN) else ""
        )
        raise SelectionError(f"the recipe's {field}: {name} is no number{text}: choose one of {names_of(numbers)}")
    return _column(numbers, name, field)


def _column(columns: Mapping[str, Column], name: str, field: str) -> Column:
    if name not in columns:
        known = names_of(columns)
        raise SelectionError(f"the recipe's {field}: there is no column {name[:40]!r}: choose one of {known}")
    return columns[name]


def _deciding(recipe: Recipe, scorers: Mapping[str, ActiveScorer]) -> list[str]:
    """The metrics that a recipe names and that have a scorer: those that it ranks by come first."""
    in_filter = names_in(recipe.where or "")
    others = [name for name in scorers if name in (*recipe.at_least, recipe.per) or name.lower() in in_filter]
    return [name for name in dict.fromkeys([*recipe.by, *others]) if name in scorers]
