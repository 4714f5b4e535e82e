"""Asking a model what is missing: the longest first, chunk by chunk, each answer stored and nothing asked twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy.engine import Engine

from assets.sources.cached_models import CachingEncoder
from db.evidence.embeddings import TEXT_VECTORS
from db.evidence.models import find_model_id
from db.evidence.store import PostgresStore
from metrics_core.models.errors import ModelUnusable
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
    monkeypatch.setattr("assets.sources.texts.CHUNK", 3)


def ask(engine: Engine, encoder: HashEncoder) -> list[str]:
    """Ask for the vectors of all texts that have none yet; what was told of the progress."""
    told: list[str] = []
    CachingEncoder(engine, encoder, told.append).encode(TEXTS)
    return told


def told_of(total: int, *done: int) -> list[str]:
    return [f"{n} of {total} texts embedded" for n in done]


def stored(engine: Engine, encoder: HashEncoder) -> set[str]:
    """The texts that have a vector, each of which must be the encoder's own."""
    found = PostgresStore(engine, TEXT_VECTORS, encoder.identity.as_dict()).load(TEXTS)
    for text, (vector, _) in found.items():
        assert vector == pytest.approx(encoder.vector(text), abs=1e-6)
    return set(found)


def test_the_longest_come_first_in_chunks(engine: Engine) -> None:
    encoder = FailingEncoder()
    assert ask(engine, encoder) == told_of(7, 0, 3, 6, 7)
    assert encoder.chunks == [LONGEST_FIRST[:3], LONGEST_FIRST[3:6], LONGEST_FIRST[6:]]
    assert stored(engine, encoder) == set(TEXTS)


def test_what_was_answered_before_an_error_is_not_asked_again(engine: Engine) -> None:
    failing = FailingEncoder("ox")
    with pytest.raises(Crash):
        ask(engine, failing)
    assert stored(engine, failing) == set(LONGEST_FIRST[:3])
    mended = FailingEncoder()
    assert ask(engine, mended) == told_of(4, 0, 3, 4)
    assert mended.chunks == [LONGEST_FIRST[3:6], LONGEST_FIRST[6:]]
    assert stored(engine, mended) == set(TEXTS)


def test_what_a_server_answered_of_a_chunk_before_an_error_is_stored(engine: Engine) -> None:
    class PartlyAnswered(HashEncoder):
        def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
            error = ModelUnusable("one text is too long")
            error.vectors = dict(zip(texts[1:], super().encode(texts[1:]), strict=True))
            raise error

    encoder = PartlyAnswered()
    with pytest.raises(ModelUnusable):
        ask(engine, encoder)
    assert stored(engine, encoder) == set(LONGEST_FIRST[1:3])


def test_where_nothing_is_missing_no_model_is_asked_or_registered(engine: Engine) -> None:
    ask(engine, HashEncoder())
    idle = FailingEncoder()
    assert ask(engine, idle) == []
    assert idle.chunks == []
    other = HashEncoder(revision="2")
    CachingEncoder(engine, other, pytest.fail).embed([])
    with engine.connect() as connection:
        assert find_model_id(connection, other.identity.as_dict()) is None
