"""How the defined scores of a dataset are distributed, counted by Postgres: no score leaves the database."""

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
    """The lowest of the best scores of a shard, `kept(share, n)` of its n defined scores.

    n_kept: how many of its scores are at least as high; more than that where several have this value.
    """

    shard: int
    n: int
    share: float
    value: float
    n_kept: int


@dataclass(frozen=True, slots=True)
class Distribution:
    """The `n` defined scores of a dataset's samples of one kind.

    low, high: the extremes. counts: the scores in equal bins from low to high; a score on a limit belongs to the bin
    above it, and high to the last one. Where all scores are equal, all are in the first bin. cutoffs: by share, the
    lowest of the best scores, `kept(share, n)` of them. n_kept: by share, how many scores are at least as high.
    """

    n: int
    low: float
    high: float
    counts: tuple[int, ...]
    thresholds: Mapping[float, float]
    n_kept: Mapping[float, int]


def create_defined_table(connection: Connection, dataset: Dataset, scorer_id: int) -> list[str]:
    """Make the temporary table `defined` of a scorer's defined scores on a dataset. Returns their kinds of samples.

    The functions below read the scores of one kind: a caption's may lie on another scale than those of a
    question-answer pair. The table is gone with the transaction. A stale score is not defined.
    """
    prepare_for_joins(connection)
    connection.exec_driver_sql(_DEFINED)
    connection.execute(_COLLECTED, {"scorer_id": scorer_id, "dataset_id": dataset.dataset_id})
    connection.exec_driver_sql("ANALYZE defined")
    return list(connection.exec_driver_sql("SELECT DISTINCT kind FROM defined ORDER BY kind").scalars())


def compute_distribution(
    connection: Connection, kind: str, shares: Sequence[float] = (), bins: int = 30
) -> Distribution | None:
    """The distribution of the collected scores of a kind; None where no score is defined."""
    statement = sa.text(read_sql("distribution"))
    values = {"kind": kind, "bins": bins, "shares": [str(share) for share in shares]}
    row = connection.execute(statement, values).one()
    if not row.n:
        return None
    counts = [0] * bins
    for place, n in row.counts.items():
        counts[int(place) - 1] = n
    cutoffs, n_kept = (dict(zip(shares, found or (), strict=True)) for found in (row.cutoffs, row.n_kept))
    return Distribution(row.n, row.low, row.high, tuple(counts), cutoffs, n_kept)


def load_shard_thresholds(connection: Connection, kind: str, shares: Sequence[float]) -> list[ShardThreshold]:
    """The cutoffs of each shard with a collected score of a kind, by shard and share."""
    statement = sa.text(read_sql("shard_cutoffs"))
    rows = connection.execute(statement, {"kind": kind, "shares": [str(share) for share in shares]})
    return [ShardThreshold(row.shard, row.n, float(row.share), row.value, row.n_kept) for row in rows]


def compute_video_means(connection: Connection, kind: str) -> tuple[list[float], list[int]]:
    """The mean collected score of a kind of each video, and its shard, in the same order: videos are independent."""
    query = sa.text("SELECT avg(value), shard FROM defined WHERE kind = :kind GROUP BY video_id, shard")
    rows = connection.execute(query, {"kind": kind}).all()
    return [row[0] for row in rows], [row[1] for row in rows]
