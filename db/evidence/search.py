"""Search by stored vectors: the captions and videos with the highest cosine, compared exactly by pgvector."""

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
    connection: Connection,
    model_id: int,
    vector: NDArray[np.float32],
    dataset_id: int | None,
    limit: int,
    but_video: int | None = None,
) -> list[dict[str, Any]]:
    """List up to `limit` captions, the one whose vector is most similar to the given one (dim,) first. A dict has
    dataset, video, sample, sample_id, system, similarity (the cosine in [-1, 1]) and text. Captions whose whole text
    has no vector by this encoder, or one of all zeros, are left out.

    dataset_id: None for all datasets. but_video: the id of a video whose captions are left out; None for none.
    """
    return _nearest(connection, "nearest_texts", model_id, vector, dataset_id, limit, but_video)


def list_nearest_videos(
    connection: Connection,
    model_id: int,
    vector: NDArray[np.float32],
    dataset_id: int | None,
    limit: int,
    but_video: int | None = None,
) -> list[dict[str, Any]]:
    """List up to `limit` videos, the one with the frame most similar to the given vector (dim,) first. A dict has
    dataset, video, video_id, time_s (of that frame) and similarity (its cosine in [-1, 1]). Videos without vectors of
    their present file are left out.

    dataset_id: None for all datasets. but_video: the id of a video that is left out; None for none.
    """
    return _nearest(connection, "nearest_frames", model_id, vector, dataset_id, limit, but_video)


def count_captions_with_vectors(
    connection: Connection, model_id: int | None, dataset_id: int | None
) -> tuple[int, int]:
    """Return (number of captions with a vector of this text encoder, number of all captions). model_id: None for an
    encoder that is not registered yet; then the first is 0. dataset_id: None for all datasets.
    """
    has_vector = _build_vector_condition(model_id)
    query = sa.select(sa.func.count().filter(has_vector), sa.func.count()).where(*_list_conditions(dataset_id))
    n_stored, n = connection.execute(query).one()
    return n_stored, n


def list_captions_without_vector(connection: Connection, model_id: int | None, dataset_id: int | None) -> list[str]:
    """List the distinct captions without a vector of this text encoder. model_id, dataset_id: as in
    `count_captions_with_vectors`.
    """
    conditions = (*_list_conditions(dataset_id), ~_build_vector_condition(model_id))
    return list(connection.scalars(sa.select(sample.c.text).where(*conditions).distinct()))


def _build_vector_condition(model_id: int | None) -> sa.ColumnElement[bool]:
    return sa.exists().where(
        text_embedding.c.model_id == model_id, text_embedding.c.text_sha256 == sample.c.text_sha256
    )


def _list_conditions(dataset_id: int | None) -> list[sa.ColumnElement[bool]]:
    """List the conditions that a sample is a caption, and of this dataset unless it is None."""
    of_dataset = [] if dataset_id is None else [sample.c.dataset_id == dataset_id]
    return [sample.c.kind == "caption", *of_dataset]


def has_frame_vectors(connection: Connection, model_id: int | None, dataset_id: int | None) -> bool:
    """Whether any video of the dataset has a frame with a vector of this image encoder. model_id: None for an encoder
    that is not registered yet. dataset_id: None for all datasets.
    """
    query = sa.select(frame_embedding.c.video_id).where(frame_embedding.c.model_id == model_id).limit(1)
    if dataset_id is not None:
        in_dataset = video.c.dataset_id == dataset_id
        query = query.join(video, video.c.video_id == frame_embedding.c.video_id).where(in_dataset)
    return connection.execute(query).first() is not None


def _nearest(
    connection: Connection,
    statement: str,
    model_id: int,
    vector: NDArray[np.float32],
    dataset_id: int | None,
    limit: int,
    but_video: int | None,
) -> list[dict[str, Any]]:
    query = sa.text(read_sql(statement)).bindparams(sa.bindparam("but_video", type_=sa.BigInteger))
    values = {"model_id": model_id, "vector": Vector(vector).to_text(), "dataset_id": dataset_id, "limit": limit}
    values["but_video"] = but_video
    return [dict(row) for row in connection.execute(query, values).mappings()]
