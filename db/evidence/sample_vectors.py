"""Samples of a dataset with the stored vectors of their texts or videos, which place them on a map."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from db.evidence.embeddings import VECTORS_BY_DIGEST, load_vectors
from db.evidence.video_vectors import IS_PRESENT
from db.manifest.datasets import Dataset
from db.manifest.draws import build_draw_order
from db.schema import frame_set, sample, text_embedding, video, video_embedding
from db.server.arrays import pack_column, unpack_column

VectorKind = Literal["text", "frames", "video"]
"""Vectors of captions, means of the vectors of a video's frames, and vectors of videos that a manifest brought."""

_SEED = 0
# By kind, the SQL that `load_vectors` takes: the key is the text's digest, or the video.
_STATEMENTS: Mapping[VectorKind, str] = {
    "text": VECTORS_BY_DIGEST,
    "frames": "SELECT video_id, (SELECT vector_send(avg(embedding ORDER BY frame_index)) FROM frame_embedding e "
    "WHERE e.model_id = f.model_id AND e.video_id = f.video_id), file_id, place, n_sampled FROM frame_set f "
    "WHERE model_id = %s AND video_id = ANY(%s) AND status = 'ok'",
    "video": "SELECT video_id, vector_send(embedding), NULL::bigint, NULL::int, 1 FROM video_embedding "
    "WHERE model_id = %s AND video_id = ANY(%s)",
}


@dataclass(frozen=True, slots=True, eq=False)
class SamplesWithVectors:
    """Samples of a dataset that have a vector, in a random order that stays. sample_ids, video_ids: (n,). digests:
    (n,), the SHA-256 of the text, the file or the manifest's row that the vector was made from. n_all: how many samples
    of the dataset have a vector, n or more.
    """

    sample_ids: NDArray[np.int64]
    video_ids: NDArray[np.int64]
    digests: NDArray[Any]
    n_all: int

    @property
    def stamp(self) -> str:
        """Sixteen hexadecimal digits, which are the same only for the same samples with the same vectors."""
        return hashlib.sha256(self.sample_ids.tobytes() + self.digests.tobytes()).hexdigest()[:16]


def load_samples_with_vectors(
    connection: Connection, dataset: Dataset, kind: VectorKind, model_id: int, most: int
) -> SamplesWithVectors:
    """List the samples of a dataset that have a vector by a model, at most `most` of them: those with the lowest
    permanent random numbers. Only captions have vectors of texts; vectors of frames and of videos are those of the
    present file.
    """
    tables: sa.FromClause = sample.join(video, video.c.video_id == sample.c.video_id)
    digest: sa.ColumnElement[Any]
    if kind == "text":
        is_own = sa.and_(sample.c.kind == "caption", text_embedding.c.text_sha256 == sample.c.text_sha256)
        tables, digest, model = tables.join(text_embedding, is_own), sample.c.text_sha256, text_embedding.c.model_id
    elif kind == "frames":
        is_own = sa.and_(frame_set.c.video_id == video.c.video_id, frame_set.c.content_sha256 == video.c.content_sha256)
        is_own &= frame_set.c.status == "ok"
        tables, digest, model = tables.join(frame_set, is_own), frame_set.c.content_sha256, frame_set.c.model_id
    else:
        tables = tables.join(video_embedding, IS_PRESENT)
        digest, model = video_embedding.c.row_sha256, video_embedding.c.model_id
    columns = [sample.c.sample_id, sample.c.video_id, digest, sa.func.count().over()]
    query = sa.select(*columns).select_from(tables).where(sample.c.dataset_id == dataset.dataset_id, model == model_id)
    rows = query.order_by(*build_draw_order(_SEED)).limit(most).subquery()
    packed = connection.execute(sa.select(*[pack_column(column) for column in rows.c])).one()
    ids, videos, digests, totals = map(unpack_column, packed, ("i8", "i8", "V32", "i8"))
    return SamplesWithVectors(ids, videos, digests, int(totals[0]) if totals.size else 0)


def load_sample_vectors(
    connection: Connection,
    kind: VectorKind,
    model_id: int,
    samples: SamplesWithVectors,
    check_size: Callable[[int, int], None],
) -> tuple[NDArray[np.float32], NDArray[np.intp]] | None:
    """Load the different vectors (m, dim) of samples, and the row (n,) of each sample's vector in them. None if a
    vector was deleted since the samples were listed, if vectors have several lengths, or without samples. check_size:
    gets m and dim before all vectors are read, and may raise.
    """
    keys, rows = np.unique(samples.digests if kind == "text" else samples.video_ids, return_inverse=True)
    first = load_vectors(connection, _STATEMENTS[kind], model_id, keys[:1].tolist())
    if first is not None:
        check_size(len(keys), first.shape[1])
    vectors = load_vectors(connection, _STATEMENTS[kind], model_id, keys.tolist())
    return None if vectors is None else (vectors, rows)
