"""Models with a cache in the database: an answer that is stored is not asked for again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Engine

from assets.progress import LineWriter
from assets.sources.base import save_computed
from assets.sources.texts import embed_texts, split_longest_first
from db.evidence.embeddings import TEXT_VECTORS, TextVector
from db.evidence.entailments import ENTAILMENTS, Entailment, Pair
from db.evidence.store import PostgresStore, Store
from metrics_core.protocols import (
    EntailmentModel,
    Entailments,
    ModelIdentity,
    TextEncoder,
    WholeTextWeigher,
    find_weigher,
)


class CachingVerifier:
    """An EntailmentModel that looks pairs up in table `entailment` first, and stores there what it asks its model.
    Another run or another dataset may have filled the table. tell: takes lines about progress, which begin with
    `place`. n_verified: the number of pairs that the model itself verified.
    """

    def __init__(self, engine: Engine, model: EntailmentModel, place: str, tell: LineWriter) -> None:
        self._store: Store[Pair, Entailment] = PostgresStore(engine, ENTAILMENTS, model.identity.as_dict())
        self._model = model
        self._place = place
        self._tell = tell
        self.n_verified = 0

    @property
    def identity(self) -> ModelIdentity:
        """The identity of the model behind the cache."""
        return self._model.identity

    @property
    def whole_text(self) -> WholeTextWeigher | None:
        """The part of the model that weighs whole texts, None if it has none; its results are not cached."""
        return find_weigher(self._model)

    def entailment(self, pairs: Sequence[Pair]) -> Entailments:
        """Return P(entailment) and whether the premise was cut, for (premise, hypothesis) pairs in their order. Pairs
        without a stored answer are asked of the model, and its answers are stored. Raises the errors of the model;
        pairs verified before an error stay stored.

        An answer outside [0, 1] is returned but not stored.
        """
        distinct = list(dict.fromkeys(pairs))
        known = dict(self._store.load(distinct))
        missing = [pair for pair in distinct if pair not in known]
        for judged in save_computed(self._store, missing, self._verify, self._tell_done):
            known |= judged
        answers = [known[pair] for pair in pairs]
        return Entailments(
            np.array([answer.probability for answer in answers], dtype=np.float64),
            np.array([answer.truncated for answer in answers], dtype=np.bool_),
        )

    def _verify(self, pairs: Sequence[Pair]) -> Iterator[dict[Pair, Entailment]]:
        for chunk in split_longest_first(pairs, lambda pair: len(pair[0]) + len(pair[1])):
            answers = self._model.entailment(chunk)
            self.n_verified += len(chunk)
            columns = zip(chunk, answers.probabilities.tolist(), answers.truncated.tolist(), strict=True)
            yield {pair: Entailment(probability, truncated) for pair, probability, truncated in columns}

    def _tell_done(self, done: int, total: int) -> None:
        self._tell(f"{self._place}: {done} of {total} pairs judged")


class CachingEncoder:
    """A TextEncoder that looks texts up in table `text_embedding` first, and stores there what it asks its encoder.
    tell: takes lines about progress.
    """

    def __init__(self, engine: Engine, encoder: TextEncoder, tell: LineWriter) -> None:
        self._store: Store[str, TextVector] = PostgresStore(engine, TEXT_VECTORS, encoder.identity.as_dict())
        self._encoder = encoder
        self._tell = tell

    @property
    def identity(self) -> ModelIdentity:
        """The identity of the encoder behind the cache."""
        return self._encoder.identity

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors, float32 (n, dim), of the texts, in their order. Only texts without a stored vector are
        encoded, and their vectors stored. Raises the encoder's errors. Without texts the result is the encoder's.
        """
        if not texts:
            return self._encoder.encode(texts)
        distinct = list(dict.fromkeys(texts))
        self.embed(self._store.list_missing(distinct, lambda _: True))
        stored = self._store.load(distinct)
        return np.stack([stored[text].vector for text in texts])

    def embed(self, texts: Sequence[str]) -> None:
        """Encode different texts that have no stored vector, and store their vectors chunk by chunk. Raises the
        encoder's errors; vectors that were stored stay.
        """
        for _ in save_computed(self._store, texts, lambda lot: embed_texts(self._encoder, lot), self._tell_done):
            pass

    def _tell_done(self, done: int, total: int) -> None:
        self._tell(f"{done} of {total} texts embedded")
