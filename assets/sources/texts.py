"""The sources of vectors of texts. Every distinct text is embedded once per encoder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Engine

from assets.models.chat import make_recording_encoder
from assets.sources.base import Batch, Forecast, Source
from assets.words.text import format_count
from db.evidence.embeddings import (
    TEXT_VECTORS,
    NearestReference,
    StoredVectors,
    TextVector,
    load_nearest_references,
)
from db.evidence.store import Table
from db.evidence.vector_files import has_files
from db.schema.inputs import REFERENCES, Input
from db.scores.pending import PendingSample
from metrics_core.agreement.simple_scores import find_nearest_vector
from metrics_core.models.errors import ModelUnusable
from metrics_core.models.served_encoder import ServedTextEncoder
from metrics_core.protocols import ModelIdentity, TextEncoder, count_chunks

K = TypeVar("K")
T = TypeVar("T")


# Keys between two writes: enough to share batches by length, little enough to lose in a crash.
CHUNK = 2048


def split_longest_first(keys: Iterable[K], length: Callable[[K], int]) -> Iterator[list[K]]:
    """Yield the keys in chunks of 2,048, the longest first: neighbours in length share a model's batch, and running out
    of memory shows at once, not at the end. length: returns the length of a key, in any unit.
    """
    queue = sorted(keys, key=length, reverse=True)
    for start in range(0, len(queue), CHUNK):
        yield queue[start : start + CHUNK]


def embed_texts(encoder: TextEncoder, texts: Iterable[str]) -> Iterator[dict[str, TextVector]]:
    """Yield the vectors of different texts by text, chunk by chunk, the longest texts first. Raises the encoder's
    errors, once the vectors that came before are yielded.
    """
    for chunk in split_longest_first(texts, len):
        try:
            vectors = encoder.encode(chunk)
        except ModelUnusable as error:
            if error.vectors:
                yield {text: TextVector(vector, 1) for text, vector in error.vectors.items()}
            raise
        n_chunks = count_chunks(encoder, chunk)
        yield {text: TextVector(vector, n_chunks.get(text, 1)) for text, vector in zip(chunk, vectors, strict=True)}


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
    table: ClassVar[Table[Any, Any]] = TEXT_VECTORS
    noun: ClassVar[str] = "text"
    product: ClassVar[str] = "vector"
    model_role: ClassVar[str] = "encoder"
    progress: ClassVar[str] = "{done} of {total} texts embedded"
    wanted: ClassVar[str] = "texts_wanted"

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

    def keys(self, batch: Batch) -> Iterator[str]:
        """Yield the texts of the samples that must have a vector; repeated ones come again."""
        for sample in batch.samples:
            yield from self._texts(sample)

    def compute(self, keys: Sequence[str], batch: Batch) -> Iterator[Mapping[str, TextVector]]:
        """Embed these texts, and yield their vectors chunk by chunk. A database records the requests to a server."""
        order, encoder = batch.order, self.encoder
        return embed_texts(make_recording_encoder(encoder, order.engine, order.run_id) if order else encoder, keys)

    @property
    def asks_servers(self) -> bool:
        """Whether the encoder asks a server for the vectors, which may cost money."""
        return isinstance(self.encoder, ServedTextEncoder)

    def estimate(self, keys: Sequence[str]) -> Sequence[Forecast]:
        """Estimate the requests to the encoder's server for vectors of these texts; () if it asks none."""
        if not isinstance(self.encoder, ServedTextEncoder):
            return ()
        usage = self.encoder.estimate_usage(keys)
        return [Forecast(self.asset, self.model.model_id, usage.calls, usage.tokens_in, 0, usage.money)]

    def count(self, values: Mapping[str, TextVector]) -> Mapping[str, int]:
        """Return the number of texts embedded now."""
        return {"texts_embedded": len(values)}

    def try_out(self) -> str:
        """Load the encoder or ask its server, encode one word, and return the number of dimensions as text. Raises
        ModelUnusable if the vector is zero or not finite.
        """
        (vector,) = self.encoder.encode(["word"])
        if not np.isfinite(vector).all() or not vector.any():
            raise ModelUnusable(
                f"the vectors of {self.model.model_id} are zero or not finite: set "
                "REELSIEVE_TEXT_ENCODER_PRECISION=fp32, or name another model"
            )
        return f"{len(vector)} dimensions"


class TextVectors(EmbeddedTexts[StoredVectors]):
    """The source of vectors by text; `load` and `ask` return a vector (dim,) for every text that the samples need."""

    def gather(self, values: Mapping[str, TextVector], batch: Batch) -> StoredVectors:
        """Return the vectors by text."""
        return StoredVectors(values)


class WholeTextCosines(EmbeddedTexts[Mapping[int, NearestReference]]):
    """The source of the cosine between a caption's whole text and its nearest reference; `load` and `ask` return both
    by sample_id. texts: returns a caption, then its references. A sample without texts has no entry.
    """

    def load(self, engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> Mapping[int, NearestReference]:
        """Return the highest cosine of each caption with its references, and that reference, by sample_id. The database
        computes them from stored vectors, unless any of the encoder's are in files. The cosine is None for a vector of
        zeros. Raises MissingEvidence if a text of a sample has no vector of the encoder.
        """
        sample_ids = [sample.sample_id for sample in samples if any(True for _ in self._texts(sample))]
        with engine.connect() as connection:
            model_id = self.model_id(connection)
            if has_files(connection, model_id, "text"):
                return super().load(engine, scorer_id, samples)
            cosines = load_nearest_references(connection, model_id, sample_ids)
        if n_missing := len(sample_ids) - len(cosines):
            samples_without = f"{n_missing:,} of {format_count(len(sample_ids), 'sample')}"
            raise self.missing(f"texts of {samples_without} have no vector of {self.model.model_id}")
        return cosines

    def gather(self, values: Mapping[str, TextVector], batch: Batch) -> Mapping[int, NearestReference]:
        """Return the highest cosine of each caption with its references, and that reference, by sample_id. Equal to
        what `load` returns up to rounding.
        """
        return {
            sample.sample_id: _compare_vectors(sample, np.array([values[text].vector for text in texts], np.float64))
            for sample in batch.samples
            if (texts := list(self._texts(sample)))
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
