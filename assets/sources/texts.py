"""The sources of vectors of texts. Every distinct text is embedded once per encoder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Engine

from assets.models.chat import make_recording_encoder
from assets.progress import LineWriter
from assets.sources.base import Evidence, Forecast, Order, Source
from assets.sources.memo import ask_missing
from assets.words.text import format_count, format_portion
from db.evidence.embeddings import (
    NearestReference,
    StoredVectors,
    list_missing_texts,
    load_nearest_references,
    load_text_vectors,
    store_text_vectors,
)
from db.evidence.frames import LoadVideos
from db.schema.inputs import REFERENCES, Input
from db.scores.pending import PendingSample
from metrics_core.agreement.simple_scores import find_nearest_vector
from metrics_core.models.errors import ModelUnusable
from metrics_core.models.served_encoder import ServedTextEncoder
from metrics_core.protocols import ModelIdentity, TextEncoder, count_chunks

T = TypeVar("T")


def embed_texts(engine: Engine, encoder: TextEncoder, missing: Sequence[str], tell: LineWriter) -> None:
    """Embed these texts and store their vectors in the database, chunk by chunk, the longest texts first. missing:
    distinct texts that have no vector of the encoder. tell: takes lines about progress. Raises the encoder's errors;
    vectors stored before stay.
    """
    ask_missing(
        engine,
        encoder.identity,
        missing,
        length=len,
        ask=encoder.encode,
        store=lambda model_id, texts, vectors: store_text_vectors(
            engine, model_id, texts, vectors, count_chunks(encoder, texts)
        ),
        tell=lambda done, total: tell(f"{done} of {total} texts embedded"),
    )


class EmbeddedTexts(Source[T]):
    """A source that makes and stores vectors of the texts of samples; a subclass decides in which form to load them.
    texts: returns the texts of a sample that need a vector. inputs: the inputs that `texts` reads.
    """

    asset: ClassVar[str] = "text_embedding"
    description: ClassVar[str] = (
        "Vectors of every text that the shard's unscored samples need: each distinct text once per encoder."
    )
    group: ClassVar[str] = "embeddings"
    reads: ClassVar[tuple[str, ...]] = ("sample", "reference")

    def __init__(
        self,
        encoder: TextEncoder,
        texts: Callable[[PendingSample], Iterable[str]],
        inputs: Collection[Input[Any]],
    ) -> None:
        self.encoder = encoder
        self.inputs = inputs
        self._texts = texts

    @property
    def model(self) -> ModelIdentity:
        """The identity of the text encoder."""
        return self.encoder.identity

    def make(self, order: Order, sample_ids: list[int]) -> Mapping[str, int | str]:
        """Embed every distinct text of the samples that has no vector yet, and store the vectors. Returns the number of
        distinct texts, of those embedded now, and the encoder's name, by name. Requests to a server are recorded.
        """
        texts, missing = self._list_wanted_and_missing(order, sample_ids)
        embed_texts(order.engine, make_recording_encoder(self.encoder, order.engine, order.run_id), missing, order.tell)
        return {
            "texts_wanted": len(texts),
            "texts_embedded": len(missing),
            "encoder": self.encoder.identity.model_id,
        }

    def _list_wanted_and_missing(self, order: Order, sample_ids: list[int]) -> tuple[Collection[str], Sequence[str]]:
        """Return (the distinct texts of the samples, those of them without a stored vector)."""
        texts = dict.fromkeys(
            text for samples in order.samples(sample_ids, self.inputs) for text in self.wanted(order.engine, samples)
        )
        with order.engine.connect() as connection:
            return texts, list_missing_texts(connection, self.model_id(connection), texts)

    @property
    def asks_servers(self) -> bool:
        """Whether the encoder asks a server for the vectors, which may cost money."""
        return isinstance(self.encoder, ServedTextEncoder)

    def forecast(self, order: Order, sample_ids: list[int]) -> Sequence[Forecast]:
        """Estimate the requests for every distinct text without a vector, as one Forecast; () if the encoder asks no
        server, and [] if no text lacks a vector. Asks no server.
        """
        if not isinstance(self.encoder, ServedTextEncoder):
            return ()
        _, missing = self._list_wanted_and_missing(order, sample_ids)
        usage, name = self.encoder.estimate_usage(missing), self.model.model_id
        return [Forecast(self.asset, name, usage.calls, usage.tokens_in, 0, usage.money)] if missing else []

    def wanted(self, engine: Engine, samples: Sequence[PendingSample]) -> Iterator[str]:
        """Yield the texts of these samples that must have a vector; repeated ones come again. engine: not used here;
        subclasses read from its database the texts that a model wrote.
        """
        for sample in samples:
            yield from self._texts(sample)

    def try_out(self) -> str:
        """Load the encoder or ask its server, encode one word, and return the number of dimensions as text. Raises
        ModelUnusable if the vector is zero or not finite.
        """
        (vector,) = self.encoder.encode(["word"])
        if not np.isfinite(vector).all() or not vector.any():
            raise ModelUnusable(f"the vectors of {self.model.model_id} are zero or not finite: try another precision")
        return f"{len(vector)} dimensions"


class TextVectors(EmbeddedTexts[StoredVectors]):
    """The source of vectors by text; `load` and `ask` return a vector (dim,) for every text that the samples need."""

    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> StoredVectors:
        """Load the vectors (dim,) of all texts that the samples need from the database, by text; empty if they need
        none. Raises MissingEvidence if a text has no vector of the encoder. scorer_id is ignored: the vectors are the
        same for every scorer.
        """
        texts = set(self.wanted(engine, samples))
        if not texts:
            return StoredVectors()
        with engine.connect() as connection:
            model_id = self.model_id(connection)
        vectors = StoredVectors() if model_id is None else load_text_vectors(engine, model_id, texts)
        if len(vectors) < len(texts):
            n_missing = len(texts) - len(vectors)
            lack = f"no vector of {self.model.model_id}"
            raise self.missing(format_portion(n_missing, len(texts), "text", f"has {lack}", f"have {lack}"))
        return vectors

    def ask(self, samples: Sequence[PendingSample], files: LoadVideos, below: Evidence) -> StoredVectors:
        """Embed every distinct text of the samples now; return the vectors by text, and store nothing."""
        vectors, texts = StoredVectors(), list(dict.fromkeys(self._list_wanted_texts(samples, below)))
        if texts:
            vectors.update(zip(texts, self.encoder.encode(texts), strict=True))
            vectors.in_chunks = count_chunks(self.encoder, texts)
        return vectors

    def _list_wanted_texts(self, samples: Sequence[PendingSample], below: Evidence) -> Iterator[str]:
        """Yield the same texts as `wanted`, without a database."""
        for sample in samples:
            yield from self._texts(sample)


class WholeTextCosines(EmbeddedTexts[Mapping[int, NearestReference]]):
    """The source of the cosine between a caption's whole text and its nearest reference; `load` and `ask` return both
    by sample_id. texts: returns a caption, then its references. A sample without texts has no entry.
    """

    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> Mapping[int, NearestReference]:
        """Return the greatest cosine of each caption with its references, and that reference, by sample_id. The
        database computes them from stored vectors. The cosine is None for a vector of zeros. Raises MissingEvidence if
        a text of a sample has no vector of the encoder.
        """
        sample_ids = [sample.sample_id for sample in samples if any(True for _ in self._texts(sample))]
        with engine.connect() as connection:
            cosines = load_nearest_references(connection, self.model_id(connection), sample_ids)
        if n_missing := len(sample_ids) - len(cosines):
            samples_without = f"{n_missing} of {format_count(len(sample_ids), 'sample')}"
            raise self.missing(f"texts of {samples_without} have no vector of {self.model.model_id}")
        return cosines

    def ask(
        self, samples: Sequence[PendingSample], files: LoadVideos, below: Evidence
    ) -> Mapping[int, NearestReference]:
        """Embed the texts of the samples now, and return the greatest cosine of each caption with its references, and
        that reference, by sample_id. Equal to `load` up to rounding. The cosine is None for a vector of zeros. Stores
        nothing.
        """
        texts_by_sample = {sample.sample_id: list(self._texts(sample)) for sample in samples}
        distinct = list(dict.fromkeys(text for texts in texts_by_sample.values() for text in texts))
        vectors = dict(zip(distinct, self.encoder.encode(distinct), strict=True)) if distinct else {}
        return {
            sample.sample_id: _compare_vectors(sample, np.array([vectors[text] for text in texts], dtype=np.float64))
            for sample in samples
            if (texts := texts_by_sample[sample.sample_id])
        }


def _compare_vectors(sample: PendingSample, vectors: NDArray[np.float64]) -> NearestReference:
    """Return the best cosine of the first vector, the caption's, with the others, its references', and that reference.

    The cosine is None if a vector is zero.
    """
    references = sample[REFERENCES]
    nearest = find_nearest_vector(vectors[0], vectors[1:])
    return (
        NearestReference(None, references[0].key)
        if nearest is None
        else NearestReference(nearest.value, references[nearest.position].key)
    )
