"""Vectors of whole texts, by which a recipe tells near-duplicates and diversity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from sqlalchemy.engine import Connection, Engine

from assets.scores.base import Scorer
from assets.sources.base import Tell
from assets.sources.texts import TextVectors, embed_texts
from db.evidence.embeddings import load_vectors, sample_with_text, texts_without_vector
from db.evidence.models import find_model
from db.selection.recipes import SelectionError
from metrics_core.protocols import TextEncoder
from metrics_core.vectors import BadFeature, unit_rows

# Vectors that are scaled at once.
_ROWS = 4096


def text_encoder(scorers: Mapping[str, Scorer]) -> TextEncoder:
    """The configured encoder of texts."""
    sources = (source for scorer in scorers.values() for source in scorer.sources)
    return next(source.encoder for source in sources if isinstance(source, TextVectors))


def embed_whole_texts(engine: Engine, encoder: TextEncoder, sample_ids: Sequence[int], tell: Tell) -> None:
    """Embed the whole texts of samples that have no vector yet."""
    with engine.connect() as connection:
        model_id = find_model(connection, encoder.identity.as_dict())
        missing = texts_without_vector(connection, model_id, sample_ids)
    embed_texts(engine, encoder, missing, tell)


def unit_vectors(connection: Connection, encoder: TextEncoder, digests: Sequence[bytes]) -> npt.NDArray[np.float32]:
    """The vectors (n, d) of texts by their hashes, of length 1.

    Raises SelectionError where one is missing, or is zero and has no direction.
    """
    model_id = find_model(connection, encoder.identity.as_dict())
    vectors = None if model_id is None else load_vectors(connection, model_id, digests)
    if vectors is None:
        raise SelectionError("texts changed while the selection was made: run the same command again")
    for start in range(0, len(vectors), _ROWS):
        part = vectors[start : start + _ROWS]
        try:
            part[:] = unit_rows("text", part.astype(np.float64))
        except BadFeature as error:
            bad = start + int(np.argmin(np.abs(part).max(axis=1)))
            key = sample_with_text(connection, digests[bad])
            raise SelectionError(
                f"sample {key!r} has a text of which the encoder {encoder.identity.model_id} says nothing: its vector "
                "is zero; leave such samples out with a condition, or name another encoder"
            ) from error
    return vectors
