"""Frames of videos in the database: which are wanted, what is stored, what is found again."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db import schema
from db.evidence.frames import count_frames, list_pending_videos, load_frames
from db.evidence.models import register_model
from db.manifest.datasets import Dataset
from tests.db.builders import add_video, store_frame_rows, wait_for_lock, write_vectors_to

IDENTITY = {"model_id": "tiny", "revision": "1", "params": {"every": 30}}


def sha(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def frames_of(video_id: int, content: bytes = b"one", n: int = 2, *, value: float = 1.0) -> dict[str, Any]:
    features = np.full((n, 3), value, np.float32) * np.arange(1, n + 1, dtype=np.float32)[:, None]
    frames = [(30 * i, float(i), features[i]) for i in range(n)]
    facts = {"status": "ok", "error": None, "n_frames": 30 * n, "reader": "pyav"}
    return {"video_id": video_id, "content_sha256": sha(content), **facts, "frames": frames}


def without_frames(video_id: int, status: str, error: str) -> dict[str, Any]:
    return {**frames_of(video_id, n=0), "status": status, "error": error, "n_frames": None, "reader": None}


@pytest.fixture(params=["postgres", "files"])
def engine(engine: Engine, request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    return write_vectors_to(engine, tmp_path) if request.param == "files" else engine


@pytest.fixture
def model_id(engine: Engine) -> int:
    with engine.begin() as connection:
        return register_model(connection, IDENTITY)


def wanted(engine: Engine, model_id: int | None, *video_ids: int) -> list[str]:
    with engine.connect() as connection:
        return [video.key for video in list_pending_videos(connection, model_id, video_ids)]


def add_file(engine: Engine, clips: Dataset, key: str, status: str = "ok") -> int:
    video_id = add_video(engine, clips, key, content=b"one", status=status)
    with engine.begin() as connection:
        connection.execute(
            sa.update(schema.video).where(schema.video.c.video_id == video_id).values(size_bytes=3, mtime_ns=7)
        )
    return video_id


def change_content(engine: Engine, video_id: int, content: bytes) -> None:
    with engine.begin() as connection:
        connection.execute(
            sa.update(schema.video).where(schema.video.c.video_id == video_id).values(content_sha256=sha(content))
        )


def test_only_videos_that_decode_are_wanted(engine: Engine, clips: Dataset, model_id: int) -> None:
    keys = {status: add_file(engine, clips, status, status) for status in ("ok", "damaged", "undecodable")}
    text_only = add_video(engine, clips, "text_only", status="text_only")
    assert wanted(engine, model_id, *keys.values(), text_only) == ["ok", "damaged"]
    assert wanted(engine, None, keys["ok"]) == ["ok"]
    with engine.connect() as connection:
        (video,) = list_pending_videos(connection, model_id, [keys["ok"]])
    assert (video.uri, video.size_bytes, video.mtime_ns, video.content_sha256) == ("media/ok.mp4", 3, 7, sha(b"one"))


def test_frames_come_back_in_their_order_with_their_numbers(engine: Engine, clips: Dataset, model_id: int) -> None:
    first, second = (add_file(engine, clips, key) for key in ("a", "b"))
    assert store_frame_rows(engine, model_id, [frames_of(second, n=1), frames_of(first, n=12)]) == 2
    found = load_frames(engine, model_id, [first, second, 10**9])
    assert set(found) == {first, second}
    features = [feature for _, _, feature in frames_of(first, n=12)["frames"]]
    np.testing.assert_array_equal(found[first].features, features)
    assert found[first].features.dtype == np.float32
    assert (found[second].status, found[second].error, found[second].features.shape) == ("ok", None, (1, 3))
    with engine.connect() as connection:
        n_rows = connection.scalar(sa.select(sa.func.count()).select_from(schema.frame_embedding))
        (kept,) = connection.execute(sa.select(schema.frame_set).where(schema.frame_set.c.video_id == first))
    assert n_rows == (13 if kept.file_id is None else 0)
    assert found[first].indices == tuple(range(0, 360, 30))
    assert found[first].times_s == tuple(map(float, range(12)))
    assert (kept.n_frames, kept.n_sampled, kept.reader, bytes(kept.content_sha256)) == (360, 12, "pyav", sha(b"one"))
    assert wanted(engine, model_id, first, second) == []


def test_another_encoder_has_seen_nothing(engine: Engine, clips: Dataset, model_id: int) -> None:
    video_id = add_file(engine, clips, "a")
    store_frame_rows(engine, model_id, [frames_of(video_id)])
    with engine.begin() as connection:
        other = register_model(connection, {**IDENTITY, "params": {"every": 10}})
    assert other != model_id
    assert wanted(engine, other, video_id) == ["a"]
    assert load_frames(engine, other, [video_id]) == {}


def test_frames_of_an_older_content_are_wanted_again_and_not_found(
    engine: Engine, clips: Dataset, model_id: int
) -> None:
    video_id = add_file(engine, clips, "a")
    store_frame_rows(engine, model_id, [frames_of(video_id, n=5)])
    change_content(engine, video_id, b"two")
    assert wanted(engine, model_id, video_id) == ["a"]
    assert load_frames(engine, model_id, [video_id]) == {}
    store_frame_rows(engine, model_id, [frames_of(video_id, b"two", n=2, value=4.0)])
    np.testing.assert_array_equal(load_frames(engine, model_id, [video_id])[video_id].features, [[4] * 3, [8] * 3])


def test_what_failed_is_wanted_again_and_what_is_unreadable_is_not(
    engine: Engine, clips: Dataset, model_id: int
) -> None:
    failed, unreadable = (add_file(engine, clips, key) for key in ("failed", "unreadable"))
    store_frame_rows(
        engine,
        model_id,
        [
            without_frames(failed, "failed", "no such file"),
            without_frames(unreadable, "unreadable", "no decoder"),
        ],
    )
    assert wanted(engine, model_id, failed, unreadable) == ["failed"]
    found = load_frames(engine, model_id, [failed, unreadable])
    assert (found[failed].status, found[failed].error) == ("failed", "no such file")
    assert found[unreadable].features.shape == (0, 0)
    store_frame_rows(engine, model_id, [frames_of(failed)])
    assert load_frames(engine, model_id, [failed])[failed].error is None


def test_a_video_that_is_gone_is_left_out(engine: Engine, clips: Dataset, model_id: int) -> None:
    video_id = add_file(engine, clips, "a")
    assert store_frame_rows(engine, model_id, [frames_of(10**9), frames_of(video_id)]) == 1
    assert set(load_frames(engine, model_id, [video_id, 10**9])) == {video_id}


def test_two_runs_on_one_video_end_with_the_frames_of_one(engine: Engine, clips: Dataset, model_id: int) -> None:
    video_id = add_file(engine, clips, "a")
    with ThreadPoolExecutor(1) as pool, engine.connect() as holder:
        with holder.begin():
            holder.execute(sa.text("SELECT 1 FROM video WHERE video_id = :id FOR NO KEY UPDATE"), {"id": video_id})
            other = pool.submit(store_frame_rows, engine, model_id, [frames_of(video_id, n=3)])
            wait_for_lock(engine, other)
            assert not other.done()
        other.result()
    store_frame_rows(engine, model_id, [frames_of(video_id, n=2, value=5.0)])
    np.testing.assert_array_equal(load_frames(engine, model_id, [video_id])[video_id].features, [[5] * 3, [10] * 3])


def test_the_frames_of_some_videos_are_counted(engine: Engine, clips: Dataset, model_id: int) -> None:
    ids = {key: add_file(engine, clips, key) for key in ("ok", "missing", "stale", "failed", "unreadable")}
    another, undecodable = add_file(engine, clips, "another"), add_file(engine, clips, "bad", "undecodable")
    asked = [*ids.values(), undecodable, 10**9]
    store_frame_rows(
        engine,
        model_id,
        [
            frames_of(ids["ok"], n=4),
            frames_of(ids["stale"], b"old", n=3),
            frames_of(another, n=9),
            without_frames(ids["failed"], "failed", "gone"),
            without_frames(ids["unreadable"], "unreadable", "broken"),
        ],
    )
    with engine.begin() as connection:
        counts = count_frames(connection, model_id, asked)
        assert list(counts) == ["n_videos", "n_missing", "n_failed", "n_unreadable", "n_sampled", "n_stored"]
        assert [*counts.values()] == [5, 2, 1, 1, 7, 7]
        in_rows = connection.execute(
            sa.delete(schema.frame_embedding).where(schema.frame_embedding.c.frame_index == 90)
        ).rowcount
        counts = count_frames(connection, model_id, asked)
        assert (counts["n_sampled"], counts["n_stored"]) == (7, 6 if in_rows else 7)
        assert count_frames(connection, None, asked)["n_missing"] == 5
