"""What is nearest by stored vectors, against cosines by hand and by plain numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from db import schema
from db.evidence.models import register_model
from db.evidence.search import (
    count_captions_with_vectors,
    has_frame_vectors,
    list_nearest_captions,
    list_nearest_videos,
)
from db.evidence.vector_files import find_folder
from tests.db.builders import (
    add_sample,
    add_video,
    change,
    empty,
    make_dataset,
    store_frame_rows,
    store_vectors,
    write_vectors_to,
)

CONTENT = b"film"


@pytest.fixture(params=["postgres", "files"])
def engine(engine: Engine, request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    return write_vectors_to(engine, tmp_path) if request.param == "files" else engine


def model(engine: Engine, name: str = "tiny") -> int:
    with engine.begin() as connection:
        return register_model(connection, {"model_id": name, "revision": "1", "params": {}})


def vector(*numbers: float) -> np.ndarray:
    return np.asarray(numbers, np.float32)


def test_captions_come_by_their_cosine(engine: Engine) -> None:
    clips, other = make_dataset(engine), make_dataset(engine, "other")
    texts = {"east": vector(2, 0), "north": vector(0, 1), "north-east": vector(1, 1), "nowhere": vector(0, 0)}
    video = add_video(engine, clips, "v")
    for text in texts:
        add_sample(engine, clips, video, f"of {text}", text)
    add_sample(engine, clips, video, "unseen", "no vector")
    add_sample(engine, clips, video, "question", "east", kind="qa", question="where", answer="east")
    add_sample(engine, other, add_video(engine, other, "w"), "far", "east")
    model_id = model(engine)
    store_vectors(engine, model_id, list(texts), np.stack(list(texts.values())))
    store_vectors(engine, model(engine, "another"), ["no vector"], vector(1, 0)[None])
    with engine.connect() as connection:
        found = list_nearest_captions(connection, model_id, vector(1, 0), clips.dataset_id, 10)
        assert [(row["sample"], round(row["similarity"], 6)) for row in found] == [
            ("of east", 1.0),
            ("of north-east", round(0.5**0.5, 6)),
            ("of north", 0.0),
        ]
        assert (found[0]["dataset"], found[0]["video"], found[0]["text"]) == ("clips", "v", "east")
        others = list_nearest_captions(connection, model_id, vector(1, 0), None, 2, but_video=video)
        assert [row["sample"] for row in others] == ["far"]
        everywhere = list_nearest_captions(connection, model_id, vector(1, 0), None, 2)
        assert [row["sample"] for row in everywhere] == ["of east", "far"]
        assert count_captions_with_vectors(connection, model_id, clips.dataset_id) == (4, 5)
        assert count_captions_with_vectors(connection, model_id, None) == (5, 6)
        assert count_captions_with_vectors(connection, None, None) == (0, 6)


def test_a_video_comes_once_with_its_best_frame(engine: Engine) -> None:
    clips = make_dataset(engine)
    videos = {key: add_video(engine, clips, key, content=CONTENT) for key in ("turns", "still", "changed", "black")}
    features = {
        "turns": [vector(0, 1), vector(3, 0), vector(1, 1)],
        "still": [vector(1, 1), vector(1, 1)],
        "changed": [vector(1, 0)],
        "black": [vector(0, 0)],
    }
    model_id = model(engine)
    with engine.connect() as connection:
        shas = dict(connection.execute(schema.video.select()).mappings().all()[0])
    rows = [
        {
            "video_id": videos[key],
            "content_sha256": shas["content_sha256"],
            "status": "ok",
            "error": None,
            "n_frames": 9,
            "reader": "test",
            "frames": [(i, float(i), feature) for i, feature in enumerate(of_video)],
        }
        for key, of_video in features.items()
    ]
    with engine.connect() as connection:
        assert not has_frame_vectors(connection, model_id, clips.dataset_id)
    store_frame_rows(engine, model_id, rows)
    change(engine, schema.video, videos["changed"], content_sha256=b"another film")
    with engine.connect() as connection:
        found = list_nearest_videos(connection, model_id, vector(1, 0), clips.dataset_id, 10)
        others = list_nearest_videos(connection, model_id, vector(1, 0), None, 10, but_video=videos["turns"])
        assert [row["video_id"] for row in others] == [videos["still"]]
        assert has_frame_vectors(connection, model_id, None)
        assert not has_frame_vectors(connection, model_id, clips.dataset_id + 1)
    assert [(row["video"], row["time_s"], round(row["similarity"], 6)) for row in found] == [
        ("turns", 1.0, 1.0),
        ("still", 0.0, round(0.5**0.5, 6)),
    ]


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), n=st.integers(1, 30), limit=st.integers(1, 30))
def test_any_order_is_that_of_numpy(engine: Engine, seed: int, n: int, limit: int) -> None:
    empty(engine)
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(n, 5)).astype(np.float32)
    asked = rng.normal(size=5).astype(np.float32)
    clips = make_dataset(engine)
    video = add_video(engine, clips, "v")
    for i in range(n):
        add_sample(engine, clips, video, f"s{i}", f"text {i}")
    model_id = model(engine)
    store_vectors(engine, model_id, [f"text {i}" for i in range(n)], vectors)
    with engine.connect() as connection:
        found = list_nearest_captions(connection, model_id, asked, None, limit)
    if find_folder(engine):
        vectors = vectors.astype(np.float16).astype(np.float32)
    cosines = vectors @ asked / np.linalg.norm(vectors, axis=1) / np.linalg.norm(asked)
    order = np.argsort(-cosines)[:limit]
    assert [row["sample"] for row in found] == [f"s{i}" for i in order]
    assert [row["similarity"] for row in found] == pytest.approx(cosines[order].tolist(), abs=1e-6)
