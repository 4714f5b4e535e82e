"""The samples that a recipe may choose from, as SQL conditions, with the scorers and thresholds that decide on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.manifest.rating_scales import load_turned_aspects
from db.schema import sample
from db.scores.sample_scores import (
    SIMPLE_SCORES,
    ActiveScorer,
    Column,
    SampleScores,
    build_sample_scores,
    format_column_names,
    is_number_column,
    list_dataset_scores,
    load_active_scorers,
    prepare_for_joins,
)
from db.selection.columns import OWN_PREFIX, RATING_PREFIX, build_own_columns
from db.selection.filters import list_column_names, parse_filter
from db.selection.missing_scores import count_missing_scores
from db.selection.recipes import SAMPLE_KINDS, Recipe, SelectionError
from db.server.arrays import build_id_condition
from db.spelling import suggest_name

NO_STRATUM = "none"
"""Name of the stratum of samples without a value in the column of strata."""


@dataclass(frozen=True, slots=True)
class EligibleSamples:
    """The samples of a dataset that a recipe may choose from, as SQL: those with a value in all `rank_columns` that
    pass all `filters`. `stratum` is the name of each row's stratum, None for a recipe without strata. `kind` is
    "caption", "qa" or "all".

    columns: all that the recipe may name. cuts: the stored thresholds that it names, as they are now, by metric.
    n_others: how many samples of the other kind could be taken as well, if the recipe names no kind. metrics: those
    whose scores a frozen row keeps. scorers: all active ones, by metric. deciding_metrics: the metrics that the recipe
    names and that have a scorer. unjudged: how many samples of the dataset have no value by these, by metric and
    status.
    """

    dataset: Dataset
    recipe: Recipe
    scores: SampleScores
    columns: Mapping[str, Column]
    rank_columns: Sequence[Column]
    stratum: Column | None
    filters: Sequence[sa.ColumnElement[bool]]
    cuts: Mapping[str, Mapping[str, Any]]
    kind: str
    n_others: int
    metrics: Sequence[str]
    scorers: Mapping[str, ActiveScorer]
    deciding_metrics: Sequence[str]
    unjudged: Mapping[str, Mapping[str, int]]

    @property
    def conditions(self) -> tuple[sa.ColumnElement[bool], ...]:
        """SQL conditions that a row must meet to be eligible: dataset, a value in all ranking columns, and the recipe's
        filters.
        """
        return (self.scores.dataset_condition, *[value.is_not(None) for value in self.rank_columns], *self.filters)


def find_eligible_samples(connection: Connection, dataset: Dataset, recipe: Recipe, *, lock: bool) -> EligibleSamples:
    """Return the samples that a recipe may choose from now, as SQL with the scorers and thresholds that decide. It must
    be the first statement of a transaction, which then sees one snapshot of the data. With `lock`, other processes that
    would freeze a selection wait until this transaction ends.

    Raises SelectionError for an unknown column, one without numbers, ratings of which the lowest is best in `by` or
    `at_least`, a threshold that is not stored, and stale scores that the recipe refuses; FilterError for a condition
    that is not allowed.
    """
    # The lock comes before the snapshot: of two processes that freeze at once the second one waits here, then finds
    # the selection of the first.
    connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    if lock:
        connection.exec_driver_sql("LOCK TABLE selection IN SHARE ROW EXCLUSIVE MODE")
    known = list_dataset_scores(connection, dataset)
    prepare_for_joins(connection)
    scorers = load_active_scorers(connection, dataset)
    scores = build_sample_scores(dataset, known, scorers, next((name for name in recipe.by if name in scorers), None))
    columns = {**scores.view_columns, **build_own_columns(connection, dataset, recipe.column_names, scores)}
    _refuse_turned_aspects(connection, dataset, recipe)
    by = [_require_number_column(columns, name, "by") for name in recipe.by]
    filters = [parse_filter(recipe.where, columns)] if recipe.where is not None else []
    floors = {name: _require_number_column(columns, name, "at_least") for name in recipe.at_least}
    stratum = _build_stratum(columns, recipe) if recipe.per else None
    kind, n_others, is_mixed = _choose_kind(
        connection, dataset, recipe, scores, [scores.dataset_condition, *filters], by
    )
    if is_mixed:
        filters.append(columns["kind"] == kind)
    cuts = {
        name: _load_threshold(connection, dataset, name, least, kind)
        for name, least in recipe.at_least.items()
        if isinstance(least, str)
    }
    for name, column in floors.items():
        filters.append(column >= (cuts[name]["at_least"] if name in cuts else recipe.at_least[name]))
    deciding = _list_deciding_metrics(recipe, scorers)
    return EligibleSamples(
        dataset=dataset,
        recipe=recipe,
        scores=scores,
        columns=columns,
        rank_columns=by,
        stratum=stratum,
        filters=filters,
        cuts=cuts,
        kind=kind,
        n_others=n_others,
        metrics=[name for name in known if name not in SIMPLE_SCORES or name in recipe.column_names],
        scorers=scorers,
        deciding_metrics=deciding,
        unjudged=count_missing_scores(connection, dataset, recipe, {name: scorers[name] for name in deciding}),
    )


def load_standings(
    connection: Connection, dataset: Dataset, recipe: Recipe, sample_ids: Sequence[int]
) -> dict[int, tuple[str | None, str | None]]:
    """Load by sample id the first condition of a recipe that the sample does not meet now, in the recipe's words, None
    if it meets all; and the name of its stratum, None without strata. Deleted samples are left out. Raises
    SelectionError and FilterError where the recipe names a column that is gone.
    """
    known = list_dataset_scores(connection, dataset)
    prepare_for_joins(connection)
    scores = build_sample_scores(dataset, known, load_active_scorers(connection, dataset))
    columns = {**scores.view_columns, **build_own_columns(connection, dataset, recipe.column_names, scores)}
    sample_id = scores.columns["sample_id"]
    stratum = _build_stratum(columns, recipe) if recipe.per else sa.null()
    rows = sa.select(sample_id, _build_unmet(recipe, columns), stratum).select_from(scores.from_clause)
    wanted = rows.where(scores.dataset_condition, build_id_condition(sample_id, sample_ids))
    return {row[0]: (row[1], row[2]) for row in connection.execute(wanted)}


def _build_unmet(recipe: Recipe, columns: Mapping[str, Column]) -> sa.ColumnElement[Any]:
    """Return the first condition of a recipe that a row does not meet, as the recipe has it; NULL if it meets all."""
    conditions: dict[str, sa.ColumnElement[bool]] = {}
    if recipe.where is not None:
        conditions[f"where: {recipe.where}"] = parse_filter(recipe.where, columns)
    for name, least in recipe.at_least.items():
        conditions[f"at_least: {name} {least}"] = _require_number_column(columns, name, "at_least") >= least
    unmet = [(condition.is_not(sa.true()), sa.literal(words)) for words, condition in conditions.items()]
    return sa.case(*unmet) if unmet else sa.null()


def _choose_kind(
    connection: Connection,
    dataset: Dataset,
    recipe: Recipe,
    scores: SampleScores,
    conditions: Sequence[sa.ColumnElement[bool]],
    by: Sequence[Column],
) -> tuple[str, int, bool]:
    """Return the kind of samples a recipe takes, how many of the other kind it could take, and whether to filter by
    kind.
    """
    dataset_samples = sa.select(sample.c.sample_id).where(sample.c.dataset_id == dataset.dataset_id)
    has = {
        kind: connection.scalar(sa.select(dataset_samples.where(sample.c.kind == kind).exists()))
        for kind in SAMPLE_KINDS
    }
    kinds = [kind for kind in SAMPLE_KINDS if has[kind]]
    if recipe.kind is not None:
        return recipe.kind, 0, recipe.kind != "all" and kinds != [recipe.kind]
    if len(kinds) < 2:
        return (kinds or SAMPLE_KINDS)[0], 0, False
    if recipe.per == "kind":
        # Each stratum is of one kind.
        return "all", 0, False
    kind = scores.columns["kind"]
    query = sa.select(kind, sa.func.count()).select_from(scores.from_clause).where(*conditions)
    counts = {row[0]: row[1] for row in connection.execute(query.where(*[v.is_not(None) for v in by]).group_by(kind))}
    if len(counts) < 2:
        return next(iter(counts), SAMPLE_KINDS[0]), 0, False
    return SAMPLE_KINDS[0], counts[SAMPLE_KINDS[1]], True


def _build_stratum(columns: Mapping[str, Column], recipe: Recipe) -> Column:
    """Return the column with the name of each row's stratum: the value of `per`, or its band."""
    assert recipe.per is not None
    if not recipe.bands:
        value = _require_column(columns, recipe.per, "per")
        if isinstance(value.type, sa.Double):
            value += 0.0  # else minus zero has another name than zero, which it equals
        return sa.func.coalesce(sa.cast(value, sa.Text), NO_STRATUM)
    value, bands = (
        _require_number_column(columns, recipe.per, "per"),
        [repr(limit).removesuffix(".0") for limit in recipe.bands],
    )
    between = [f"{low} to {high}" for low, high in pairwise(bands)]
    names = [f"below {bands[0]}", *between, f"{bands[-1]} and more"]
    cases = [(value < limit, sa.literal(name)) for limit, name in zip(recipe.bands, names, strict=False)]
    return sa.case((value.is_(None), sa.literal(NO_STRATUM)), *cases, else_=sa.literal(names[-1]))


def _load_threshold(connection: Connection, dataset: Dataset, metric: str, objective: str, kind: str) -> dict[str, Any]:
    """Load the threshold on a metric's scores of a kind that is stored for the whole dataset with this objective."""
    if kind == "all":
        raise SelectionError(
            f"at_least names a threshold of {metric}, which applies to one kind of sample: give kind caption or qa"
        )
    query = sa.text(
        "SELECT objective, at_least, low, high, n, n_kept, n_good FROM dataset_thresholds "
        "WHERE dataset_id = :dataset_id AND metric = :metric AND kind = :kind"
    )
    rows = connection.execute(query, {"dataset_id": dataset.dataset_id, "metric": metric, "kind": kind}).mappings()
    stored = {row["objective"]: dict(row) for row in rows}
    if objective not in stored:
        score = f"it has none, so run reelsieve score --dataset {dataset.name} --metric {metric} first"
        remedy = f"name one of {', '.join(map(repr, sorted(stored)))}" if stored else score
        raise SelectionError(
            f"at_least asks for the threshold {objective!r} of {metric}, which dataset {dataset.name!r} does not have "
            f"for kind {kind}: {remedy}"
        )
    return stored[objective]


def _require_number_column(columns: Mapping[str, Column], name: str, field: str) -> Column:
    numbers = {key: column for key, column in columns.items() if is_number_column(column)}
    if name in columns and name not in numbers:
        # The cells of a CSV are text, so a number becomes text although nobody chose that.
        text = (
            " (own fields from a CSV are text; JSON Lines and Parquet have numbers)"
            if name.startswith(OWN_PREFIX)
            else ""
        )
        raise SelectionError(
            f"the recipe's {field}: column {name} holds no numbers{text}: choose one of {format_column_names(numbers)}"
        )
    return _require_column(numbers, name, field)


def _refuse_turned_aspects(connection: Connection, dataset: Dataset, recipe: Recipe) -> None:
    """Raise SelectionError where a recipe would take the highest ratings of an aspect of which the lowest is best."""
    turned = {f"{RATING_PREFIX}{aspect}" for aspect in load_turned_aspects(connection, dataset.dataset_id)}
    for field, names in (("by", [*recipe.by]), ("at_least", [*recipe.at_least])):
        if name := next((name for name in names if name in turned), None):
            raise SelectionError(
                f"the recipe's {field} names {name}, of which the lowest is best, but a recipe takes the highest: "
                f'name another column, and set the highest {name} in where, such as "{name}" <= 2'
            )


def _require_column(columns: Mapping[str, Column], name: str, field: str) -> Column:
    if name not in columns:
        hint, known = suggest_name(name, columns, ":"), format_column_names(columns)
        raise SelectionError(f"the recipe's {field}: there is no column {name[:40]!r}{hint} choose one of {known}")
    return columns[name]


def _list_deciding_metrics(recipe: Recipe, scorers: Mapping[str, ActiveScorer]) -> list[str]:
    """List the metrics that a recipe names and that have a scorer, first those that it ranks by."""
    in_filter = list_column_names(recipe.where or "")
    filter_metrics = [name for name in scorers if name in (*recipe.at_least, recipe.per) or name.lower() in in_filter]
    return [name for name in dict.fromkeys([*recipe.by, *filter_metrics]) if name in scorers]
