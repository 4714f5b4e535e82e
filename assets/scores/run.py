"""Scoring one shard: work list, batches through the scorer, rows back. A crash costs at most the batch under way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Engine
from threadpoolctl import threadpool_limits

from assets.scores.base import Features, Outcome, Scorer
from db.embeddings import find_encoder, load_texts
from db.frames import VideoFrames, load_frames, pending_videos
from db.manifest import Dataset
from db.scores import ScoreRow, find_scorer, register_scorer, write_scores
from db.work import PendingSample, batches, load_samples, pending_samples

BATCH_SIZE = 256
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ShardScores:
    """What a scoring run did on a shard."""

    scorer_id: int
    n_pending: int
    n_written: int


class MissingVectors(RuntimeError):
    """Vectors of texts or frames that the scorer needs are not in the database yet."""


def activate(engine: Engine, scorer: Scorer) -> int:
    """Register the scorer as its metric's active one and return its id."""
    with engine.begin() as connection:
        return register_scorer(connection, **_identity(scorer))


def activate_if_complete(engine: Engine, scorer: Scorer, datasets: Sequence[Dataset]) -> None:
    """Make a scorer its metric's active one where nothing is left to score, so that no run would do it.

    It may be one that was retired: the settings went back to it.
    """
    if not any(n_pending(engine, scorer, dataset, shard) for dataset in datasets for shard in range(dataset.n_shards)):
        activate(engine, scorer)


def n_pending(engine: Engine, scorer: Scorer, dataset: Dataset, shard: int) -> int:
    """How many samples of a shard the scorer has still to score."""
    return len(pending(engine, scorer, dataset, shard))


def pending(engine: Engine, scorer: Scorer, dataset: Dataset, shard: int) -> list[int]:
    """Ids of the samples of a shard that the scorer has still to score. Looks only: the active scorer stays active."""
    with engine.connect() as connection:
        return pending_samples(
            connection,
            scorer_id=find_scorer(connection, **_identity(scorer)),
            dataset_id=dataset.dataset_id,
            shard=shard,
            inputs=scorer.inputs,
        )


def score_shard(
    engine: Engine,
    scorer: Scorer,
    dataset: Dataset,
    shard: int,
    *,
    run_id: str,
    progress: Progress | None = None,
) -> ShardScores:
    """Score what the scorer has not scored on this shard, batch by batch, each batch one transaction.

    Raises MissingVectors before it writes anything of a batch whose texts or frames are not embedded. The scorer
    becomes its metric's active one here and not before: until its models have loaded, the last one's numbers are shown.
    """
    scorer_id = activate(engine, scorer)
    todo = pending(engine, scorer, dataset, shard)
    written = done = 0
    for ids in batches(todo, BATCH_SIZE):
        with engine.connect() as connection:
            samples = load_samples(connection, ids, scorer.inputs)
        features = Features(_texts(engine, scorer, samples), _frames(engine, scorer, samples))
        # The products of one sample are small: more threads gain little and, on a busy machine, wait for each other.
        with threadpool_limits(1, user_api="blas"):
            outcomes = scorer.score(samples, features)
        counts = write_scores(engine, scorer_id, run_id, _rows(samples, outcomes))
        written += counts.inserted + counts.updated
        done += len(ids)
        if progress:
            progress(done, len(todo))
    return ShardScores(scorer_id, len(todo), written)


def _identity(scorer: Scorer) -> dict[str, Any]:
    return {
        "metric": scorer.metric,
        "models": scorer.models(),
        "params": scorer.params(),
        "code_version": scorer.code_version,
    }


def _texts(engine: Engine, scorer: Scorer, samples: Sequence[PendingSample]) -> dict[str, NDArray[np.float32]]:
    wanted = {text for sample in samples for text in scorer.texts(sample)}
    if not wanted:
        return {}
    identity = scorer.text_encoder.identity
    with engine.connect() as connection:
        encoder_id = find_encoder(connection, identity.as_dict())
    found = {} if encoder_id is None else load_texts(engine, encoder_id, wanted)
    if len(found) < len(wanted):
        raise MissingVectors(
            f"{len(wanted) - len(found)} of {len(wanted)} texts have no vector of {identity.model_id}: "
            "materialise text_embedding for this shard first"
        )
    return found


def _frames(engine: Engine, scorer: Scorer, samples: Sequence[PendingSample]) -> dict[int, VideoFrames]:
    if scorer.frame_encoder is None:
        return {}
    identity = scorer.frame_encoder.identity
    wanted = sorted({sample.video_id for sample in samples})
    with engine.connect() as connection:
        encoder_id = find_encoder(connection, identity.as_dict())
        pending_now = pending_videos(connection, encoder_id, wanted)
    found = {} if encoder_id is None else load_frames(engine, encoder_id, wanted)
    if unseen := [video.key for video in pending_now if video.video_id not in found]:
        raise MissingVectors(
            f"{len(unseen)} of {len(wanted)} videos, {unseen[0]!r} for one, have no frames of {identity.model_id}: "
            "materialise frame_embedding for this shard first"
        )
    return found


def _rows(samples: Sequence[PendingSample], outcomes: Sequence[Outcome]) -> list[ScoreRow]:
    return [
        ScoreRow(
            sample_id=sample.sample_id,
            input_sha256=sample.input_sha256,
            value=outcome.value,
            components=outcome.components,
            status=outcome.status,
            error=outcome.reason,
        )
        for sample, outcome in zip(samples, outcomes, strict=True)
    ]
