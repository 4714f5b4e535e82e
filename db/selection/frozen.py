"""Selections: frozen subsets with their rows, rule, cutoff and score hash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import Connection, Engine, RowMapping

from db import schema
from db.manifest.datasets import Dataset
from db.schema import selection, selection_item
from db.selection.choosing import Chosen, Pick, choose_by_recipe
from db.selection.freezing import FROZEN, forget_chosen, freeze_chosen
from db.selection.recipes import Recipe


@dataclass(frozen=True, slots=True)
class Selection:
    """A frozen selection: `n` of `n_eligible` rows; `cutoff` is the worst value among the `n`.

    n_duplicates: eligible rows left out as near-duplicates of better ones. unjudged: for each metric of the rule the
    samples of the dataset without a value, by the status that says why; "stale" and "unscored" are among them. kind,
    n_others, cuts: as in `Eligible`. n_tied, n_tied_left: as in `Size`.
    """

    selection_id: int
    n: int
    n_eligible: int
    cutoff: float
    score_hash: str
    is_new: bool
    n_duplicates: int
    unjudged: Mapping[str, Mapping[str, int]]
    kind: str
    n_others: int
    cuts: Mapping[str, Mapping[str, Any]]
    n_tied: int | None
    n_tied_left: int | None


def freeze_selection(connection: Connection, dataset: Dataset, recipe: Recipe, pick: Pick | None = None) -> Selection:
    """Freeze what a recipe takes of a dataset; `choose_by_recipe` says what that is. Needs one transaction.

    The same scores always give the same selection, and giving the same recipe twice returns the first selection.
    """
    chosen = choose_by_recipe(connection, dataset, recipe, pick, lock=True)
    existing = _existing(connection, dataset, chosen.score_hash, chosen.spec)
    selection_id = existing or _add(connection, dataset, chosen)
    forget_chosen(connection)
    size = chosen.size
    return Selection(
        selection_id,
        size.n,
        size.n_eligible,
        size.cutoff,
        chosen.score_hash,
        existing is None,
        chosen.n_duplicates,
        chosen.unjudged,
        chosen.found.kind,
        chosen.found.n_others,
        chosen.found.cuts,
        size.n_tied,
        size.n_tied_left,
    )


def _existing(connection: Connection, dataset: Dataset, score_hash: str, spec: dict[str, Any]) -> int | None:
    """The stored selection of the same rows by the same rule. The hash says of which kinds the rows are."""
    rule = sa.type_coerce({name: value for name, value in spec.items() if name != "kind"}, JSONB)
    same = sa.and_(
        selection.c.dataset_id == dataset.dataset_id,
        selection.c.score_hash == score_hash,
        selection.c.spec.op("-", return_type=JSONB())(sa.literal("kind", sa.Text)) == rule,
    )
    return connection.execute(sa.select(selection.c.selection_id).where(same).limit(1)).scalar_one_or_none()


def _add(connection: Connection, dataset: Dataset, chosen: Chosen) -> int:
    """Store the chosen rows as a new selection; its id."""
    row = {
        "dataset_id": dataset.dataset_id,
        "dataset_name": _name(dataset),
        "n": chosen.size.n,
        "cutoff": chosen.size.cutoff,
        "score_hash": chosen.score_hash,
        "n_eligible": chosen.size.n_eligible,
        "n_duplicates": chosen.n_duplicates,
        "n_tied": chosen.size.n_tied,
        "n_tied_left": chosen.size.n_tied_left,
        "unjudged": chosen.unjudged,
        "spec": chosen.spec,
        "metrics": list(chosen.models),
        "models": list(chosen.models.values()),
    }
    added = sa.insert(selection).values(row).returning(selection.c.selection_id)
    selection_id: int = connection.execute(added).scalar_one()
    freeze_chosen(connection, selection_id)
    return selection_id


def _name(dataset: Dataset) -> sa.ScalarSelect[Any]:
    """The dataset's name as it is now: it may have been renamed since the dataset was looked up."""
    return sa.select(schema.dataset.c.name).where(schema.dataset.c.dataset_id == dataset.dataset_id).scalar_subquery()


def find_selection(connection: Connection, selection_id: int) -> RowMapping | None:
    """The stored selection, or None."""
    return connection.execute(sa.select(selection).where(has_number(selection_id))).mappings().one_or_none()


def has_number(selection_id: int) -> sa.ColumnElement[bool]:
    """The condition on table `selection`; a number that is too large for a bigint is that of no selection."""
    return selection.c.selection_id == sa.literal(selection_id, sa.Numeric)


def selection_rows(engine: Engine, selection_id: int, batch_size: int = 5000) -> Iterator[list[dict[str, Any]]]:
    """The frozen rows in order of rank, in batches."""
    columns = [selection_item.c[name] for name in ("rank", "value", *FROZEN, "scores", "is_scored")]
    query = sa.select(*columns).where(selection_item.c.selection_id == selection_id).order_by(selection_item.c.rank)
    of_selection = sa.select(selection.c.dataset_name, selection.c.metrics, selection.c.models)
    with engine.connect().execution_options(stream_results=True, yield_per=batch_size) as connection:
        common = connection.execute(of_selection.where(selection.c.selection_id == selection_id)).one_or_none()
        if common is not None:
            for part in connection.execute(query).partitions():
                yield [_frozen(row, common) for row in part]


def _frozen(row: Any, common: Any) -> dict[str, Any]:
    digest = row.content_sha256
    frozen = {
        "rank": row.rank,
        "value": row.value,
        "dataset": common.dataset_name,
        **{name: getattr(row, name) for name in FROZEN},
        "content_sha256": None if digest is None else bytes(digest).hex(),
    }
    for metric, models, score, is_scored in zip(common.metrics, common.models, row.scores, row.is_scored, strict=True):
        frozen |= {metric: score, f"{metric}_models": models if is_scored else None}
    return frozen
