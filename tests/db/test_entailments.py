"""Judged pairs: exact, and each pair once per verifier."""

from __future__ import annotations

import hashlib
import math

import psycopg
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from db import schema
from db.evidence.entailments import (
    Entailment,
    Pair,
    load_entailments,
    pair_sha256,
    store_entailments,
)
from db.evidence.models import register_model
from tests.db.builders import empty

IDENTITY = {"model_id": "tiny-nli", "revision": "0", "params": {"dtype": "float32", "length": 256}}


def new_verifier(engine: Engine, **change: object) -> int:
    with engine.begin() as connection:
        return register_model(connection, {**IDENTITY, **change})


def n_stored(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(schema.entailment)) or 0


def test_the_key_of_a_pair_hashes_each_text_first() -> None:
    premise, hypothesis = hashlib.sha256(b"\xe7\x8a\xac").digest(), hashlib.sha256(b"A dog.").digest()
    assert pair_sha256("犬", "A dog.") == hashlib.sha256(premise + hypothesis).digest()


TEXTS = st.text(alphabet="ab犬'\\\n\t ", max_size=4)


@given(st.tuples(TEXTS, TEXTS), st.tuples(TEXTS, TEXTS))
def test_only_equal_pairs_have_equal_keys(first: Pair, second: Pair) -> None:
    assert (pair_sha256(*first) == pair_sha256(*second)) == (first == second)


JUDGED = st.builds(Entailment, st.floats(0, 1), st.booleans())


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.tuples(TEXTS, TEXTS), JUDGED, max_size=20))
def test_what_was_said_comes_back_exactly(engine: Engine, judged: dict[Pair, Entailment]) -> None:
    empty(engine)
    model_id = new_verifier(engine)
    assert store_entailments(engine, model_id, judged) == len(judged)
    assert load_entailments(engine, model_id, [*judged, ("never", "judged")]) == judged


def test_each_pair_is_stored_once_and_never_changed(engine: Engine) -> None:
    model_id = new_verifier(engine)
    first, other = ("A dog runs.", "A dog."), ("A dog.", "A dog runs.")
    assert store_entailments(engine, model_id, {first: Entailment(0.75, False)}) == 1
    assert store_entailments(engine, model_id, {first: Entailment(0.5, True), other: Entailment(0.25, True)}) == 1
    assert n_stored(engine) == 2
    assert load_entailments(engine, model_id, [first, other]) == {
        first: Entailment(0.75, False),
        other: Entailment(0.25, True),
    }


def test_verifiers_keep_apart(engine: Engine) -> None:
    first, second = new_verifier(engine), new_verifier(engine, revision="1")
    pair = ("A dog runs.", "A dog.")
    store_entailments(engine, first, {pair: Entailment(0.75, False)})
    assert load_entailments(engine, second, [pair]) == {}
    assert store_entailments(engine, second, {pair: Entailment(0.5, False)}) == 1
    assert load_entailments(engine, first, [pair]) == {pair: Entailment(0.75, False)}


@pytest.mark.slow
def test_a_hundred_thousand_pairs_at_once(engine: Engine) -> None:
    model_id = new_verifier(engine)
    judged = {(f"Sentence {i % 1000}.", f"Keypoint {i}."): Entailment(i / 100_000, i % 3 == 0) for i in range(100_000)}
    assert store_entailments(engine, model_id, judged) == 100_000
    assert store_entailments(engine, model_id, judged) == 0
    assert load_entailments(engine, model_id, judged) == judged


def test_nothing_to_store_and_nothing_to_load(engine: Engine) -> None:
    model_id = new_verifier(engine)
    assert store_entailments(engine, model_id, {}) == 0
    assert load_entailments(engine, model_id, []) == {}


def test_what_is_no_probability_is_refused_and_nothing_is_stored(engine: Engine) -> None:
    model_id = new_verifier(engine)
    for probability in (math.nan, math.inf, -math.inf, -1e-9, math.nextafter(1, 2)):
        judged = {("a", "b"): Entailment(0.5, False), ("a", "c"): Entailment(probability, False)}
        with pytest.raises(psycopg.errors.CheckViolation, match="ck_entailment_probability"):
            store_entailments(engine, model_id, judged)
        assert n_stored(engine) == 0


def test_a_verifier_takes_what_it_said_along(engine: Engine) -> None:
    model_id = new_verifier(engine)
    store_entailments(engine, model_id, {("a", "b"): Entailment(0.5, False)})
    with engine.begin() as connection:
        connection.execute(sa.delete(schema.model))
    assert n_stored(engine) == 0
