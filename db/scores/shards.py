"""What is counted per shard, and counted again only where something has changed.

Triggers keep two versions: of a shard, which changes with any of its samples and with any input of
their videos, and of a scorer's work on the shard, which changes with every write of that work and of its thresholds. A
count is stored with both versions of the snapshot that it was made of, and holds as long as they are the same. So a
look at finished work reads one row per shard, whatever the shards hold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db.schema.inputs import Input, statement_over
from db.sql import read_sql

Counts = dict[tuple[int, int], Mapping[str, int]]
"""By (dataset_id, shard), the number of samples of each status; without those that are 0."""

# The statuses of samples that are still to be scored.
PENDING = ("unscored", "stale", "failed")
# One statement counts this many shards: what it has counted stays, if the next one is killed.
_AT_A_TIME = 64


@dataclass(frozen=True, slots=True)
class Tally:
    """Something to count in shards for a scorer.

    kind: which writes change it. statement: SQL of rows (dataset_id, shard, status, n) over the shards in `due`.
    is_tracked: whether triggers notice all that changes it; otherwise it is counted anew at every look.
    """

    kind: Literal["scores", "verdicts"]
    statement: str
    is_tracked: bool

    @property
    def rule_sha256(self) -> bytes | None:
        """What identifies the counts (32 bytes); None for counts that are not kept."""
        return hashlib.sha256(self.statement.encode()).digest() if self.is_tracked else None


def score_tally(inputs: Collection[Input[Any]]) -> Tally:
    """Samples by the status of their score: "unscored", "stale", or the stored status of a fresh score."""
    is_tracked = all(item.is_tracked for item in inputs)
    return Tally("scores", statement_over("counted_scores", inputs), is_tracked)


def shard_counts(engine: Engine, tally: Tally, scorer_id: int, dataset_ids: Iterable[int]) -> Counts:
    """The counts of every shard with samples; those that no longer hold are made anew and kept."""
    of_scorer = {"scorer_id": scorer_id, "kind": tally.kind, "rule_sha256": tally.rule_sha256}
    query = sa.text(read_sql("shard_counts"))
    with engine.connect() as connection:
        rows = connection.execute(query, {**of_scorer, "dataset_ids": list(dataset_ids)})
        counts: dict[tuple[int, int], Mapping[str, int] | None] = {(r.dataset_id, r.shard): r.counts for r in rows}
    due: dict[int, list[int]] = {}
    for (dataset_id, shard), known in counts.items():
        if known is None:
            due.setdefault(dataset_id, []).append(shard)
    found = {place: known for place, known in counts.items() if known is not None}
    for dataset_id, shards in due.items():
        for start in range(0, len(shards), _AT_A_TIME):
            some = {"dataset_id": dataset_id, "shards": shards[start : start + _AT_A_TIME]}
            found |= _count(engine, tally, {**of_scorer, **some})
    return found


def sample_counts(engine: Engine, dataset_ids: Iterable[int]) -> Counts:
    """The samples of every shard as "unscored", for a scorer that never ran."""
    query = sa.text(
        "SELECT dataset_id, shard, count(*) AS n FROM sample WHERE dataset_id = ANY(:dataset_ids) GROUP BY 1, 2"
    )
    with engine.connect() as connection:
        rows = connection.execute(query, {"dataset_ids": list(dataset_ids)})
        return {(row.dataset_id, row.shard): {"unscored": row.n} for row in rows}


def _count(engine: Engine, tally: Tally, values: Mapping[str, Any]) -> Counts:
    name = "count_shards" if tally.is_tracked else "look_at_shards"
    statement = sa.text(read_sql(name).replace("{counted}", tally.statement))
    with engine.begin() as connection:
        # The hashes of some hundred thousand samples stay in memory.
        connection.exec_driver_sql("SET LOCAL work_mem = '64MB'")
        rows = connection.execute(statement, {name: values[name] for name in statement.compile().params})
        return {(values["dataset_id"], row.shard): row.counts for row in rows}
