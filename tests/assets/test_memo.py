"""Asking a model what is missing: the longest first, chunk by chunk, each answer stored and nothing asked twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy.engine import Engine

from assets.sources.memo import ask_missing
from db.evidence.embeddings import list_missing_texts, load_text_vectors, store_text_vectors
from db.evidence.models import find_model_id
from tests.assets.verifying import Crash, HashEncoder

TEXTS = ["a", "seven", "ox", "three words long", "cats", "elephant", "dog"]
LONGEST_FIRST = ["three words long", "elephant", "seven", "cats", "dog", "ox", "a"]


class FailingEncoder(HashEncoder):
    """Keeps the chunks that it was asked for and fails on one of these texts."""

    def __init__(self, *bad: str) -> None:
        super().__init__()
        self.chunks: list[list[str]] = []
        self._bad = set(bad)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.chunks.append(list(texts))
        if self._bad & set(texts):
            raise Crash
        return super().encode(texts)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assets.sources.memo.CHUNK", 3)


def ask(engine: Engine, encoder: HashEncoder) -> list[tuple[int, int]]:
    """Ask for the vectors of all texts that have none yet; what was told of the progress."""
    told: list[tuple[int, int]] = []
    with engine.connect() as connection:
        missing = list_missing_texts(connection, find_model_id(connection, encoder.identity.as_dict()), TEXTS)
    ask_missing(
        engine,
        encoder.identity,
        missing,
        length=len,
        ask=encoder.encode,
        store=lambda model_id, texts, vectors: store_text_vectors(engine, model_id, texts, vectors),
        tell=lambda done, total: told.append((done, total)),
    )
    return told


def stored(engine: Engine, encoder: HashEncoder) -> set[str]:
    """The texts that have a vector, each of which must be the encoder's own."""
    with engine.connect() as connection:
        model_id = find_model_id(connection, encoder.identity.as_dict())
    found = {} if model_id is None else load_text_vectors(engine, model_id, TEXTS)
    for text, vector in found.items():
        assert vector == pytest.approx(encoder.vector(text), abs=1e-6)
    return set(found)


def test_the_longest_come_first_in_chunks(engine: Engine) -> None:
    encoder = FailingEncoder()
    assert ask(engine, encoder) == [(0, 7), (3, 7), (6, 7), (7, 7)]
    assert encoder.chunks == [LONGEST_FIRST[:3], LONGEST_FIRST[3:6], LONGEST_FIRST[6:]]
    assert stored(engine, encoder) == set(TEXTS)


def test_what_was_answered_before_an_error_is_not_asked_again(engine: Engine) -> None:
    failing = FailingEncoder("ox")
    with pytest.raises(Crash):
        ask(engine, failing)
    assert stored(engine, failing) == set(LONGEST_FIRST[:3])
    mended = FailingEncoder()
    assert ask(engine, mended) == [(0, 4), (3, 4), (4, 4)]
    assert mended.chunks == [LONGEST_FIRST[3:6], LONGEST_FIRST[6:]]
    assert stored(engine, mended) == set(TEXTS)


def test_where_nothing_is_missing_no_model_is_asked_or_registered(engine: Engine) -> None:
    ask(engine, HashEncoder())
    idle = FailingEncoder()
    assert ask(engine, idle) == []
    assert idle.chunks == []
    other = HashEncoder(revision="2")
    ask_missing(
        engine,
        other.identity,
        [],
        length=len,
        ask=other.encode,
        store=lambda *_: pytest.fail("there is nothing to store"),
        tell=lambda *_: pytest.fail("there is nothing to tell"),
    )
    with engine.connect() as connection:
        assert find_model_id(connection, other.identity.as_dict()) is None
