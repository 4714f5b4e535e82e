"""Search by stored vectors: the captions and videos with the highest cosine. Every vector is compared, those in tables
by pgvector, and those in files here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from pgvector import Vector
from sqlalchemy.engine import Connection

from db.evidence.vector_files import FileKind, scan_files
from db.schema import frame_embedding, frame_set, sample, text_embedding, video
from db.sql import read_sql

# Vectors in files that are taken as near at first.
_MOST_NEAR = 1000
# Columns of files by the name of the array that a query takes.
_ARRAYS = {
    "text_sha256": "keys",
    "video_id": "keys",
    "frame_index": "frame_indices",
    "time_s": "times_s",
}


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
    return _nearest(connection, "nearest_texts", "text", model_id, vector, dataset_id, limit, but_video)


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
    return _nearest(connection, "nearest_frames", "frame", model_id, vector, dataset_id, limit, but_video)


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
    in_files = frame_set.c.file_id.is_not(None)
    for table, has_vectors in ((frame_embedding, sa.true()), (frame_set, in_files)):
        query = sa.select(table.c.video_id).where(table.c.model_id == model_id, has_vectors).limit(1)
        if dataset_id is not None:
            query = query.join(video, video.c.video_id == table.c.video_id).where(video.c.dataset_id == dataset_id)
        if connection.execute(query).first() is not None:
            return True
    return False


def _nearest(
    connection: Connection,
    statement: str,
    kind: FileKind,
    model_id: int,
    vector: NDArray[np.float32],
    dataset_id: int | None,
    limit: int,
    but_video: int | None,
) -> list[dict[str, Any]]:
    query = sa.text(read_sql(statement)).bindparams(
        sa.bindparam("but_video", type_=sa.BigInteger), sa.bindparam("model_id", type_=sa.BigInteger)
    )
    values: dict[str, Any] = {"model_id": model_id, "vector": Vector(vector).to_text(), "dataset_id": dataset_id}
    n_near = max(_MOST_NEAR, 4 * limit)
    while True:
        near = _find_nearest_in_files(connection, model_id, kind, vector, n_near)
        found = connection.execute(query, {**values, "limit": limit, "but_video": but_video, **near}).mappings().all()
        # No vector that was left out is nearer than the last of these; some of these are of other datasets.
        is_all = len(near["distances"]) < n_near
        if is_all or (len(found) == limit and 1 - found[-1]["similarity"] < near["distances"][-1]):
            return [dict(row) for row in found]
        n_near *= 16


def _find_nearest_in_files(
    connection: Connection, model_id: int, kind: FileKind, vector: NDArray[np.float32], most: int
) -> dict[str, list[Any]]:
    """Return columns of the vectors in files that are nearest to a given one, at most so many, the nearest first."""
    best: dict[str, NDArray[Any]] = {}
    for file_id, columns in scan_files(connection, model_id, kind):
        vectors = columns["vector"].astype(np.float32)
        with np.errstate(invalid="ignore", divide="ignore"):
            lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(vector)
            distances = 1 - (vectors @ vector / lengths).astype(np.float64)
        has_place = np.isfinite(distances)
        part = {"file_ids": np.full(len(vectors), file_id), "distances": distances}
        part |= {_ARRAYS[name]: values for name, values in columns.items() if name in _ARRAYS}
        part = {name: values[has_place] for name, values in part.items()}
        merged = {name: np.concatenate([best.get(name, values[:0]), values]) for name, values in part.items()}
        order = np.argsort(merged["distances"], kind="stable")[:most]
        best = {name: values[order] for name, values in merged.items()}
    return {name: best[name].tolist() if name in best else [] for name in ("file_ids", "distances", *_ARRAYS.values())}
