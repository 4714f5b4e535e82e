"""How the defined scores of a dataset are distributed, counted by Postgres: no value leaves the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

_SQL = Path(__file__).parent / "sql"


class ShardCutoff(NamedTuple):
    """The lowest of the best scores of a shard, `kept(share, n)` of its n defined scores."""

    shard: int
    n: int
    share: float
    value: float


@dataclass(frozen=True, slots=True)
class Distribution:
    """The `n` defined scores of a dataset.

    low, high: the extremes. counts: the scores in equal bins from low to high; a score on a limit belongs to the bin
    above it, and high to the last one. Where all scores are equal, all are in the first bin. cutoffs: by share, the
    lowest of the best scores, `kept(share, n)` of them.
    """

    n: int
    low: float
    high: float
    counts: tuple[int, ...]
    cutoffs: Mapping[float, float]


def distribution(
    connection: Connection, scorer_id: int, dataset_id: int, shares: Sequence[float] = (), bins: int = 30
) -> Distribution | None:
    """The distribution of a scorer's defined scores on a dataset; None where no score is defined."""
    connection.exec_driver_sql("SET LOCAL work_mem = '64MB'")
    statement = sa.text((_SQL / "distribution.sql").read_text())
    values = {
        "scorer_id": scorer_id,
        "dataset_id": dataset_id,
        "bins": bins,
        "shares": [str(share) for share in shares],
    }
    row = connection.execute(statement, values).one()
    if not row.n:
        return None
    counts = [0] * bins
    for place, n in row.counts.items():
        counts[int(place) - 1] = n
    return Distribution(row.n, row.low, row.high, tuple(counts), dict(zip(shares, row.cutoffs or (), strict=True)))


def shard_cutoffs(
    connection: Connection, scorer_id: int, dataset_id: int, shares: Sequence[float]
) -> list[ShardCutoff]:
    """The cutoffs of each shard with a defined score, by shard and share."""
    connection.exec_driver_sql("SET LOCAL work_mem = '64MB'")
    statement = sa.text((_SQL / "shard_cutoffs.sql").read_text())
    values = {"scorer_id": scorer_id, "dataset_id": dataset_id, "shares": [str(share) for share in shares]}
    rows = connection.execute(statement, values)
    return [ShardCutoff(row.shard, row.n, float(row.share), row.value) for row in rows]


def video_means(connection: Connection, scorer_id: int, dataset_id: int) -> tuple[list[float], list[int]]:
    """The mean defined score of each video, and its shard, in the same order."""
    statement = sa.text((_SQL / "video_means.sql").read_text())
    rows = connection.execute(statement, {"scorer_id": scorer_id, "dataset_id": dataset_id}).all()
    return [row.mean for row in rows], [row.shard for row in rows]
