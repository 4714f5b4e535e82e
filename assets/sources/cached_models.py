"""Models with a cache in the database: an answer that is stored is not asked for again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Engine

from assets.progress import LineWriter
from assets.sources.memo import ask_missing
from assets.sources.texts import embed_texts
from db.evidence.embeddings import list_missing_texts, load_text_vectors
from db.evidence.entailments import Entailment, Pair, load_entailments, store_entailments
from db.evidence.models import find_model_id
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
        self._engine = engine
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
        known = self._load_stored(pairs)
        ask_missing(
            self._engine,
            self.identity,
            [pair for pair in dict.fromkeys(pairs) if pair not in known],
            length=lambda pair: len(pair[0]) + len(pair[1]),
            ask=self._verify,
            store=lambda model_id, _, judged: self._store(known, model_id, judged),
            tell=lambda done, total: self._tell(f"{self._place}: {done} of {total} pairs judged"),
        )
        judged = [known[pair] for pair in pairs]
        return Entailments(
            np.array([answer.probability for answer in judged], dtype=np.float64),
            np.array([answer.truncated for answer in judged], dtype=np.bool_),
        )

    def _load_stored(self, pairs: Sequence[Pair]) -> dict[Pair, Entailment]:
        with self._engine.connect() as connection:
            model_id = find_model_id(connection, self.identity.as_dict())
        return {} if model_id is None else load_entailments(self._engine, model_id, pairs)

    def _verify(self, pairs: Sequence[Pair]) -> dict[Pair, Entailment]:
        answers = self._model.entailment(pairs)
        self.n_verified += len(pairs)
        columns = zip(pairs, answers.probabilities.tolist(), answers.truncated.tolist(), strict=True)
        return {pair: Entailment(probability, truncated) for pair, probability, truncated in columns}

    def _store(self, known: dict[Pair, Entailment], model_id: int, judged: Mapping[Pair, Entailment]) -> None:
        known |= judged
        # A number outside [0, 1] is not stored; the verdict refuses it and quotes the pair.
        sound = {pair: answer for pair, answer in judged.items() if 0 <= answer.probability <= 1}
        store_entailments(self._engine, model_id, sound)


class CachingEncoder:
    """A TextEncoder that looks texts up in table `text_embedding` first, and stores there what it asks its encoder.
    tell: takes lines about progress.
    """

    def __init__(self, engine: Engine, encoder: TextEncoder, tell: LineWriter) -> None:
        self._engine = engine
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
        identity = self.identity.as_dict()
        with self._engine.connect() as connection:
            missing = list_missing_texts(connection, find_model_id(connection, identity), texts)
        embed_texts(self._engine, self._encoder, missing, self._tell)
        with self._engine.connect() as connection:
            model_id = find_model_id(connection, identity)
        assert model_id is not None
        stored = load_text_vectors(self._engine, model_id, texts)
        return np.stack([stored[text] for text in texts])
