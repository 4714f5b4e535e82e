"""The stored agreement of scores with people (table `agreement`), and what it is compared with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.schema import agreement, dataset, reference, score, scorer


def count_references(connection: Connection, dataset_id: int, video_ids: Collection[int]) -> dict[int, int]:
    """Return the number of references of the given videos, by video id; a video without references is left out."""
    query = (
        sa.select(reference.c.video_id, sa.func.count())
        .where(reference.c.dataset_id == dataset_id, reference.c.video_id == sa.any_(sa.bindparam("ids")))
        .group_by(reference.c.video_id)
    )
    return {row[0]: row[1] for row in connection.execute(query, {"ids": list(video_ids)})}


def list_agreement(connection: Connection, dataset_id: int) -> list[Mapping[str, Any]]:
    """List the rows of a dataset in table `agreement` as dicts, in the order in which they were stored."""
    query = sa.select(agreement).where(agreement.c.dataset_id == dataset_id).order_by(agreement.c.agreement_id)
    return [dict(row) for row in connection.execute(query).mappings()]


def find_newest_score_time(connection: Connection, sample_ids: Sequence[int]) -> datetime | None:
    """Return when the newest score by an active scorer on these samples was stored, stale scores included; None if they
    have no such score.
    """
    query = (
        sa.select(sa.func.max(score.c.scored_at))
        .join(scorer, (scorer.c.scorer_id == score.c.scorer_id) & (scorer.c.status == "active"))
        .where(score.c.sample_id == sa.any_(sa.bindparam("ids")))
    )
    newest: datetime | None = connection.scalar(query, {"ids": list(sample_ids)})
    return newest


def replace_agreement(connection: Connection, dataset_id: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Replace all rows of a dataset in table `agreement` by the given ones, dicts of values by column without
    `dataset_id`. Waits while another process replaces them.
    """
    # Two runs may replace at once: the later one waits here, then removes what the earlier one stored.
    is_this = dataset.c.dataset_id == dataset_id
    connection.execute(sa.select(dataset.c.dataset_id).where(is_this).with_for_update(key_share=True))
    connection.execute(sa.delete(agreement).where(agreement.c.dataset_id == dataset_id))
    if rows:
        connection.execute(sa.insert(agreement), [{"dataset_id": dataset_id, **row} for row in rows])
