"""Vectors of whole videos that manifests bring, by encoders of other tools (table `video_embedding`). A vector counts
while its video has the file that it had when the vector was stored.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from pgvector import Vector
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.schema import model, video, video_embedding
from db.sql import read_sql

IS_PRESENT = sa.and_(
    video.c.video_id == video_embedding.c.video_id,
    video.c.content_sha256.is_not_distinct_from(video_embedding.c.content_sha256),
)


class EncoderOfVectors(NamedTuple):
    """An encoder of vectors that manifests brought: its id in table `model`, and how many numbers its stored vectors
    have; None where none is stored yet.
    """

    model_id: int
    length: int | None


class VideoVector(NamedTuple):
    """A video with a vector of its present file by an encoder: their ids, the name of the encoder, and the vector."""

    video_id: int
    model_id: int
    encoder: str
    vector: NDArray[np.float32]


def build_identity(name: str) -> dict[str, Any]:
    """Return the identity in table `model` of an encoder that only its name is known of. No model that is run here has
    such parameters.

    >>> build_identity("InternVideo2")
    {'model_id': 'InternVideo2', 'revision': 'unknown', 'params': {'vectors': 'of a manifest'}}
    """
    return {"model_id": name, "revision": "unknown", "params": {"vectors": "of a manifest"}}


def list_encoders(connection: Connection, dataset: Dataset | None) -> dict[str, int]:
    """Return {name: number of videos with a vector of their present file} for the encoders of the vectors that the
    manifests of a dataset brought, by name. dataset: None for all datasets.
    """
    query = sa.select(model.c.name, sa.func.count()).select_from(video_embedding.join(model).join(video, IS_PRESENT))
    query = query.group_by(model.c.name).order_by(model.c.name)
    if dataset is not None:
        query = query.where(video.c.dataset_id == dataset.dataset_id)
    return {row[0]: row[1] for row in connection.execute(query)}


def load_video_vectors(
    connection: Connection, dataset: Dataset, encoder: str, video_ids: Collection[int]
) -> dict[int, NDArray[np.float32]]:
    """Load by video id the vectors (dim,) of the given videos by an encoder, given by name. Videos without a vector of
    their present file are left out.
    """
    query = sa.select(video.c.video_id, video_embedding.c.embedding)
    query = query.select_from(video_embedding.join(model).join(video, IS_PRESENT))
    query = query.where(model.c.name == encoder, video.c.dataset_id == dataset.dataset_id)
    wanted = set(video_ids)
    return {row.video_id: _convert(row.embedding) for row in connection.execute(query) if row.video_id in wanted}


def list_vectors_by_key(connection: Connection, dataset: Dataset | None, key: str) -> list[VideoVector]:
    """List the vectors of the videos with this key, with their encoders, by name. dataset: None for all datasets."""
    query = sa.select(video.c.video_id, model.c.model_id, model.c.name, video_embedding.c.embedding)
    query = query.select_from(video_embedding.join(model).join(video, IS_PRESENT)).where(video.c.key == key)
    if dataset is not None:
        query = query.where(video.c.dataset_id == dataset.dataset_id)
    rows = connection.execute(query.order_by(model.c.name, video.c.video_id))
    return [VideoVector(row[0], row[1], row[2], _convert(row[3])) for row in rows]


def list_nearest_to_video(
    connection: Connection, known: VideoVector, dataset: Dataset | None, limit: int
) -> list[dict[str, Any]]:
    """List up to `limit` other videos with the vectors most similar to that of the video `known`, the most similar
    first. A dict has dataset, video and similarity (the cosine in [-1, 1]). dataset: None for all datasets.
    """
    values = {
        "model_id": known.model_id,
        "video_id": known.video_id,
        "vector": Vector(known.vector).to_text(),
        "dataset_id": None if dataset is None else dataset.dataset_id,
        "limit": limit,
    }
    return [dict(row) for row in connection.execute(sa.text(read_sql("nearest_videos")), values).mappings()]


def _convert(vector: Any) -> NDArray[np.float32]:
    return np.asarray(vector, dtype=np.float32)
