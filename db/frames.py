"""Features of sampled frames: each video once per encoder, with a row that says what became of its frames.

Status of a video under an encoder: "ok"; "unreadable", for this content there is no hope; "failed", the file was not
there or is not the one that was ingested, so the next run tries again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psycopg
import sqlalchemy as sa
from numpy.typing import NDArray
from pgvector import Vector
from psycopg import sql
from sqlalchemy.engine import Connection, Engine

from db.bulk import copy_rows, upsert
from db.engine import psycopg_transaction
from db.schema import frame_embedding, frame_set

Status = Literal["ok", "unreadable", "failed"]
_SQL = Path(__file__).parent / "sql"


def no_features() -> NDArray[np.float32]:
    """The features of a video without frames, shape (0, 0)."""
    return np.empty((0, 0), np.float32)


@dataclass(frozen=True, slots=True)
class PendingVideo:
    """A video whose frames an encoder has not seen, or not in their present form."""

    video_id: int
    key: str
    uri: str
    size_bytes: int
    mtime_ns: int
    content_sha256: bytes
    duration_s: float | None


@dataclass(frozen=True, slots=True, eq=False)
class FrameRows:
    """What is stored of a video: `indices` (T,), `times_s` (T,) and `features` (T, dim), or why there are none."""

    video_id: int
    content_sha256: bytes
    status: Status = "ok"
    error: str | None = None
    indices: Sequence[int] = ()
    times_s: Sequence[float] = ()
    features: NDArray[np.float32] = field(default_factory=no_features)
    n_frames: int | None = None
    reader: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class VideoFrames:
    """Features (T, dim) of a video's sampled frames in their order; without any, `error` says why."""

    status: Status
    error: str | None
    features: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ShardFrames:
    """Counts over the videos of a shard that have samples and a file that decodes."""

    n_videos: int
    n_missing: int
    n_failed: int
    n_unreadable: int
    n_sampled: int
    n_stored: int

    def as_dict(self) -> dict[str, int]:
        """Plain data for metadata."""
        return asdict(self)


def pending_videos(connection: Connection, encoder_id: int | None, video_ids: Collection[int]) -> list[PendingVideo]:
    """Those of the videos that can be decoded and have no frames of this encoder for their present content.

    None is an encoder that is not registered yet: it has seen no video.
    """
    query = sa.text((_SQL / "pending_videos.sql").read_text())
    rows = connection.execute(query, {"encoder_id": encoder_id, "video_ids": list(video_ids)}).mappings()
    return [PendingVideo(**{**row, "content_sha256": bytes(row["content_sha256"])}) for row in rows]


def store_frames(engine: Engine, encoder_id: int, videos: Sequence[FrameRows]) -> int:
    """Store the frames of some videos in one transaction, in place of what was there; returns how many videos.

    A video that is gone by now is left out.
    """
    ids = [video.video_id for video in videos]
    with psycopg_transaction(engine) as connection:
        alive = {
            row[0]
            for row in connection.execute(
                "SELECT video_id FROM video WHERE video_id = ANY(%s) ORDER BY video_id FOR NO KEY UPDATE", [ids]
            )
        }
        kept = [video for video in videos if video.video_id in alive]
        connection.execute(
            "DELETE FROM frame_embedding WHERE encoder_id = %s AND video_id = ANY(%s)", [encoder_id, sorted(alive)]
        )
        _copy_features(connection, encoder_id, kept)
        _upsert_sets(connection, encoder_id, kept)
    return len(kept)


def load_frames(engine: Engine, encoder_id: int, video_ids: Collection[int]) -> dict[int, VideoFrames]:
    """The frames of those of the videos whose present content this encoder has seen."""
    parameters = [encoder_id, list(video_ids)]
    features: dict[int, list[NDArray[np.float32]]] = {}
    with psycopg_transaction(engine) as connection, connection.cursor(binary=True) as cursor:
        cursor.execute((_SQL / "frame_sets.sql").read_bytes(), parameters)
        sets = cursor.fetchall()
        cursor.execute(
            "SELECT video_id, embedding FROM frame_embedding WHERE encoder_id = %s AND video_id = ANY(%s) "
            "ORDER BY video_id, frame_index",
            parameters,
        )
        for video_id, vector in cursor:
            features.setdefault(video_id, []).append(vector.to_numpy().astype(np.float32, copy=False))
    return {
        video_id: VideoFrames(status, error, np.stack(features[video_id]) if video_id in features else no_features())
        for video_id, status, error in sets
    }


def shard_frames(connection: Connection, encoder_id: int | None, dataset_id: int, shard: int) -> ShardFrames:
    """Count what became of the frames of a shard's videos."""
    query = sa.text((_SQL / "shard_frames.sql").read_text())
    values = {"encoder_id": encoder_id, "dataset_id": dataset_id, "shard": shard}
    row = connection.execute(query, values).mappings().one()
    return ShardFrames(**{name: int(n) for name, n in row.items()})


def _copy_features(connection: psycopg.Connection[Any], encoder_id: int, videos: Sequence[FrameRows]) -> None:
    columns = [frame_embedding.c[name] for name in ("encoder_id", "video_id", "frame_index", "time_s", "embedding")]
    rows = (
        (encoder_id, video.video_id, int(index), float(time_s), Vector(feature))
        for video in videos
        for index, time_s, feature in zip(video.indices, video.times_s, video.features, strict=True)
    )
    copy_rows(connection, sql.Identifier(frame_embedding.name), columns, rows)


def _upsert_sets(connection: psycopg.Connection[Any], encoder_id: int, videos: Sequence[FrameRows]) -> None:
    compared = ["content_sha256", "status", "error", "n_frames", "n_sampled", "reader"]
    rows = [
        (encoder_id, v.video_id, v.content_sha256, v.status, v.error, v.n_frames, len(v.indices), v.reader)
        for v in videos
    ]
    upsert(connection, frame_set, ["encoder_id", "video_id", *compared], rows, compare=compared, touch=["encoded_at"])
