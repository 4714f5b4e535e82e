"""What a scorer wants of the models, read from the database for a batch of samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Engine

from assets.scores.base import Features, Scorer
from assets.scores.checklist import INPUTS, is_verifiable
from db.embeddings import find_encoder, load_texts
from db.frames import VideoFrames, load_frames, pending_videos
from db.verdicts import VerdictSet, load_verdicts
from db.work import PendingSample


class MissingVectors(RuntimeError):
    """Vectors of texts or frames, or verdicts, that the scorer needs are not in the database yet."""


def load_features(engine: Engine, scorer: Scorer, scorer_id: int, samples: Sequence[PendingSample]) -> Features:
    """Vectors, frames and verdicts of some samples; MissingVectors where an earlier step has not made them."""
    if scorer.checklist is not None:
        return Features(verdicts=_verdicts(engine, scorer_id, samples))
    return Features(load_vectors(engine, scorer, samples), _frames(engine, scorer, samples))


def load_vectors(engine: Engine, scorer: Scorer, samples: Sequence[PendingSample]) -> dict[str, NDArray[np.float32]]:
    """The vectors of all texts that the scorer wants of some samples; MissingVectors where one is not embedded."""
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


def _verdicts(engine: Engine, scorer_id: int, samples: Sequence[PendingSample]) -> dict[int, VerdictSet]:
    wanted = [sample.sample_id for sample in samples if is_verifiable(sample)]
    found = load_verdicts(engine, scorer_id, wanted, INPUTS)
    if len(found) < len(wanted):
        raise MissingVectors(
            f"{len(wanted) - len(found)} of {len(wanted)} captions have no verdicts on their keypoints: "
            "materialise ecs_verdict for this shard first"
        )
    return found
