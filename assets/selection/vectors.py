"""Vectors of whole texts, by which a recipe finds near-duplicates and diverse samples."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from sqlalchemy.engine import Connection, Engine

from assets.planning.timing import Clock, format_duration, measure_seconds_per_unit
from assets.progress import LineWriter
from assets.scores.base import Scorer
from assets.sources.cached_models import CachingEncoder
from assets.sources.texts import TextVectors
from assets.words.text import format_count
from db.evidence.embeddings import find_sample_key_of_text, load_vectors_by_digest
from db.evidence.models import find_model_id
from db.selection.recipes import SelectionError
from metrics_core.protocols import TextEncoder
from metrics_core.vectors import BadFeature, normalise_rows

# How many vectors are scaled at once.
_ROWS = 4096


def find_text_encoder(scorers: Mapping[str, Scorer]) -> TextEncoder:
    """Return the encoder of the first source of text vectors (`TextVectors`) among the sources of these scorers, given
    by metric. Raises StopIteration where none of them has such a source.
    """
    sources = (source for scorer in scorers.values() for source in scorer.sources)
    return next(source.encoder for source in sources if isinstance(source, TextVectors))


def embed_missing_texts(
    engine: Engine,
    encoder: TextEncoder,
    texts: Sequence[str],
    tell: LineWriter,
    clock: Clock = time.perf_counter,
    approve: Callable[[str], bool] | None = None,
) -> None:
    """Embed texts that have no vector of the encoder, and store their vectors; nothing happens for no texts. tell:
    called first with how many there are. approve: called with a sentence on the time for the rest, measured on the
    first; returns whether to embed it. None prints it and continues. Raises SelectionError where not approved; the
    first vectors stay.
    """
    if not texts:
        return
    them = "it" if len(texts) == 1 else "them"
    tell(f"{format_count(len(texts), 'text')} without a vector of {encoder.identity.model_id}: embedding {them} first")

    def embed(lot: Sequence[str]) -> None:
        CachingEncoder(engine, encoder, lambda _: None).embed(lot)

    measured = measure_seconds_per_unit(embed, texts, clock, len)
    remaining = texts[measured.n_measured :]
    if remaining:
        duration = format_duration(measured.seconds * sum(map(len, remaining)))
        texts_left = format_count(len(remaining), "text")
        sentence = f"{texts_left} left to embed: {duration}, measured on the first {measured.n_measured:,}"
        if approve is None:
            tell(sentence)
        elif not approve(sentence):
            raise SelectionError(
                f"nothing is selected, since you declined to embed {texts_left} of this recipe: leave dedupe and "
                f"diverse out, or embed {'it' if len(remaining) == 1 else 'them'}"
            )
        CachingEncoder(engine, encoder, tell).embed(remaining)


def load_unit_vectors(
    connection: Connection, encoder: TextEncoder, digests: Sequence[bytes]
) -> npt.NDArray[np.float32]:
    """Load the vectors (n, d) that an encoder gave to texts, scaled to length 1, in the order of `digests`, the SHA-256
    hashes of the texts. Raises SelectionError where a vector is missing, or is zero and has no direction.
    """
    model_id = find_model_id(connection, encoder.identity.as_dict())
    vectors = None if model_id is None else load_vectors_by_digest(connection, model_id, digests)
    if vectors is None:
        raise SelectionError("texts changed while the selection was made: run the same command again")
    for start in range(0, len(vectors), _ROWS):
        part = vectors[start : start + _ROWS]
        try:
            part[:] = normalise_rows("text", part.astype(np.float64))
        except BadFeature as error:
            bad = start + int(np.argmin(np.abs(part).max(axis=1)))
            key = find_sample_key_of_text(connection, digests[bad])
            raise SelectionError(
                f"sample {key!r} cannot be compared, because {encoder.identity.model_id} gives its text a zero vector: "
                "leave such samples out with a condition, or name another encoder"
            ) from error
    return vectors
