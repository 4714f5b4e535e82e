"""Search by stored vectors: what points most nearly the way of a given vector, compared exactly by pgvector."""

from __future__ import annotations

from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from pgvector import Vector
from sqlalchemy.engine import Connection

from db.schema import frame_embedding, sample, text_embedding, video
from db.sql import read_sql


def list_nearest_captions(
    connection: Connection, model_id: int, vector: NDArray[np.float32], dataset_id: int | None, limit: int
) -> list[dict[str, Any]]:
    """The captions nearest to a vector (dim,), with their cosine `similarity` in [-1, 1], the nearest first.

    dataset_id: None for all datasets. Only captions whose whole text has a vector of this model are found.
    """
    return _nearest(connection, "nearest_texts", model_id, vector, dataset_id, limit)


def list_nearest_videos(
    connection: Connection, model_id: int, vector: NDArray[np.float32], dataset_id: int | None, limit: int
) -> list[dict[str, Any]]:
    """The videos with the frames nearest to a vector (dim,): `time_s` of each one's best frame, and its similarity."""
    return _nearest(connection, "nearest_frames", model_id, vector, dataset_id, limit)


def count_captions_with_vectors(
    connection: Connection, model_id: int | None, dataset_id: int | None
) -> tuple[int, int]:
    """How many captions have a vector of this model, and how many captions there are."""
    has_vector = sa.exists().where(
        text_embedding.c.model_id == model_id, text_embedding.c.text_sha256 == sample.c.text_sha256
    )
    query = sa.select(sa.func.count().filter(has_vector), sa.func.count()).where(sample.c.kind == "caption")
    if dataset_id is not None:
        query = query.where(sample.c.dataset_id == dataset_id)
    n_stored, n = connection.execute(query).one()
    return n_stored, n


def has_frame_vectors(connection: Connection, model_id: int | None, dataset_id: int | None) -> bool:
    """Whether any frame has a vector of this model."""
    query = sa.select(frame_embedding.c.video_id).where(frame_embedding.c.model_id == model_id).limit(1)
    if dataset_id is not None:
        of_dataset = video.c.dataset_id == dataset_id
        query = query.join(video, video.c.video_id == frame_embedding.c.video_id).where(of_dataset)
    return connection.execute(query).first() is not None


def _nearest(
    connection: Connection,
    statement: str,
    model_id: int,
    vector: NDArray[np.float32],
    dataset_id: int | None,
    limit: int,
) -> list[dict[str, Any]]:
    query = sa.text(read_sql(statement))
    given = {"model_id": model_id, "vector": Vector(vector).to_text(), "dataset_id": dataset_id, "limit": limit}
    return [dict(row) for row in connection.execute(query, given).mappings()]
