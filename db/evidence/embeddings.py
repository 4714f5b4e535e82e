"""Vectors of texts: one per distinct text and encoder, by the SHA-256 of the text in UTF-8 (table `text_embedding`)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import psycopg
import sqlalchemy as sa
from numpy.typing import NDArray
from pgvector import Vector
from sqlalchemy.engine import Connection, Engine

from db.evidence.store import Table
from db.evidence.vector_files import WrittenFile, confirm_file, read_places, write_vectors, writes_files
from db.schema import sample, text_embedding
from db.server.bulk import insert_missing
from db.server.engine import open_psycopg_transaction
from db.sql import read_sql

_VECTORS = 10_000
# Of a text the vector, or where in a file it is.
VECTORS_BY_DIGEST = (
    "SELECT text_sha256, vector_send(embedding), file_id, place, 1 FROM text_embedding "
    "WHERE model_id = %s AND text_sha256 = ANY(%s)"
)
# The bytes of a vector before its numbers.
_HEADER = 4
_COSINES = sa.text(read_sql("whole_text_cosines"))


class DimensionMismatch(ValueError):
    """Raised when new vectors of a text encoder have another length than its stored ones. The message names the
    encoder, both lengths and the setting to change.
    """

    plain = True


class TextVector(NamedTuple):
    """The vector (dim,) of a text in float32. n_chunks: 1 for a text that the encoder read at once; more for a long
    text, whose vector is the mean over so many chunks.
    """

    vector: NDArray[np.float32]
    n_chunks: int = 1


class StoredVectors(dict[str, NDArray[np.float32]]):
    """A dict {text: its vector (dim,) in float32}, made from the TextVector of every text. Attribute `in_chunks` is a
    dict {text: number of chunks} of those texts whose vector is the mean of several chunks.
    """

    def __init__(self, by_text: Mapping[str, TextVector] = MappingProxyType({})) -> None:
        super().__init__({text: vector for text, (vector, _) in by_text.items()})
        self.in_chunks = {text: n_chunks for text, (_, n_chunks) in by_text.items() if n_chunks > 1}


def text_sha256(text: str) -> bytes:
    """Return the SHA-256 (32 bytes) of the text in UTF-8, the key of table `text_embedding`."""
    return hashlib.sha256(text.encode()).digest()


def list_missing_texts(engine: Engine, model_id: int, texts: Iterable[str]) -> list[str]:
    """Return the distinct texts without a stored vector of this encoder, in order of first appearance. model_id: id of
    the encoder in table `model`.
    """
    by_key = {text_sha256(text): text for text in texts}
    query = sa.select(text_embedding.c.text_sha256).where(
        text_embedding.c.model_id == model_id,
        text_embedding.c.text_sha256 == sa.any_(sa.bindparam("keys")),
    )
    with engine.connect() as connection:
        present = {bytes(key) for key in connection.scalars(query, {"keys": list(by_key)})}
    return [text for key, text in by_key.items() if key not in present]


def store_text_vectors(engine: Engine, model_id: int, vectors: Mapping[str, TextVector]) -> int:
    """Store the vectors of texts in one transaction and return how many were new. A text that has a vector of this
    encoder keeps it. Raises DimensionMismatch if the stored vectors of this encoder have another length: then two
    models share one name. model_id: id of the encoder in table `model`.

    The vectors go into a file first if the engine's folder is written.
    """
    if not vectors:
        return 0
    digests = [text_sha256(text) for text in vectors]
    file = _write_file(engine, model_id, digests, vectors) if writes_files(engine) else None
    with open_psycopg_transaction(engine) as connection:
        _check_length(connection, model_id, len(next(iter(vectors.values())).vector))
        columns = ["model_id", "text_sha256", "embedding", "n_chunks", "file_id", "place"]
        pairs = zip(digests, vectors.values(), strict=True)
        rows: list[tuple[object, ...]]
        if file is None:
            rows = [(model_id, digest, Vector(vector), n, None, None) for digest, (vector, n) in pairs]
        else:
            confirm_file(connection, file)
            rows = [(model_id, digest, None, n, file.file_id, place) for place, (digest, (_, n)) in enumerate(pairs)]
        return insert_missing(connection, text_embedding, columns, rows)


def _write_file(
    engine: Engine, model_id: int, digests: Sequence[bytes], vectors: Mapping[str, TextVector]
) -> WrittenFile:
    stacked = np.stack([vector for vector, _ in vectors.values()])
    return write_vectors(engine, model_id, "text", {"text_sha256": np.array(digests, "V32"), "vector": stacked})


def _check_length(connection: psycopg.Connection[Any], model_id: int, dim: int) -> None:
    stored = connection.execute(
        "SELECT COALESCE(vector_dims(e.embedding), f.dim) AS dim, m.name FROM text_embedding e "
        "JOIN model m USING (model_id) LEFT JOIN vector_file f USING (file_id) WHERE e.model_id = %s LIMIT 1",
        [model_id],
    ).fetchone()
    if stored is not None and stored[0] != dim:
        raise DimensionMismatch(
            f"text encoder {stored[1]} gave vectors of {dim} numbers, but its stored vectors have {stored[0]}: "
            "the name now belongs to another model; give it its own revision (REELSIEVE_TEXT_ENCODER_REVISION)"
        )


def load_text_vectors(engine: Engine, model_id: int, texts: Iterable[str]) -> dict[str, TextVector]:
    """Load the stored vectors of texts, by text. model_id: id of the encoder in table `model`. A text without a stored
    vector of this encoder is left out.
    """
    by_key = {text_sha256(text): text for text in texts}
    with open_psycopg_transaction(engine) as connection, connection.cursor(binary=True) as cursor:
        cursor.execute(
            "SELECT text_sha256, embedding, n_chunks, file_id, place FROM text_embedding "
            "WHERE model_id = %s AND text_sha256 = ANY(%s)",
            [model_id, list(by_key)],
        )
        rows = cursor.fetchall()
    loaded = {
        by_key[bytes(key)]: TextVector(vector.to_numpy().astype(np.float32, copy=False), n_chunks)
        for key, vector, n_chunks, *_ in rows
        if vector is not None
    }
    in_files = [row for row in rows if row[1] is None]
    for positions, columns in read_places(engine, [row[3] for row in in_files], [row[4] for row in in_files]):
        for position, vector in zip(positions.tolist(), columns["vector"], strict=True):
            key, _, n_chunks, *_ = in_files[position]
            loaded[by_key[bytes(key)]] = TextVector(vector, n_chunks)
    return loaded


TEXT_VECTORS: Table[str, TextVector] = Table(
    load_text_vectors,
    lambda engine, model_id, _, vectors: store_text_vectors(engine, model_id, vectors),
    list_missing_texts,
)
"""The vectors of an encoder, by text."""


def load_vectors_by_digest(
    connection: Connection, model_id: int, digests: Sequence[bytes]
) -> NDArray[np.float32] | None:
    """Load a float32 array (n, dim) with one vector per digest, in the order given. digests: SHA-256 of texts, see
    `text_sha256`; they may repeat. None if n is 0, or if the encoder with this model id has no vector for one of them.
    """
    distinct = list(dict.fromkeys(digests))
    vectors = load_vectors(connection, VECTORS_BY_DIGEST, model_id, distinct)
    if vectors is None or len(distinct) == len(digests):
        return vectors
    places = {digest: place for place, digest in enumerate(distinct)}
    return vectors[[places[digest] for digest in digests]]


def load_vectors(
    connection: Connection, statement: str, model_id: int, keys: Sequence[Any]
) -> NDArray[np.float32] | None:
    """Load a float32 array (n, dim) with the vectors of n different keys, in their order, some thousand at a time.
    None if n is 0, if a key has no vector, or if vectors have several lengths.

    statement: SQL for (key, vector in bytes, file, row of the file, number of rows), with placeholders for the id of
    the model and a list of keys; of several rows the mean is taken.
    """
    places = {key: place for place, key in enumerate(keys)}
    driver: Any = connection.connection.driver_connection
    vectors, n_loaded = np.empty((0, 0), np.float32), 0
    in_files = list[tuple[int, int, int, int]]()
    for start in range(0, len(keys), _VECTORS):
        with driver.cursor(binary=True) as cursor:
            rows = cursor.execute(statement, [model_id, keys[start : start + _VECTORS]]).fetchall()
        in_files += [(places[key], *where) for key, packed, *where in rows if packed is None]
        rows = [row for row in rows if row[1] is not None]
        if not n_loaded and rows:
            vectors = np.empty((len(keys), (len(rows[0][1]) - _HEADER) // 4), np.float32)
        width = _HEADER + 4 * vectors.shape[1]
        if any(len(row[1]) != width for row in rows):
            return None
        numbers = np.frombuffer(b"".join([row[1] for row in rows]), ">f4").reshape(len(rows), width // 4)
        vectors[[places[row[0]] for row in rows]] = numbers[:, _HEADER // 4 :]
        n_loaded += len(rows)
    for owners, read in _read_means(connection, in_files):
        if not n_loaded:
            vectors = np.empty((len(keys), read.shape[1]), np.float32)
        if read.shape[1] != vectors.shape[1]:
            return None
        vectors[owners] = read
        n_loaded += len(owners)
    return vectors if 0 < n_loaded == len(keys) else None


def _read_means(
    connection: Connection, in_files: Sequence[tuple[int, int, int, int]]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yield, a file at a time, the numbers of owners and the mean of each one's rows. in_files: owner, file, first row
    and number of rows.
    """
    owners, files, firsts, counts = np.array(in_files, np.int64).reshape(-1, 4).T
    which = np.repeat(np.arange(len(owners)), counts)
    within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    for positions, columns in read_places(connection, files[which], firsts[which] + within):
        starts = np.flatnonzero(np.diff(which[positions], prepend=-1))
        read, mine = columns["vector"], which[positions][starts]
        if len(starts) < len(read):
            read = (np.add.reduceat(read.astype(np.float64), starts) / counts[mine][:, None]).astype(np.float32)
        yield owners[mine], read


class NearestReference(NamedTuple):
    """The reference of a video whose text is most similar to a caption, by the vectors of a text encoder. cosine: of
    the two whole texts, in [-1, 1]; None if the vector of the caption or of any reference of its video is all zeros.
    reference: its key.
    """

    cosine: float | None
    reference: str


def load_nearest_references(
    connection: Connection, model_id: int | None, sample_ids: Sequence[int]
) -> dict[int, NearestReference]:
    """Return {sample id: the reference most similar to the caption} by the vectors of one text encoder. model_id: None
    for an encoder that is not registered yet; then the result is empty. Samples are left out unless they are captions
    that have references, and all these texts have a vector.
    """
    rows = connection.execute(_COSINES, {"model_id": model_id, "ids": list(sample_ids)})
    return {
        row.sample_id: NearestReference(None if math.isnan(row.cosine) else row.cosine, row.reference) for row in rows
    }


def find_sample_key_of_text(connection: Connection, digest: bytes) -> str | None:
    """Return the key of a sample whose text has this SHA-256 (32 bytes), in any dataset. Of several, any one is
    returned; None if no sample has it.
    """
    key: str | None = connection.scalar(sa.select(sample.c.key).where(sample.c.text_sha256 == digest).limit(1))
    return key
