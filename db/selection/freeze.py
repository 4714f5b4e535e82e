"""Freeze picked samples as a selection: copy them with their rule, cutoff and score hash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.dialects.postgresql import aggregate_order_by, array
from sqlalchemy.engine import Connection
from sqlalchemy.ext.compiler import compiles

from db.manifest.datasets import Dataset
from db.schema import selection, selection_item, video
from db.selection.candidates import PickedSamples
from db.selection.eligible import EligibleSamples
from db.server.bulk import copy_rows

FROZEN_COLUMNS = ("sample", "video", "kind", "system", "text", "question", "answer", "uri", "content_sha256")
"""Columns of a sample and its video that a frozen row keeps, in addition to the origin of the video."""
_FROZEN_ORIGIN = ("licence", "source_url")
_CHOSEN_TABLE = sa.table(
    "chosen", *[sa.column(c.name, c.type) for c in selection_item.columns if c.name != "selection_id"]
)
_PICKED_TABLE = sa.Table(
    "picked",
    sa.MetaData(),
    sa.Column("rank", sa.BigInteger),
    sa.Column("sample_id", sa.BigInteger),
    sa.Column("value", sa.Double),
    prefixes=["TEMPORARY"],
    postgresql_on_commit="DROP",
)


@dataclass(frozen=True, slots=True)
class SelectionSummary:
    """A selection in numbers: `n` of `n_eligible` samples were taken, and `cutoff` is the lowest value among them.
    `n_duplicates` were left out as near-duplicates. `n_tied` of those taken, and `n_tied_left` left out, have exactly
    the value at which the size ends.

    unjudged, kind, n_others, cuts: as in `EligibleSamples`. n_tied, n_tied_left: None if no value decides.
    """

    n: int
    n_eligible: int
    cutoff: float
    n_tied: int | None
    n_tied_left: int | None
    n_duplicates: int
    unjudged: Mapping[str, Mapping[str, int]]
    kind: str
    n_others: int
    cuts: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Selection(SelectionSummary):
    """A frozen selection: its numbers, its id in table `selection`, and the SHA-256 over kinds, keys and values of its
    rows (`score_hash`). `is_new` is False if the same rule had taken the same samples with the same values before, and
    that selection was returned.
    """

    selection_id: int
    score_hash: str
    is_new: bool


def build_summary(eligible: EligibleSamples, picked: PickedSamples) -> SelectionSummary:
    """Return the numbers of picked samples: how many were eligible, taken, tied and left out, and the lowest value
    taken. Nothing is stored. At least one sample must be picked.
    """
    return SelectionSummary(
        n=len(picked.sample_ids),
        n_eligible=picked.n_eligible,
        cutoff=float(picked.values.min()),
        n_tied=picked.n_tied,
        n_tied_left=picked.n_tied_left,
        n_duplicates=picked.n_duplicates,
        unjudged=eligible.unjudged,
        kind=eligible.kind,
        n_others=eligible.n_others,
        cuts=eligible.cuts,
    )


def freeze_selection(
    connection: Connection,
    eligible: EligibleSamples,
    picked: PickedSamples,
    promise: Mapping[str, Any] | None = None,
) -> Selection:
    """Store the picked samples as a selection, with copies of their texts and scores, and return it; where the same
    rule took the same samples with the same values and promise before, return that selection. promise: for the
    passport; None without one. Must run in the transaction that picked them; it does not commit.
    """
    summary, rule = build_summary(eligible, picked), _build_rule(eligible, picked.encoder)
    _create_chosen_table(connection, eligible, picked)
    score_hash = _compute_hash(connection)
    existing = _find_equal_selection(connection, eligible.dataset, score_hash, rule, promise)
    selection_id = existing or _store_selection(connection, eligible, summary, rule, score_hash, promise)
    # Dropped before the transaction ends, so that it can be created again.
    connection.exec_driver_sql(f"DROP TABLE {_CHOSEN_TABLE.name}")
    numbers = {name: getattr(summary, name) for name in SelectionSummary.__dataclass_fields__}
    return Selection(**numbers, selection_id=selection_id, score_hash=score_hash, is_new=existing is None)


def _create_chosen_table(connection: Connection, eligible: EligibleSamples, picked: PickedSamples) -> None:
    """Create the temporary table `chosen` with a row for every picked sample: its rank from 1, texts, video, and scores
    by every metric. Postgres drops the table when the transaction ends.
    """
    scores, columns = eligible.scores, eligible.scores.columns
    _PICKED_TABLE.create(connection)
    driver: Any = connection.connection.driver_connection
    numbers = zip(picked.sample_ids.tolist(), picked.values.tolist(), strict=True)
    ranked = ((rank, *sample) for rank, sample in enumerate(numbers, start=1))
    copy_rows(driver, sql.Identifier(_PICKED_TABLE.name), list(_PICKED_TABLE.columns), ranked)
    connection.exec_driver_sql(f"ANALYZE {_PICKED_TABLE.name}")
    rows = sa.select(
        _PICKED_TABLE.c.rank,
        columns["sample_id"].label("sample_id"),
        _PICKED_TABLE.c.value,
        *[columns[name].label(name) for name in FROZEN_COLUMNS],
        array([columns[metric] for metric in eligible.metrics]).label("scores"),
        array([scores.is_scored[metric] for metric in eligible.metrics]).label("is_scored"),
        *[columns[name].label(name) for name in _FROZEN_ORIGIN],
    )
    joined = scores.from_clause.join(_PICKED_TABLE, _PICKED_TABLE.c.sample_id == columns["sample_id"])
    query = rows.select_from(joined).where(scores.dataset_condition).order_by(_PICKED_TABLE.c.rank)
    connection.execute(_TemporaryTable(_CHOSEN_TABLE.name, query))
    _PICKED_TABLE.drop(connection)


def _build_rule(eligible: EligibleSamples, encoder: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the recipe as plain data with everything else that decides the result: scorers, stored thresholds, text
    encoder.
    """
    recipe = eligible.recipe
    fingerprints = {name: eligible.scorers[name].fingerprint for name in eligible.deciding_metrics}
    rule = recipe.spec()
    if recipe.is_plain and list(fingerprints) == list(recipe.by):
        # The rule as passports and --json show it, with the one scorer by whose scores it ranks.
        rule |= {"where": recipe.where, "scorer": next(iter(fingerprints.values()))}
    else:
        rule |= {"scorers": fingerprints}
    rule["kind"] = eligible.kind
    if eligible.cuts:
        rule["cuts"] = {name: dict(cut) for name, cut in eligible.cuts.items()}
    if encoder is not None:
        rule["encoder"] = dict(encoder)
    return rule


def _compute_hash(connection: Connection) -> str:
    """Return the SHA-256 over kinds, keys and values of the chosen rows in order of rank."""
    line = (
        sa.func.concat_ws("\t", _CHOSEN_TABLE.c.kind, _CHOSEN_TABLE.c.sample, sa.cast(_CHOSEN_TABLE.c.value, sa.Text))
        + "\n"
    )
    lines = sa.func.string_agg(
        sa.func.convert_to(line, "UTF8"), aggregate_order_by(sa.literal(b""), _CHOSEN_TABLE.c.rank)
    )
    score_hash: str = connection.execute(sa.select(sa.func.encode(sa.func.sha256(lines), "hex"))).scalar_one()
    return score_hash


def _find_equal_selection(
    connection: Connection,
    dataset: Dataset,
    score_hash: str,
    rule: dict[str, Any],
    promise: Mapping[str, Any] | None,
) -> int | None:
    """Return the stored selection of the same rows by the same rule, with the same promise."""
    same = sa.and_(
        selection.c.dataset_id == dataset.dataset_id,
        selection.c.score_hash == score_hash,
        selection.c.spec == rule,
        selection.c.promise.is_(None) if promise is None else selection.c.promise == dict(promise),
    )
    return connection.execute(sa.select(selection.c.selection_id).where(same).limit(1)).scalar_one_or_none()


def _store_selection(
    connection: Connection,
    eligible: EligibleSamples,
    summary: SelectionSummary,
    rule: Mapping[str, Any],
    score_hash: str,
    promise: Mapping[str, Any] | None,
) -> int:
    """Store the chosen rows as a new selection, and return its id."""
    scorers = eligible.scorers
    row = {
        "dataset_id": eligible.dataset.dataset_id,
        "dataset_name": eligible.dataset.name,
        "n": summary.n,
        "cutoff": summary.cutoff,
        "score_hash": score_hash,
        "n_eligible": summary.n_eligible,
        "n_duplicates": summary.n_duplicates,
        "n_tied": summary.n_tied,
        "n_tied_left": summary.n_tied_left,
        "unjudged": summary.unjudged,
        "spec": rule,
        "promise": None if promise is None else dict(promise),
        "metrics": list(eligible.metrics),
        "models": [scorers[metric].models if metric in scorers else None for metric in eligible.metrics],
        "identities": _count_identities(connection, eligible.dataset),
    }
    added = sa.insert(selection).values(row).returning(selection.c.selection_id)
    selection_id: int = connection.execute(added).scalar_one()
    names = [column.name for column in _CHOSEN_TABLE.columns]
    rows = sa.select(sa.literal(selection_id), *_CHOSEN_TABLE.columns)
    connection.execute(sa.insert(selection_item).from_select(["selection_id", *names], rows))
    return selection_id


def _count_identities(connection: Connection, dataset: Dataset) -> dict[str, int]:
    """Count the chosen rows by the way in which their videos' files are recognised."""
    chosen = _CHOSEN_TABLE.join(
        video, sa.and_(video.c.dataset_id == dataset.dataset_id, video.c.key == _CHOSEN_TABLE.c.video)
    )
    counts = sa.select(video.c.identity, sa.func.count().label("n")).select_from(chosen).group_by(video.c.identity)
    rows = connection.execute(counts.where(video.c.identity.is_not(None)).order_by(video.c.identity))
    return {row.identity: row.n for row in rows}


class _TemporaryTable(sa.Executable, sa.ClauseElement):
    """CREATE TEMPORARY TABLE .. AS a query, with parameters. SQLAlchemy's own writes values into the statement."""

    inherit_cache = False

    def __init__(self, name: str, query: sa.Select[Any]) -> None:
        self.name = name
        self.query = query


@compiles(_TemporaryTable)
def _compile(element: _TemporaryTable, compiler: Any, **options: Any) -> str:
    return f"CREATE TEMPORARY TABLE {element.name} ON COMMIT DROP AS {compiler.process(element.query, **options)}"
