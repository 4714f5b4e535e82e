"""How many samples of a shard have which status by a scorer: one row each, which triggers keep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.schema import shard, shard_count

Counts = dict[tuple[int, int], Mapping[str, int]]
"""By (dataset_id, shard), the number of samples of each status; without those that are 0."""

# The statuses of samples that are still to be scored.
PENDING = ("unscored", "stale", "failed")


def shard_counts(connection: Connection, scorer_id: int | None, dataset_ids: Iterable[int]) -> Counts:
    """The samples of every shard that has some: "unscored", "stale", or the status of a score of present inputs.

    scorer_id: None for a scorer that never ran.
    """
    is_its = sa.and_(
        *(shard_count.c[name] == shard.c[name] for name in ("dataset_id", "shard")),
        shard_count.c.scorer_id == scorer_id,
    )
    query = (
        sa.select(shard, shard_count.c.status, shard_count.c.n)
        .outerjoin(shard_count, is_its)
        .where(shard.c.dataset_id.in_(list(dataset_ids)))
    )
    counts: dict[tuple[int, int], dict[str, int]] = {}
    for row in connection.execute(query):
        of_shard = counts.setdefault((row.dataset_id, row.shard), {"unscored": row.n_samples})
        if row.status is not None:
            of_shard[row.status] = row.n
            of_shard["unscored"] -= row.n
    return {
        place: present
        for place, of_shard in counts.items()
        if (present := {status: n for status, n in of_shard.items() if n})
    }
