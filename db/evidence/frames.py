"""Vectors of sampled frames: stored per video and image encoder, with a row that holds their status.

Status of a video under an encoder: "ok"; "unreadable": no run can read frames of this content; "failed": the file was
missing or differs from the ingested file, so the next run tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import psycopg
import sqlalchemy as sa
from numpy.typing import NDArray
from pgvector import Vector
from psycopg import sql
from sqlalchemy.engine import Connection, Engine

from db.evidence.store import Table
from db.evidence.vector_files import WrittenFile, confirm_file, read_places, write_vectors, writes_files
from db.schema import frame_embedding, frame_set, video
from db.server.bulk import copy_rows, upsert
from db.server.engine import open_psycopg_transaction
from db.server.locking import lock_ids_for_copy
from db.sql import read_sql

Status = Literal["ok", "unreadable", "failed"]
# What decides whether the stored row of a video changes.
_COMPARED = ("content_sha256", "status", "error", "n_frames", "n_sampled", "reader", "file_id", "place")


def make_empty_features() -> NDArray[np.float32]:
    """Return an array of shape (0, 0), the features of a video without frames."""
    return np.empty((0, 0), np.float32)


@dataclass(frozen=True, slots=True)
class StoredVideo:
    """A video of table `video` with the state of its file at ingest. uri: path of the file or address in a store.
    mtime_ns, ctime_ns, inode: None for an object of a store. etag: None for a file. member_offset: its place in a tar
    file, None for a file of its own. n_frames and duration_s are None where unknown.
    """

    video_id: int
    key: str
    uri: str
    size_bytes: int
    mtime_ns: int | None
    ctime_ns: int | None
    inode: int | None
    etag: str | None
    member_offset: int | None
    content_sha256: bytes
    duration_s: float | None
    n_frames: int | None
    width: int | None
    height: int | None


# Gives the videos among these ids whose file decodes.
LoadVideos = Callable[[Collection[int]], list[StoredVideo]]


@dataclass(frozen=True, slots=True, eq=False)
class StoredFrames:
    """The sampled frames of one video under one image encoder: vectors `features` (T, dim), and by frame `times_s` in
    seconds and `indices`, its number in the video. n_frames: of the whole video; reader: the name of what decoded it.
    Without frames, `features` has the shape (0, 0), both are None and `error` gives the reason.
    """

    status: Status
    error: str | None
    features: NDArray[np.float32]
    times_s: tuple[float, ...] = ()
    indices: tuple[int, ...] = ()
    n_frames: int | None = None
    reader: str | None = None


def list_pending_videos(connection: Connection, model_id: int | None, video_ids: Collection[int]) -> list[StoredVideo]:
    """List by id those of the given videos that decode and whose present file this encoder has not read: never, or its
    last try failed. model_id: None for an encoder that is not registered yet; then every video that decodes is pending.
    """
    query = sa.text(read_sql("pending_videos"))
    rows = connection.execute(query, {"model_id": model_id, "video_ids": list(video_ids)}).mappings()
    return [StoredVideo(**{**row, "content_sha256": bytes(row["content_sha256"])}) for row in rows]


def make_video_loader(engine: Engine) -> LoadVideos:
    """Return a function that takes ids of videos and loads their rows of table `video`, by id. It leaves out unknown
    ids and videos whose file does not decode. It opens a connection at every call.
    """

    def find(video_ids: Collection[int]) -> list[StoredVideo]:
        with engine.connect() as connection:
            return list_pending_videos(connection, None, video_ids)

    return find


def store_frames(engine: Engine, model_id: int, frames: Mapping[tuple[int, bytes], StoredFrames]) -> int:
    """Replace the stored frames of videos under one image encoder, in one transaction, and return how many videos were
    stored. A video that was deleted in the meantime is left out. frames: by video id and digest of the file's content.

    The vectors go into a file first if the engine's folder is written.
    """
    file = _write_features(engine, model_id, frames) if writes_files(engine) else None
    with open_psycopg_transaction(engine) as connection:
        video_ids = [video_id for video_id, _ in frames]
        alive = lock_ids_for_copy(connection, video.c.video_id, video_ids, is_exclusive=True)
        kept = {key: stored for key, stored in frames.items() if key[0] in alive}
        connection.execute(
            "DELETE FROM frame_embedding WHERE model_id = %s AND video_id = ANY(%s)", [model_id, sorted(alive)]
        )
        if file is None:
            _copy_features(connection, model_id, kept)
        else:
            confirm_file(connection, file)
        _upsert_sets(connection, model_id, kept, _list_places(frames, file))
    return len(kept)


def load_frames(engine: Engine, model_id: int, video_ids: Collection[int]) -> dict[int, StoredFrames]:
    """Load the frames of videos under one image encoder as {video id: its frames in order}. A video whose present file
    the encoder has not seen is left out. A file that could not be read has an entry with its status and error.
    """
    parameters = [model_id, list(video_ids)]
    frames: dict[int, list[tuple[float, int, NDArray[np.float32]]]] = {}
    file_ids: list[int] = []
    places: list[int] = []
    videos: list[int] = []
    with open_psycopg_transaction(engine) as connection, connection.cursor(binary=True) as cursor:
        cursor.execute(read_sql("frame_sets").encode(), parameters)
        sets = cursor.fetchall()
        cursor.execute(
            "SELECT video_id, time_s, frame_index, embedding FROM frame_embedding "
            "WHERE model_id = %s AND video_id = ANY(%s) ORDER BY video_id, frame_index",
            parameters,
        )
        for video_id, time_s, index, vector in cursor:
            feature = vector.to_numpy().astype(np.float32, copy=False)
            frames.setdefault(video_id, []).append((time_s, index, feature))
    for video_id, *_, n_sampled, file_id, place in sets:
        if file_id is not None:
            file_ids += [file_id] * n_sampled
            places += range(place, place + n_sampled)
            videos += [video_id] * n_sampled
    for positions, read in read_places(engine, file_ids, places):
        columns = read["time_s"].tolist(), read["frame_index"].tolist(), read["vector"]
        for position, *frame in zip(positions.tolist(), *columns, strict=True):
            frames.setdefault(videos[position], []).append(tuple(frame))
    loaded = {}
    for video_id, status, error, n_frames, reader, *_ in sets:
        times_s, indices, features = zip(*frames[video_id], strict=True) if video_id in frames else ((), (), ())
        stacked = np.stack(features) if features else make_empty_features()
        loaded[video_id] = StoredFrames(status, error, stacked, times_s, indices, n_frames, reader)
    return loaded


def count_frames(connection: Connection, model_id: int | None, video_ids: Collection[int]) -> dict[str, int]:
    """Count those of the given videos that decode (n_videos), and their frames, under one image encoder. n_missing:
    videos without frames of their present file. n_failed, n_unreadable: videos with this last status, even if the file
    has changed. n_sampled, n_stored: frames sampled, and vectors stored. model_id: None for an unregistered encoder;
    then all are missing.
    """
    query = sa.text(read_sql("frame_counts"))
    row = connection.execute(query, {"model_id": model_id, "video_ids": list(video_ids)}).mappings().one()
    return {name: int(n) for name, n in row.items()}


def _copy_features(
    connection: psycopg.Connection[Any], model_id: int, frames: Mapping[tuple[int, bytes], StoredFrames]
) -> None:
    columns = [frame_embedding.c[name] for name in ("model_id", "video_id", "frame_index", "time_s", "embedding")]
    rows = (
        (model_id, video_id, int(index), float(time_s), Vector(feature))
        for (video_id, _), stored in frames.items()
        for index, time_s, feature in zip(stored.indices, stored.times_s, stored.features, strict=True)
    )
    copy_rows(connection, sql.Identifier(frame_embedding.name), columns, rows)


def _write_features(
    engine: Engine, model_id: int, frames: Mapping[tuple[int, bytes], StoredFrames]
) -> WrittenFile | None:
    """Write the vectors of these videos into a file, one video after the other; None if there are none."""
    with_frames = [(video_id, one) for (video_id, _), one in frames.items() if one.indices]
    if not with_frames:
        return None
    columns = {
        "video_id": np.repeat([number for number, _ in with_frames], [len(one.indices) for _, one in with_frames]),
        "frame_index": np.concatenate([np.array(one.indices, np.int32) for _, one in with_frames]),
        "time_s": np.concatenate([np.array(one.times_s, np.float64) for _, one in with_frames]),
        "vector": np.concatenate([one.features for _, one in with_frames]),
    }
    return write_vectors(engine, model_id, "frame", columns)


def _list_places(
    frames: Mapping[tuple[int, bytes], StoredFrames], file: WrittenFile | None
) -> dict[int, tuple[int | None, int | None]]:
    """Return file and first row of the vectors by video id; None and None where they are in no file."""
    places: dict[int, tuple[int | None, int | None]] = {}
    place = 0
    for (video_id, _), one in frames.items():
        places[video_id] = (file.file_id, place) if file and one.indices else (None, None)
        place += len(one.indices)
    return places


def _upsert_sets(
    connection: psycopg.Connection[Any],
    model_id: int,
    frames: Mapping[tuple[int, bytes], StoredFrames],
    places: Mapping[int, tuple[int | None, int | None]],
) -> None:
    rows = [
        (model_id, id_, digest, one.status, one.error, one.n_frames, len(one.indices), one.reader, *places[id_])
        for (id_, digest), one in frames.items()
    ]
    upsert(connection, frame_set, ("model_id", "video_id", *_COMPARED), rows, compare=_COMPARED, touch=["encoded_at"])


def _load_frames_of(engine: Engine, model_id: int, videos: Collection[StoredVideo]) -> dict[StoredVideo, StoredFrames]:
    by_id = load_frames(engine, model_id, [one.video_id for one in videos])
    return {one: by_id[one.video_id] for one in videos if one.video_id in by_id}


def _store_frames_of(engine: Engine, model_id: int, _: str, frames: Mapping[StoredVideo, StoredFrames]) -> None:
    store_frames(engine, model_id, {(one.video_id, one.content_sha256): stored for one, stored in frames.items()})


def _list_unseen(engine: Engine, model_id: int, videos: Collection[StoredVideo]) -> list[StoredVideo]:
    with engine.connect() as connection:
        pending = list_pending_videos(connection, model_id, [one.video_id for one in videos])
    unseen = {one.video_id for one in pending}
    return [one for one in videos if one.video_id in unseen]


FRAMES: Table[StoredVideo, StoredFrames] = Table(_load_frames_of, _store_frames_of, _list_unseen)
"""The frames of an image encoder, by video; those that failed count as missing."""
