"""How the defined scores of a dataset are distributed. Postgres counts them; no single score leaves the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.scores.sample_scores import prepare_for_joins
from db.sql import read_sql

_DEFINED = (
    "CREATE TEMPORARY TABLE defined (kind text, shard integer, video_id bigint, value double precision) ON COMMIT DROP"
)
_COLLECTED = sa.text(
    "INSERT INTO defined SELECT s.kind, s.shard, s.video_id, c.value FROM score c JOIN sample s USING (sample_id) "
    "WHERE c.scorer_id = :scorer_id AND c.value IS NOT NULL AND NOT c.is_stale AND s.dataset_id = :dataset_id"
)


class ShardThreshold(NamedTuple):
    """The threshold that keeps a share, from 0 to 1, of the `n` defined scores in one shard. value: the lowest of the
    best floor(share * n) scores, at least one. n_kept: how many scores are at least `value`; more than that if several
    equal it.
    """

    shard: int
    n: int
    share: float
    value: float
    n_kept: int


@dataclass(frozen=True, slots=True)
class Distribution:
    """Histogram, extremes and thresholds of the `n` defined scores of samples of one kind in a dataset. counts: the
    scores in equal bins from `low` to `high`. thresholds: by share, the lowest of the best floor(share * n) scores, at
    least one. n_kept: by share, how many scores are at least as high as its threshold.

    A score on a limit is in the bin above it, and `high` is in the last one. If all scores are equal, all are in the
    first bin. `count_in_share(share, n)` computes how many scores a share is.
    """

    n: int
    low: float
    high: float
    counts: tuple[int, ...]
    thresholds: Mapping[float, float]
    n_kept: Mapping[float, int]


def create_defined_table(connection: Connection, dataset: Dataset, scorer_id: int) -> list[str]:
    """Create the temporary table `defined` with a scorer's defined scores on a dataset, and return the kinds of samples
    in it ("caption", "qa"), sorted. A stale score is not defined. The table is gone with the transaction, and the other
    functions of this module read it.

    It also changes settings of Postgres's planner until the transaction ends, see `prepare_for_joins`.
    """
    prepare_for_joins(connection)
    connection.exec_driver_sql(_DEFINED)
    connection.execute(_COLLECTED, {"scorer_id": scorer_id, "dataset_id": dataset.dataset_id})
    connection.exec_driver_sql("ANALYZE defined")
    return list(connection.exec_driver_sql("SELECT DISTINCT kind FROM defined ORDER BY kind").scalars())


def compute_distribution(
    connection: Connection, kind: str, shares: Sequence[float] = (), bins: int = 30
) -> Distribution | None:
    """Return the distribution of the scores of samples of one kind in table `defined`; None if there is no such score.
    shares: from 0 to 1, for which thresholds are computed. bins: the number of equal bins of the histogram. Needs
    `create_defined_table` first.
    """
    statement = sa.text(read_sql("distribution"))
    values = {"kind": kind, "bins": bins, "shares": [str(share) for share in shares]}
    row = connection.execute(statement, values).one()
    if not row.n:
        return None
    counts = [0] * bins
    for place, n in row.counts.items():
        counts[int(place) - 1] = n
    cutoffs, n_kept = (dict(zip(shares, by_share or (), strict=True)) for by_share in (row.cutoffs, row.n_kept))
    return Distribution(row.n, row.low, row.high, tuple(counts), cutoffs, n_kept)


def load_shard_thresholds(connection: Connection, kind: str, shares: Sequence[float]) -> list[ShardThreshold]:
    """Return the thresholds that keep these shares, from 0 to 1, of every shard's scores of one kind, ordered by shard
    and share. Shards without such a score are left out. Reads table `defined`; needs `create_defined_table` first.
    """
    statement = sa.text(read_sql("shard_cutoffs"))
    rows = connection.execute(statement, {"kind": kind, "shares": [str(share) for share in shares]})
    return [ShardThreshold(row.shard, row.n, float(row.share), row.value, row.n_kept) for row in rows]


def compute_video_means(connection: Connection, kind: str) -> tuple[list[float], list[int]]:
    """Return two lists with an entry for every video that has a score of this kind: its mean score, and its shard. Both
    lists have one order, which may differ from call to call. Reads table `defined`; needs `create_defined_table` first.
    """
    query = sa.text("SELECT avg(value), shard FROM defined WHERE kind = :kind GROUP BY video_id, shard")
    rows = connection.execute(query, {"kind": kind}).all()
    return [row[0] for row in rows], [row[1] for row in rows]
