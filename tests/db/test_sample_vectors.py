"""Which samples have a vector of which kind, in which order, and the vectors themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db import schema
from db.evidence.embeddings import text_sha256
from db.evidence.models import register_model
from db.evidence.sample_vectors import SamplesWithVectors, VectorKind, load_sample_vectors, load_samples_with_vectors
from db.manifest.datasets import Dataset
from db.server.engine import open_engine
from tests.db.builders import (
    add_sample,
    add_video,
    change,
    change_text,
    make_dataset,
    store_frame_rows,
    store_vectors,
    write_vectors_to,
)

N = 40
KINDS = (("caption", {}), ("qa", {"question": "What?", "answer": "a dog"}))


@pytest.fixture(params=["postgres", "files"])
def engine(engine: Engine, request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    return write_vectors_to(engine, tmp_path) if request.param == "files" else engine


def unbounded(n: int, dim: int) -> None:
    """Any number of vectors of any length is read."""


def model_of(engine: Engine, name: str) -> int:
    with engine.begin() as connection:
        return register_model(connection, {"model_id": name, "revision": "1", "params": {}})


def listed(engine: Engine, dataset: Dataset, kind: VectorKind, model_id: int, most: int = 100) -> SamplesWithVectors:
    with engine.connect() as connection:
        return load_samples_with_vectors(connection, dataset, kind, model_id, most)


def vectors_of(engine: Engine, kind: VectorKind, model_id: int, samples: SamplesWithVectors) -> dict[int, list[float]]:
    """The vector of each sample."""
    with engine.connect() as connection:
        loaded = load_sample_vectors(connection, kind, model_id, samples, unbounded)
    assert loaded is not None
    assert len(np.unique(loaded[1])) == len(loaded[0]), "no vector is loaded twice"
    return dict(zip(samples.sample_ids.tolist(), loaded[0][loaded[1]].tolist(), strict=True))


def test_captions_have_the_vectors_of_their_texts(engine: Engine) -> None:
    dataset, other = make_dataset(engine, "own"), make_dataset(engine, "other")
    video, elsewhere = add_video(engine, dataset, "v"), add_video(engine, other, "v")
    texts = ["a dog runs", "a cat sits", "a dog runs", "nobody embedded this"]
    ids = [add_sample(engine, dataset, video, f"s{place}", text) for place, text in enumerate(texts)]
    add_sample(engine, dataset, video, "qa", "a dog runs", kind="qa", question="What?", answer="a dog")
    add_sample(engine, other, elsewhere, "s0", "a dog runs")
    model_id, another = model_of(engine, "one"), model_of(engine, "two")
    store_vectors(engine, model_id, texts[:2], np.array([[1, 2], [3, 4]], np.float32))
    store_vectors(engine, another, texts[3:], np.array([[5, 6, 7]], np.float32))
    samples = listed(engine, dataset, "text", model_id)
    assert vectors_of(engine, "text", model_id, samples) == {ids[0]: [1, 2], ids[1]: [3, 4], ids[2]: [1, 2]}
    assert (samples.n_all, samples.video_ids.tolist()) == (3, [video] * 3)
    assert listed(engine, dataset, "text", another).sample_ids.tolist() == [ids[3]]
    assert listed(engine, dataset, "text", another + 1).n_all == 0
    change_text(engine, ids[0], "a cat sits")
    changed = listed(engine, dataset, "text", model_id)
    assert changed.stamp != samples.stamp
    assert vectors_of(engine, "text", model_id, changed)[ids[0]] == [3, 4]
    with engine.begin() as connection:
        connection.execute(sa.delete(schema.text_embedding).where(schema.text_embedding.c.model_id == model_id))
    with engine.connect() as connection:
        assert load_sample_vectors(connection, "text", model_id, changed, unbounded) is None


def test_videos_have_the_mean_of_the_frames_of_their_present_file(engine: Engine) -> None:
    dataset, model_id = make_dataset(engine, "own"), model_of(engine, "frames")
    videos = [add_video(engine, dataset, f"v{place}", content=bytes([place])) for place in range(3)]
    ids = [
        add_sample(engine, dataset, video, f"s{video}{kind}", kind=kind, **extra)
        for video in videos
        for kind, extra in KINDS
    ]
    row = {"status": "ok", "error": None, "n_frames": 9, "reader": "test"}
    frames = [(0, 0.0, np.array([1, 0], np.float32)), (5, 0.5, np.array([0, 3], np.float32))]
    store_frame_rows(
        engine,
        model_id,
        [
            {**row, "video_id": videos[0], "content_sha256": text_sha256("x"), "frames": frames},
            {**row, "video_id": videos[1], "content_sha256": digest_of(engine, videos[1]), "frames": frames},
            {**row, "video_id": videos[2], "content_sha256": digest_of(engine, videos[2]), "frames": frames[1:]},
        ],
    )
    samples = listed(engine, dataset, "frames", model_id)
    expected = {ids[2]: [0.5, 1.5], ids[3]: [0.5, 1.5], ids[4]: [0, 3], ids[5]: [0, 3]}
    assert vectors_of(engine, "frames", model_id, samples) == expected
    assert samples.n_all == 4


def digest_of(engine: Engine, video_id: int) -> bytes:
    with engine.connect() as connection:
        query = sa.select(schema.video.c.content_sha256).where(schema.video.c.video_id == video_id)
        return bytes(connection.execute(query).scalar_one())


def store_brought(engine: Engine, model_id: int, video_id: int, vector: list[float]) -> None:
    row = {"model_id": model_id, "video_id": video_id, "content_sha256": digest_of(engine, video_id)}
    with engine.begin() as connection:
        new = schema.video_embedding.insert()
        connection.execute(new.values(**row, embedding=vector, extra={}, row_sha256=text_sha256(str(vector))))


def test_videos_have_the_vectors_that_a_manifest_brought(engine: Engine) -> None:
    dataset, model_id = make_dataset(engine, "own"), model_of(engine, "brought")
    videos = [add_video(engine, dataset, f"v{place}", content=bytes([place])) for place in range(3)]
    ids = [add_sample(engine, dataset, video, f"s{video}") for video in videos]
    store_brought(engine, model_id, videos[0], [1.0, 2.0])
    store_brought(engine, model_id, videos[1], [3.0, 4.0])
    change(engine, schema.video, videos[1], content_sha256=text_sha256("another file"))
    samples = listed(engine, dataset, "video", model_id)
    assert vectors_of(engine, "video", model_id, samples) == {ids[0]: [1, 2]}
    store_brought(engine, model_id, videos[2], [5.0, 6.0, 7.0])
    samples = listed(engine, dataset, "video", model_id)
    with engine.connect() as connection:
        assert load_sample_vectors(connection, "video", model_id, samples, unbounded) is None, "vectors of two lengths"


def test_a_size_is_checked_before_all_vectors_are_read(engine: Engine) -> None:
    sizes: list[tuple[int, int]] = []

    def refuse(*size: int) -> None:
        sizes.append(size)
        raise ValueError("too many")

    dataset, model_id = make_dataset(engine, "own"), model_of(engine, "one")
    video = add_video(engine, dataset, "v")
    texts = [f"text {place}" for place in range(3)]
    for text in texts:
        add_sample(engine, dataset, video, text, text)
    store_vectors(engine, model_id, texts, np.eye(3, 2, dtype=np.float32))
    samples = listed(engine, dataset, "text", model_id)
    with engine.connect() as connection, pytest.raises(ValueError, match="too many"):
        load_sample_vectors(connection, "text", model_id, samples, refuse)
    assert sizes == [(3, 2)]


def test_a_drawn_part_is_random_and_the_same_every_time(engine: Engine, database: str) -> None:
    dataset, model_id = make_dataset(engine, "own"), model_of(engine, "one")
    video = add_video(engine, dataset, "v")
    ids = [add_sample(engine, dataset, video, f"s{place:02d}") for place in range(N)]
    store_vectors(engine, model_id, ["a dog runs"], np.ones((1, 2), np.float32))
    whole = listed(engine, dataset, "text", model_id)
    assert sorted(whole.sample_ids.tolist()) == ids
    part = listed(engine, dataset, "text", model_id, 15)
    assert (part.n_all, part.sample_ids.tolist()) == (N, whole.sample_ids[:15].tolist())
    # All of the first half would be one of 2^22 draws.
    assert 2 <= sum(sample_id in ids[: N // 2] for sample_id in part.sample_ids.tolist()) <= 13
    second = open_engine(database)
    assert listed(second, dataset, "text", model_id, 15).stamp == part.stamp != whole.stamp
    second.dispose()


@pytest.mark.parametrize("kind", ["text", "frames", "video"])
def test_without_vectors_nothing_is_listed(engine: Engine, kind: VectorKind) -> None:
    samples = listed(engine, make_dataset(engine, "own"), kind, 1)
    assert (samples.n_all, samples.sample_ids.size) == (0, 0)
    with engine.connect() as connection:
        assert load_sample_vectors(connection, kind, 1, samples, unbounded) is None
