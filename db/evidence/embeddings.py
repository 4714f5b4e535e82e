"""Vectors of texts: each distinct text once per encoder, keyed by the SHA-256 of its UTF-8 bytes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import psycopg
import sqlalchemy as sa
from numpy.typing import NDArray
from pgvector import Vector
from sqlalchemy.engine import Connection, Engine

from db.schema import sample, text_embedding
from db.server.bulk import insert_missing
from db.server.engine import open_psycopg_transaction
from db.sql import read_sql

_VECTORS = 10_000
_COSINES = sa.text(read_sql("whole_text_cosines"))
NO_TEXTS: Mapping[str, int] = MappingProxyType({})


class DimensionMismatch(ValueError):
    """Vectors of another length than those that are stored of the same model; the message says what to do."""

    plain = True


class StoredVectors(dict[str, NDArray[np.float32]]):
    """Vectors (dim,) by text. in_chunks: the texts whose vector is the mean of several chunks, with their number."""

    def __init__(self) -> None:
        super().__init__()
        self.in_chunks: dict[str, int] = {}


def text_sha256(text: str) -> bytes:
    """The key of a text in text_embedding."""
    return hashlib.sha256(text.encode()).digest()


def list_missing_texts(connection: Connection, model_id: int | None, texts: Iterable[str]) -> list[str]:
    """The distinct texts that have no vector of this encoder, in order of first appearance."""
    by_key = {text_sha256(text): text for text in texts}
    if model_id is None or not by_key:
        return list(by_key.values())
    query = sa.select(text_embedding.c.text_sha256).where(
        text_embedding.c.model_id == model_id,
        text_embedding.c.text_sha256 == sa.any_(sa.bindparam("keys")),
    )
    present = {bytes(key) for key in connection.scalars(query, {"keys": list(by_key)})}
    return [text for key, text in by_key.items() if key not in present]


def store_text_vectors(
    engine: Engine,
    model_id: int,
    texts: Sequence[str],
    vectors: NDArray[np.float32],
    in_chunks: Mapping[str, int] = NO_TEXTS,
) -> int:
    """Store the vectors (n, dim) of n texts in one transaction; a text that has a vector keeps it.

    in_chunks: the texts whose vector is the mean of several chunks, with their number. Raises OtherDimension where
    vectors of this encoder are stored that have another length: two models are behind one name.
    """
    rows = {text_sha256(text): (Vector(row), in_chunks.get(text, 1)) for text, row in zip(texts, vectors, strict=True)}
    with open_psycopg_transaction(engine) as connection:
        _check_length(connection, model_id, vectors.shape[1])
        return insert_missing(
            connection,
            text_embedding,
            ["model_id", "text_sha256", "embedding", "n_chunks"],
            [(model_id, key, vector, n_chunks) for key, (vector, n_chunks) in rows.items()],
        )


def _check_length(connection: psycopg.Connection[Any], model_id: int, dim: int) -> None:
    stored = connection.execute(
        "SELECT vector_dims(e.embedding) AS dim, m.name FROM text_embedding e JOIN model m USING (model_id) "
        "WHERE model_id = %s LIMIT 1",
        [model_id],
    ).fetchone()
    if stored is not None and stored[0] != dim:
        raise DimensionMismatch(
            f"text encoder {stored[1]} gave vectors of {dim} numbers, and those that are stored have {stored[0]}: "
            "behind its name is another model now; give it a revision of its own (REELSIEVE_TEXT_ENCODER_REVISION)"
        )


def load_text_vectors(engine: Engine, model_id: int, texts: Iterable[str]) -> StoredVectors:
    """The stored vectors by text; a text without a vector is left out."""
    by_key, found = {text_sha256(text): text for text in texts}, StoredVectors()
    with open_psycopg_transaction(engine) as connection, connection.cursor(binary=True) as cursor:
        cursor.execute(
            "SELECT text_sha256, embedding, n_chunks FROM text_embedding WHERE model_id = %s AND text_sha256 = ANY(%s)",
            [model_id, list(by_key)],
        )
        for key, vector, n_chunks in cursor:
            text = by_key[bytes(key)]
            found[text] = vector.to_numpy().astype(np.float32, copy=False)
            if n_chunks > 1:
                found.in_chunks[text] = n_chunks
    return found


def load_vectors_by_digest(
    connection: Connection, model_id: int, digests: Sequence[bytes]
) -> NDArray[np.float32] | None:
    """The stored vectors (n, dim) of texts by their digests, which may repeat; None where one has none, or n is 0."""
    places: dict[bytes, int] = {}
    for digest in digests:
        places.setdefault(digest, len(places))
    driver: Any = connection.connection.driver_connection
    distinct, vectors, n_found = list(places), None, 0
    for start in range(0, len(distinct), _VECTORS):
        with driver.cursor(binary=True) as cursor:
            cursor.execute(
                "SELECT text_sha256, embedding FROM text_embedding WHERE model_id = %s AND text_sha256 = ANY(%s)",
                [model_id, distinct[start : start + _VECTORS]],
            )
            for key, vector in cursor:
                if vectors is None:
                    vectors = np.empty((len(distinct), vector.dimensions()), dtype=np.float32)
                vectors[places[bytes(key)]] = vector.to_numpy()
                n_found += 1
    if vectors is None or n_found < len(distinct):
        return None
    return vectors if len(distinct) == len(digests) else vectors[[places[digest] for digest in digests]]


class NearestReference(NamedTuple):
    """How near the whole text of a caption is to the nearest reference of its video, and the key of that reference.

    cosine: in [-1, 1]; None where a vector has no direction.
    """

    cosine: float | None
    reference: str


def load_nearest_references(
    connection: Connection, model_id: int | None, sample_ids: Sequence[int]
) -> dict[int, NearestReference]:
    """The cosine of each caption whose text has a vector of this encoder, as all references of its video have.

    Other samples are left out. model_id: None for an encoder that has done no work yet.
    """
    found = connection.execute(_COSINES, {"model_id": model_id, "ids": list(sample_ids)})
    return {
        row.sample_id: NearestReference(None if math.isnan(row.cosine) else row.cosine, row.reference) for row in found
    }


def find_sample_key_of_text(connection: Connection, digest: bytes) -> str | None:
    """The key of a sample with this text; None without one."""
    key: str | None = connection.scalar(sa.select(sample.c.key).where(sample.c.text_sha256 == digest).limit(1))
    return key
