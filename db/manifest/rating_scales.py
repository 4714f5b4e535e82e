"""The declared scales on which the aspects of a dataset are rated."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.schema import rating_scale


def find_scale_name(connection: Connection, dataset: Dataset, aspect: str) -> str | None:
    """Return the name of the declared scale of an aspect, such as "1-7"; None for an aspect without one, which is rated
    from 1 to 5.
    """
    query = sa.select(rating_scale.c.scale).where(rating_scale.c.dataset_id == dataset.dataset_id)
    return connection.scalar(query.where(rating_scale.c.aspect == aspect))


def load_turned_aspects(connection: Connection, dataset_id: int) -> dict[str, float]:
    """Load the aspects of a dataset of which the lowest number is best as {aspect: number}, sorted. Statistics subtract
    a rating from this number: the sum of the scale's ends, 0 for a scale without ends.
    """
    columns = rating_scale.c
    total = sa.func.coalesce(columns.least + columns.most, 0.0)
    query = sa.select(columns.aspect, total).where(columns.dataset_id == dataset_id, columns.lowest_is_best)
    return {row[0]: row[1] for row in connection.execute(query.order_by(columns.aspect))}
