"""What people say of a dataset's samples, beside their scores, and how far both agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.evidence.verdicts import MANIFEST_LABELS
from db.schema import agreement, dataset, keypoint_label, rating, reference, sample

# Ratings held at a time.
ROWS = 2000


@dataclass(frozen=True, slots=True)
class JudgedSample:
    """A sample that people rated or labelled. covered: the share of its keypoints labelled as covered, or None."""

    sample_id: int
    shard: int
    video_id: int
    system: str
    text: str
    covered: float | None
    kind: str = "caption"


def judged_samples(connection: Connection, dataset_id: int) -> list[JudgedSample]:
    """The samples of a dataset with a rating or a label of the manifest, by id. A judge's labels do not count."""
    covered = (
        sa.select(
            keypoint_label.c.sample_id, sa.func.avg(sa.case((keypoint_label.c.covered, 1.0), else_=0.0)).label("share")
        )
        .join(sample, sample.c.sample_id == keypoint_label.c.sample_id)
        .where(sample.c.dataset_id == dataset_id, keypoint_label.c.source == MANIFEST_LABELS)
        .group_by(keypoint_label.c.sample_id)
        .subquery()
    )
    is_rated = sa.exists().where(rating.c.sample_id == sample.c.sample_id)
    query = (
        sa.select(
            *(sample.c.sample_id, sample.c.shard, sample.c.video_id, sample.c.system, sample.c.text, covered.c.share),
            sample.c.kind,
        )
        .outerjoin(covered, covered.c.sample_id == sample.c.sample_id)
        .where(sample.c.dataset_id == dataset_id, is_rated | covered.c.share.is_not(None))
        .order_by(sample.c.sample_id)
    )
    return [
        JudgedSample(*row[:-2], covered=None if row.share is None else float(row.share), kind=row.kind)
        for row in connection.execute(query)
    ]


def ratings_of(connection: Connection, dataset_id: int) -> Iterator[tuple[int, str, str, float]]:
    """Sample id, rater, aspect and value of every rating of a dataset, in this order."""
    columns = (rating.c.sample_id, rating.c.rater, rating.c.aspect, rating.c.value)
    query = (
        sa.select(*columns)
        .join(sample, sample.c.sample_id == rating.c.sample_id)
        .where(sample.c.dataset_id == dataset_id)
        .order_by(*columns[:3])
    )
    for row in connection.execute(query, execution_options={"yield_per": ROWS}):
        yield row[0], row[1], row[2], row[3]


def references_of(connection: Connection, dataset_id: int) -> dict[int, list[str]]:
    """The texts of the references of every video that has some."""
    query = (
        sa.select(reference.c.video_id, reference.c.text)
        .where(reference.c.dataset_id == dataset_id)
        .order_by(reference.c.reference_id)
    )
    texts: dict[int, list[str]] = {}
    for video_id, text in connection.execute(query):
        texts.setdefault(video_id, []).append(text)
    return texts


def replace_agreement(connection: Connection, dataset_id: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Replace all rows of a dataset. rows: values by column of table `agreement`."""
    # Two runs may replace at once: the later one waits here, then removes what the earlier one stored.
    is_this = dataset.c.dataset_id == dataset_id
    connection.execute(sa.select(dataset.c.dataset_id).where(is_this).with_for_update(key_share=True))
    connection.execute(sa.delete(agreement).where(agreement.c.dataset_id == dataset_id))
    if rows:
        connection.execute(sa.insert(agreement), [{"dataset_id": dataset_id, **row} for row in rows])
