"""The numbers in a dataset's report."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.schema import keypoint_label, rating, sample
from db.verdicts import MANIFEST_LABELS


def dataset_summary(connection: Connection, name: str) -> dict[str, Any]:
    """The dataset's row of view dataset_summary."""
    row = connection.execute(sa.text("SELECT * FROM dataset_summary WHERE dataset = :name"), {"name": name})
    return dict(row.mappings().one())


def ratings_by_system(connection: Connection, dataset_id: int) -> dict[str, dict[str, float]]:
    """Mean rating per system and aspect."""
    query = (
        sa.select(sample.c.system, rating.c.aspect, sa.func.avg(rating.c.value))
        .join(sample, sample.c.sample_id == rating.c.sample_id)
        .where(sample.c.dataset_id == dataset_id)
        .group_by(sample.c.system, rating.c.aspect)
    )
    means: dict[str, dict[str, float]] = {}
    for system, aspect, mean in connection.execute(query):
        means.setdefault(system, {})[aspect] = float(mean)
    return means


def coverage_by_system(connection: Connection, dataset_id: int) -> dict[str, float]:
    """Share of labelled keypoints that each system covers, by the labels of the manifest: a judge's do not count."""
    covered = sa.func.avg(sa.case((keypoint_label.c.covered, 1.0), else_=0.0))
    query = (
        sa.select(sample.c.system, covered)
        .join(sample, sample.c.sample_id == keypoint_label.c.sample_id)
        .where(sample.c.dataset_id == dataset_id, keypoint_label.c.source == MANIFEST_LABELS)
        .group_by(sample.c.system)
    )
    return {system: float(share) for system, share in connection.execute(query)}


def has_synthetic_ratings(connection: Connection, dataset_id: int) -> bool:
    """Whether some rating of the dataset was made by a program and says so."""
    query = (
        sa.select(sa.literal(1))
        .select_from(rating.join(sample, sample.c.sample_id == rating.c.sample_id))
        .where(sample.c.dataset_id == dataset_id, rating.c.extra.contains({"synthetic": True}))
        .limit(1)
    )
    return connection.scalar(query) is not None
