"""Embedding the sampled frames of the videos that a shard's unscored samples need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sqlalchemy.engine import Engine

from assets.scores.base import Scorer
from assets.scores.pending import pending_batches
from assets.scores.run import Progress
from db.embeddings import find_encoder, register_encoder
from db.frames import FrameRows, PendingVideo, pending_videos, store_frames
from db.manifest import Dataset
from metrics_core.frames.encoding import EncodedFrames, FrameEncoder, VideoFile, encode_videos
from metrics_core.frames.records import DecoderFailed, FrameReadError

# Videos encoded between two writes: what a crash costs at most.
VIDEOS_PER_WRITE = 32


@dataclass(frozen=True, slots=True)
class ShardVideos:
    """What a run did on the videos of a shard: how many it took on, their frames, and how many gave none."""

    n_videos: int
    n_frames: int
    n_without_frames: int
    model_id: str


def embed_frames(
    engine: Engine,
    scorer: Scorer,
    encoder: FrameEncoder,
    dataset: Dataset,
    shard: int,
    *,
    progress: Progress | None = None,
) -> ShardVideos:
    """Decode and encode each video of the scorer's pending samples whose frames `encoder` has not seen, once.

    A file that is missing or has changed since it was ingested, or on which the decoder died or ran out of time, is
    stored as failed and tried again by the next run. The model is loaded only when there is a file to be decoded.
    """
    todo = _pending(engine, scorer, encoder, dataset, shard)
    n_videos = n_frames = n_without = 0
    if progress and todo:
        progress(0, len(todo))
    rows = _frames_of(encoder, todo)
    while written := list(islice(rows, VIDEOS_PER_WRITE)):
        with engine.begin() as connection:
            encoder_id = register_encoder(connection, encoder.identity.as_dict(), encoder.images.dim)
        store_frames(engine, encoder_id, written)
        n_videos += len(written)
        n_frames += sum(len(video.indices) for video in written)
        n_without += sum(video.status != "ok" for video in written)
        if progress:
            progress(n_videos, len(todo))
    return ShardVideos(n_videos, n_frames, n_without, encoder.identity.model_id)


def _pending(engine: Engine, scorer: Scorer, encoder: FrameEncoder, dataset: Dataset, shard: int) -> list[PendingVideo]:
    batches = pending_batches(engine, scorer, dataset, shard)
    videos = {sample.video_id for samples in batches for sample in samples}
    with engine.connect() as connection:
        encoder_id = find_encoder(connection, encoder.identity.as_dict())
        return pending_videos(connection, encoder_id, sorted(videos))


def _frames_of(encoder: FrameEncoder, videos: Sequence[PendingVideo]) -> Iterator[FrameRows]:
    faults = {video.video_id: _fault(video) for video in videos}
    for video in videos:
        if fault := faults[video.video_id]:
            yield FrameRows(video.video_id, video.content_sha256, "failed", fault)
    files = [VideoFile(video, Path(video.uri), video.duration_s) for video in videos if not faults[video.video_id]]
    if files:
        for video, encoded in encode_videos(encoder, files):
            # Hours may lie between the first look and this one: what was read must be what was ingested.
            if fault := _fault(video):
                yield FrameRows(video.video_id, video.content_sha256, "failed", fault)
            else:
                yield _rows(video, encoded)


def _fault(video: PendingVideo) -> str | None:
    """Why a file must not be read: it is not, or not any more, the one that was ingested."""
    remedy = f"put it back or ingest the folder of {video.key} again"
    try:
        stat = Path(video.uri).stat()
    except OSError as error:
        return f"{video.uri}: {(error.strerror or str(error)).lower()}: {remedy}"
    if (stat.st_size, stat.st_mtime_ns) != (video.size_bytes, video.mtime_ns):
        return f"{video.uri}: the file has changed since it was ingested: {remedy}"
    return None


def _rows(video: PendingVideo, encoded: EncodedFrames | FrameReadError) -> FrameRows:
    if isinstance(encoded, DecoderFailed):
        return FrameRows(video.video_id, video.content_sha256, "failed", str(encoded))
    if isinstance(encoded, FrameReadError):
        return FrameRows(video.video_id, video.content_sha256, "unreadable", str(encoded))
    return FrameRows(
        video.video_id,
        video.content_sha256,
        indices=encoded.indices.tolist(),
        times_s=encoded.times_s.tolist(),
        features=encoded.features,
        n_frames=encoded.n_frames,
        reader=encoded.reader,
    )
