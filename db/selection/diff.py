"""The samples that only one of two selections holds, with reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from db.manifest.datasets import find_dataset
from db.schema import scorer
from db.selection.conditions import FilterError
from db.selection.eligible import load_standings
from db.selection.recipes import SelectionError, build_recipe, convert_rule
from db.selection.stored_selections import require_selection
from db.server.arrays import read_arrays
from db.sql import read_sql

_NOT_BY_VALUE = {"random": "drew others at random", "diverse": "chose a diverse subset without it"}
_STATEMENT = read_sql("selection_diff")
_ITEMS = "SELECT sample_id, value FROM selection_item WHERE selection_id = :selection_id"

# The first condition of a recipe that a sample does not meet, and the name of its stratum.
_Standing = tuple[str | None, str | None]


@dataclass(frozen=True, slots=True)
class Difference:
    """A sample that only one of two selections holds, with its rank and value there. change: "came in" if the second
    holds it, "went out" if the first does. reason: why the other does not, as part of a sentence for all such samples.
    value_then: by the other's only metric when it was made; None where there was none.
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
    sample_ids, _ = _load_items(connection, holder)
    other_ids, other_values = _load_items(connection, other)
    missing = sample_ids[~np.isin(sample_ids, other_ids)].tolist()
    values = {"holder": holder["selection_id"], "sample_ids": missing, "scorer_id": scorer_id}
    values["made_at"] = other["created_at"]
    statement = sa.text(_STATEMENT).bindparams(sa.bindparam("scorer_id", type_=sa.BigInteger))
    in_strata = other_ids.tolist() if other["spec"].get("per") else []
    standings = _load_standings(connection, other, missing + in_strata) if missing else {}
    least: dict[str | None, float] = {}
    for sample_id, value in zip(in_strata, other_values.tolist(), strict=False):
        if sample_id in standings:
            _, stratum = standings[sample_id]
            least[stratum] = min(value, least.get(stratum, value))
    for row in connection.execute(statement, values):
        reason = _explain_absence(row, holder, other, metric, standings.get(row.sample_id), least)
        yield Difference(change, row.sample, row.kind, row.system, row.rank, row.value, reason, row.value_then)


def _load_items(connection: Connection, selection: RowMapping) -> list[npt.NDArray[Any]]:
    """Load the ids of the samples of a selection, and the values that ranked them, as arrays (n,) in the same order."""
    return read_arrays(connection, {"sample_id": "i8", "value": "f8"}, _ITEMS, dict(selection))


def _load_standings(connection: Connection, other: RowMapping, sample_ids: Sequence[int]) -> dict[int, _Standing]:
    """Load how samples stand to the recipe of a selection; {} where its dataset or a column that it names is gone."""
    dataset = find_dataset(connection, other["dataset_name"])
    if dataset is None or dataset.dataset_id != other["dataset_id"]:
        return {}
    try:
        return load_standings(connection, dataset, build_recipe(other["spec"]), sample_ids)
    except (SelectionError, FilterError):
        return {}


def _explain_rule(holder: Mapping[str, Any], spec: Mapping[str, Any], exclusion: str | None, name: str) -> str:
    """Return why a selection by the rule `spec` lacks a sample of one by the rule `holder`, by recipe and encoder."""
    seeds = [rule.get("seed", 0) for rule in (holder, spec)]
    first, second = ((convert_rule({**rule, "kind": "all", "seed": 0}), rule.get("encoder")) for rule in (holder, spec))
    if first == second and seeds[0] == seeds[1]:
        return f"{name} took others by the same rule, since scores or samples were different when it was made"
    another = f"the same rule with seed {seeds[1]}, not {seeds[0]}" if first == second else "another rule"
    return exclusion or f"{name} has {another}"


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
    row: Any,
    holder: RowMapping,
    other: RowMapping,
    metric: str | None,
    standing: _Standing | None,
    least: Mapping[str | None, float],
) -> str:
    """Return why selection `other` does not hold a sample of `holder`. The scores of a deleted sample are unknown."""
    name, spec = f"selection {other['selection_id']}", other["spec"]
    if (holder["dataset_id"], holder["dataset_name"]) != (other["dataset_id"], other["dataset_name"]):
        return f"{name} is from {'a dropped ' if other['dataset_id'] is None else ''}dataset {other['dataset_name']!r}"
    if spec["kind"] not in ("all", row.kind):
        return f"{name} holds only samples of kind {spec['kind']}"
    exclusion = _explain_exclusion(row, spec, standing, name)
    if metric is None:
        return _explain_rule(holder["spec"], spec, exclusion, name)
    if row.is_gone:
        return f"the sample has been deleted, so its {metric} when {name} was made is not known"
    if row.status_then is None:
        return f"it had no {metric} score when {name} was made"
    if row.value_then is None:
        return f"its {metric} was undefined ({row.status_then}) when {name} was made"
    if spec.get("choose") in _NOT_BY_VALUE:
        # Its cutoff is only the lowest value that was taken, not a rule.
        return exclusion or f"{name} {_NOT_BY_VALUE[spec['choose']]}"
    if row.value_then < other["cutoff"]:
        return f"its {metric} was below the cut-off {other['cutoff']:.6g} of {name}"
    exclusion = exclusion or f"{name} excluded it {_find_exclusion_by_rank(row, other, standing, least)}"
    return f"its {metric} was high enough, but {exclusion}"


def _explain_exclusion(row: Any, spec: Mapping[str, Any], standing: _Standing | None, name: str) -> str | None:
    """Return the clause for a sample that does not meet the conditions of a selection; None if nothing shows that. Only
    staleness is known as it was then: fields and other scores are those of now, so the clause is in the present tense.
    """
    if spec.get("stale") == "leave_out" and row.was_stale:
        return f"{name} excluded it as stale"
    if standing is None:
        has_conditions = bool(spec.get("where") or spec.get("at_least"))
        return f"{name} has a condition on a column that is gone" if has_conditions and not row.is_gone else None
    unmet, _ = standing
    return f"it does not meet `{unmet}` of {name}" if unmet else None


def _find_exclusion_by_rank(
    row: Any, other: RowMapping, standing: _Standing | None, least: Mapping[str | None, float]
) -> str:
    """Return why a selection did not take a sample that meets its conditions, as the end of a sentence."""
    spec, cutoff = other["spec"], other["cutoff"]
    if spec.get("per") and standing is not None:
        _, stratum = standing
        if stratum not in least or row.value_then < least[stratum]:
            return f"by the size of its stratum {stratum!r}"
        cutoff = least[stratum]
    if row.value_then == cutoff and other["n_tied_left"]:
        return "as one of several with the same value"
    if spec.get("dedupe") or spec.get("dedupe_videos"):
        return "as a near-duplicate"
    return "for a reason that no longer holds: a field or a score has changed since"
