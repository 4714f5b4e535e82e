"""Vectors of texts: exact, and each distinct text once per encoder."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sqlalchemy.engine import Engine

from db import schema
from db.evidence.embeddings import (
    DimensionMismatch,
    StoredVectors,
    TextVector,
    list_missing_texts,
    load_text_vectors,
    store_text_vectors,
    text_sha256,
)
from db.evidence.models import find_model_id, register_model
from db.evidence.vector_files import find_folder
from tests.db.builders import empty, store_vectors, write_vectors_to

IDENTITY = {"model_id": "tiny", "revision": "0", "params": {"pooling": "mean", "length": 256}}
TEXTS = ["a dog runs", "", "it's 犬", "line\nbreak", "A dog runs"]


@pytest.fixture(params=["postgres", "files"])
def engine(engine: Engine, request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    return write_vectors_to(engine, tmp_path) if request.param == "files" else engine


def new_encoder(engine: Engine, **change: object) -> int:
    with engine.begin() as connection:
        return register_model(connection, {**IDENTITY, **change})


def test_vectors_of_another_length_are_refused(engine: Engine) -> None:
    encoder, other = new_encoder(engine), new_encoder(engine, model_id="other")
    store_vectors(engine, encoder, ["a"], np.ones((1, 3), np.float32))
    with pytest.raises(
        DimensionMismatch, match=r"text encoder tiny gave vectors of 2 numbers, but its stored vectors have 3: the"
    ):
        store_vectors(engine, encoder, ["b"], np.ones((1, 2), np.float32))
    assert n_stored(engine) == 1
    store_vectors(engine, other, ["b"], np.ones((1, 2), np.float32))
    assert n_stored(engine) == 2


def n_stored(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(schema.text_embedding)) or 0


def test_an_encoder_is_found_by_its_whole_identity(engine: Engine) -> None:
    with engine.connect() as connection:
        assert find_model_id(connection, IDENTITY) is None
    first = new_encoder(engine)
    assert new_encoder(engine, params={"length": 256, "pooling": "mean"}) == first
    others = [
        new_encoder(engine, model_id="small"),
        new_encoder(engine, revision="1"),
        new_encoder(engine, params={"pooling": "cls", "length": 256}),
    ]
    assert len({first, *others}) == 4
    with engine.connect() as connection:
        assert find_model_id(connection, IDENTITY) == first
        row = connection.execute(sa.select(schema.model).where(schema.model.c.model_id == first)).one()
    assert (row.name, row.revision, row.params) == ("tiny", "0", IDENTITY["params"])


def test_the_key_of_a_text_is_the_hash_of_its_utf_8_bytes() -> None:
    assert text_sha256("犬") == hashlib.sha256(b"\xe7\x8a\xac").digest()


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arrays(np.float32, st.tuples(st.just(len(TEXTS)), st.sampled_from([1, 3, 384])), elements=FLOATS))
def test_vectors_come_back_exactly(engine: Engine, vectors: np.ndarray) -> None:
    empty(engine)
    model_id = new_encoder(engine)
    assert store_vectors(engine, model_id, TEXTS, vectors) == len(TEXTS)
    found = load_text_vectors(engine, model_id, [*TEXTS, "never stored"])
    assert found.keys() == set(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert found[text].vector.dtype == np.float32
        is_half = find_folder(engine) and np.abs(found[text].vector - vector).max() <= 1e-3 * np.linalg.norm(vector)
        assert is_half or found[text].vector.tobytes() == vector.tobytes()


def test_each_distinct_text_is_stored_once_and_never_changed(engine: Engine) -> None:
    model_id = new_encoder(engine)
    vectors = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0]], np.float32)
    assert store_vectors(engine, model_id, ["x", "y"], vectors[:2]) == 2
    assert store_vectors(engine, model_id, ["x", "z"], vectors[1:]) == 1
    assert n_stored(engine) == 3
    np.testing.assert_array_equal(load_text_vectors(engine, model_id, ["x"])["x"].vector, vectors[0])


def test_a_vector_says_of_how_many_chunks_it_is_the_mean(engine: Engine) -> None:
    model_id = new_encoder(engine)
    short, mean = np.eye(2, dtype=np.float32)
    store_text_vectors(engine, model_id, {"x": TextVector(short), "long": TextVector(mean, 3)})
    found = StoredVectors(load_text_vectors(engine, model_id, ["x", "long"]))
    assert (sorted(found), found.in_chunks) == (["long", "x"], {"long": 3})


def test_encoders_keep_apart(engine: Engine) -> None:
    first, second = new_encoder(engine), new_encoder(engine, revision="1")
    vectors = np.eye(2, 3, dtype=np.float32)
    store_vectors(engine, first, ["x"], vectors[:1])
    assert load_text_vectors(engine, second, ["x"]) == {}
    assert store_vectors(engine, second, ["x"], vectors[1:]) == 1
    np.testing.assert_array_equal(load_text_vectors(engine, first, ["x"])["x"].vector, vectors[0])
    np.testing.assert_array_equal(load_text_vectors(engine, second, ["x"])["x"].vector, vectors[1])


def test_missing_texts_are_distinct_and_in_order_of_first_appearance(engine: Engine) -> None:
    model_id = new_encoder(engine)
    store_vectors(engine, model_id, ["b"], np.ones((1, 3), np.float32))
    wanted = ["c", "b", "a", "c", "B", "a"]
    assert list_missing_texts(engine, model_id, wanted) == ["c", "a", "B"]
    assert list_missing_texts(engine, model_id, iter(wanted)) == ["c", "a", "B"]
    assert list_missing_texts(engine, model_id, []) == []
    assert list_missing_texts(engine, model_id, ["b"]) == []


def test_nothing_to_store_and_nothing_to_load(engine: Engine) -> None:
    model_id = new_encoder(engine)
    assert store_vectors(engine, model_id, [], np.empty((0, 3), np.float32)) == 0
    assert load_text_vectors(engine, model_id, []) == {}
