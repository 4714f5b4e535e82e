"""How the defined scores of a dataset are distributed, counted by Postgres: no value leaves the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

_SQL = Path(__file__).parent / "sql"


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
