"""Embedding the texts that a shard's unscored samples need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Engine

from assets.scores.base import Scorer
from assets.scores.pending import pending_batches
from assets.scores.run import Progress
from db.embeddings import find_encoder, missing_texts, register_encoder, store_texts
from db.manifest import Dataset
from metrics_core.protocols import TextEncoder

# Texts encoded between two writes: enough to sort by length, little enough to lose in a crash.
CHUNK = 2048


@dataclass(frozen=True, slots=True)
class ShardTexts:
    """What an embedding run did on a shard."""

    n_texts: int
    n_embedded: int
    model_id: str


def embed_shard(
    engine: Engine, scorer: Scorer, dataset: Dataset, shard: int, *, progress: Progress | None = None
) -> ShardTexts:
    """Embed every distinct text that the scorer's pending samples need and that has no vector yet.

    The model is loaded only when there is such a text.
    """
    encoder = scorer.text_encoder
    batches = pending_batches(engine, scorer, dataset, shard)
    wanted = dict.fromkeys(text for samples in batches for sample in samples for text in scorer.texts(sample))
    with engine.connect() as connection:
        missing = missing_texts(connection, find_encoder(connection, encoder.identity.as_dict()), wanted)
    # Longest first: neighbours in length share a batch, and running out of memory shows at once, not at the end.
    missing.sort(key=len, reverse=True)
    done = 0
    if progress and missing:
        progress(0, len(missing))
    for start in range(0, len(missing), CHUNK):
        done += _embed(engine, encoder, missing[start : start + CHUNK])
        if progress:
            progress(min(start + CHUNK, len(missing)), len(missing))
    return ShardTexts(len(wanted), done, encoder.identity.model_id)


def _embed(engine: Engine, encoder: TextEncoder, texts: Sequence[str]) -> int:
    vectors = encoder.encode(texts)
    with engine.begin() as connection:
        encoder_id = register_encoder(connection, encoder.identity.as_dict(), vectors.shape[1])
    return store_texts(engine, encoder_id, texts, vectors)
