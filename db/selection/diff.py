"""The samples that only one of two selections holds, with reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from db.manifest.datasets import find_dataset
from db.schema import scorer
from db.selection.conditions import FilterError
from db.selection.eligible import Standing, load_standings
from db.selection.recipes import SelectionError, build_recipe, convert_rule
from db.selection.stored_selections import require_selection
from db.sql import read_sql

_NOT_BY_VALUE = {"random": "drew others at random", "diverse": "chose a diverse subset without it"}
_STATEMENT = read_sql("selection_diff")


@dataclass(frozen=True, slots=True)
class Difference:
    """A sample that only one of two selections holds, with its rank and value there. `change` is "came in" if the
    second selection holds it, and "went out" if the first one does. `reason` is why the other one does not hold it, as
    part of a sentence that is the same for all samples with this reason. `value_then` is the value by the other
    selection's only metric when it was made; None where there was none.
    """

    change: Literal["came in", "went out"]
    sample: str
    kind: str
    system: str
    rank: int
    value: float
    reason: str
    value_then: float | None


def compare_selections(connection: Connection, first: int, second: int) -> Iterator[Difference]:
    """Yield the samples that only the first of two selections holds, by rank, then those that only the second holds, by
    rank. `first` and `second` are numbers of selections. Raises SelectionError for an unknown number.
    """
    old, new = require_selection(connection, first), require_selection(connection, second)
    yield from _list_only_in(connection, old, new, "went out")
    yield from _list_only_in(connection, new, old, "came in")


def _list_only_in(
    connection: Connection, holder: RowMapping, other: RowMapping, change: Literal["came in", "went out"]
) -> Iterator[Difference]:
    scorer_id, metric = _find_only_scorer(connection, other["spec"])
    values = {
        "holder": holder["selection_id"],
        "other": other["selection_id"],
        "scorer_id": scorer_id,
        "made_at": other["created_at"],
    }
    statement = sa.text(_STATEMENT).bindparams(sa.bindparam("scorer_id", type_=sa.BigInteger))
    rows = connection.execute(statement, values).all()
    standings = _load_standings(connection, other, [row.sample_id for row in rows])
    for row in rows:
        reason = _explain_absence(row, holder, other, metric, standings.get(row.sample_id))
        yield Difference(change, row.sample, row.kind, row.system, row.rank, row.value, reason, row.value_then)


def _load_standings(connection: Connection, other: RowMapping, sample_ids: Sequence[int]) -> dict[int, Standing]:
    """Load how samples stand to the recipe of a selection; {} where its dataset or a column that it names is gone."""
    dataset = find_dataset(connection, other["dataset_name"])
    if dataset is None or dataset.dataset_id != other["dataset_id"] or not sample_ids:
        return {}
    try:
        recipe = build_recipe(other["spec"])
        return load_standings(connection, dataset, recipe, sample_ids, other["selection_id"])
    except (SelectionError, FilterError):
        return {}


def _build_comparable_rule(spec: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return the parts that two selections by the same rule have in common: recipe and encoder, without scorers and
    kind.
    """
    return convert_rule({**spec, "kind": "all"}), spec.get("encoder")


def _find_only_scorer(connection: Connection, spec: dict[str, Any]) -> tuple[int | None, str | None]:
    """Return id and metric of the only scorer that ranked a selection.

    Both are None if it ranked by several columns, or by one that is no metric.
    """
    if not isinstance(spec["by"], str):
        return None, None
    fingerprint = spec["scorer"] if "scorer" in spec else spec["scorers"].get(spec["by"])
    query = sa.select(scorer.c.scorer_id, scorer.c.metric).where(scorer.c.fingerprint == fingerprint)
    row = connection.execute(query).one_or_none()
    return (row.scorer_id, row.metric) if row else (None, None)


def _explain_absence(
    row: Any, holder: RowMapping, other: RowMapping, metric: str | None, standing: Standing | None
) -> str:
    """Return why selection `other` does not hold a sample of `holder`. The scores of a deleted sample are unknown."""
    name, spec = f"selection {other['selection_id']}", other["spec"]
    if (holder["dataset_id"], holder["dataset_name"]) != (other["dataset_id"], other["dataset_name"]):
        return f"{name} is from {'a dropped ' if other['dataset_id'] is None else ''}dataset {other['dataset_name']!r}"
    if spec["kind"] not in ("all", row.kind):
        return f"{name} holds only samples of kind {spec['kind']}"
    exclusion = _explain_exclusion(row, spec, standing, name)
    if metric is None:
        if _build_comparable_rule(holder["spec"]) == _build_comparable_rule(spec):
            return f"{name} took others by the same rule, since scores or samples were different when it was made"
        return exclusion or f"{name} has another rule"
    if row.is_gone:
        return f"the sample has been deleted, so its {metric} when {name} was made is not known"
    if row.status_then is None:
        return f"it had no {metric} score when {name} was made"
    if row.value_then is None:
        return f"its {metric} was undefined ({row.status_then}) when {name} was made"
    if spec.get("choose") in _NOT_BY_VALUE:
        # Its cutoff is only the least value that was taken, not a rule.
        return exclusion or f"{name} {_NOT_BY_VALUE[spec['choose']]}"
    if row.value_then < other["cutoff"]:
        return f"its {metric} was below the cut-off {other['cutoff']:.6g} of {name}"
    exclusion = exclusion or f"{name} excluded it {_find_exclusion_by_rank(row, other, standing)}"
    return f"its {metric} was high enough, but {exclusion}"


def _explain_exclusion(row: Any, spec: Mapping[str, Any], standing: Standing | None, name: str) -> str | None:
    """Return the clause for a sample that does not meet the conditions of a selection; None if nothing shows that. Only
    staleness is known as it was then: fields and other scores are those of now, so the clause is in the present tense.
    """
    if spec.get("stale") == "leave_out" and row.was_stale:
        return f"{name} excluded it as stale"
    if standing is None:
        has_conditions = bool(spec.get("where") or spec.get("at_least"))
        return f"{name} has a condition on a column that is gone" if has_conditions and not row.is_gone else None
    return f"it does not meet `{standing.unmet}` of {name}" if standing.unmet else None


def _find_exclusion_by_rank(row: Any, other: RowMapping, standing: Standing | None) -> str:
    """Return why a selection did not take a sample that meets its conditions, as the end of a sentence."""
    spec, cutoff = other["spec"], other["cutoff"]
    if spec.get("per") and standing is not None:
        if standing.least is None or row.value_then < standing.least:
            return f"by the size of its stratum {standing.stratum!r}"
        cutoff = standing.least
    if row.value_then == cutoff and other["n_tied_left"]:
        return "as one of several with the same value"
    if spec.get("dedupe") or spec.get("dedupe_videos"):
        return "as a near-duplicate"
    return "for a reason that no longer holds: a field or a score has changed since"
