"""Vectors in files: complete or absent, found wherever they are, and gone once nothing points to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db import schema
from db.evidence import embeddings, search
from db.evidence.embeddings import load_text_vectors
from db.evidence.frames import load_frames
from db.evidence.models import register_model
from db.evidence.search import list_nearest_captions
from db.evidence.vector_files import FOLDER_OPTION, VectorFilesUnusable, VectorFolder, delete_unused_files, has_files
from db.manifest.datasets import Dataset
from db.manifest.removal import count_contents, delete_dataset
from db.server.retention import delete_evidence, list_unneeded_evidence
from tests.assets.media_servers import BUCKET, s3_store
from tests.db.builders import (
    add_sample,
    add_video,
    make_dataset,
    store_frame_rows,
    store_vectors,
    write_vectors_to,
)

DIGEST = bytes(32)


def new_model(engine: Engine, name: str = "tiny") -> int:
    with engine.begin() as connection:
        return register_model(connection, {"model_id": name, "revision": "1", "params": {}})


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def store_frames_of(engine: Engine, model_id: int, dataset: Dataset, n: int) -> list[int]:
    """Frames of new videos of a dataset."""
    videos = [add_video(engine, dataset, f"v{place}", content=b"one") for place in range(n)]
    with engine.connect() as connection:
        digest = connection.scalar(sa.select(schema.video.c.content_sha256).limit(1))
    row = {"content_sha256": digest, "status": "ok", "error": None, "n_frames": 9, "reader": "pyav"}
    frames = [(i, i / 2, np.full(4, 1 + i, np.float32)) for i in range(3)]
    store_frame_rows(engine, model_id, [{**row, "video_id": video, "frames": frames} for video in videos])
    return videos


def test_a_crash_costs_a_batch_and_leaves_nothing_half(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each step of the second batch: while it is written, before it is renamed, and before rows point to it."""
    model_id = new_model(write_vectors_to(engine, tmp_path))
    store_vectors(engine, model_id, ["a"], np.eye(1, 4, dtype=np.float32))
    steps: list[tuple[Any, str]] = [(VectorFolder, "write"), (Path, "replace"), (embeddings, "confirm_file")]

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    for owner, name in steps:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, stop)
            with pytest.raises(KeyboardInterrupt):
                store_vectors(engine, model_id, ["b"], np.ones((1, 4), np.float32))
        assert load_text_vectors(engine, model_id, ["a", "b"]).keys() == {"a"}
    assert sum(path.suffix == ".part" for path in files_of(tmp_path)) == 1
    assert delete_unused_files(engine) == 0, "somebody may be writing them"
    with engine.begin() as connection:
        connection.execute(sa.update(schema.vector_file).values(written_at=sa.text("now() - interval '2 days'")))
        unneeded = list_unneeded_evidence(connection, ())
    assert [(row.table, row.rows) for row in unneeded] == [("vector_file", 3)]
    assert delete_evidence(engine, unneeded) == 3
    assert len(files_of(tmp_path)) == 1
    store_vectors(engine, model_id, ["b"], np.ones((1, 4), np.float32))
    assert load_text_vectors(engine, model_id, ["a", "b"]).keys() == {"a", "b"}


def test_files_go_with_the_dataset_or_the_model_that_they_are_of(engine: Engine, tmp_path: Path) -> None:
    model_id, dataset = new_model(write_vectors_to(engine, tmp_path)), make_dataset(engine, "a")
    store_frames_of(engine, model_id, dataset, 2)
    other = make_dataset(engine, "b")
    kept = store_frames_of(engine, model_id, other, 1)
    store_vectors(engine, model_id, ["text"], np.ones((1, 4), np.float32))
    with engine.begin() as connection:
        assert count_contents(connection, dataset)["vectors of frames"] == 6
        delete_dataset(connection, dataset)
    assert delete_unused_files(engine) == 1
    assert [path.parent.parent.name for path in files_of(tmp_path)] == ["frame", "text"]
    assert load_frames(engine, model_id, kept)[kept[0]].indices == (0, 1, 2)
    with engine.begin() as connection:
        models = {"encoder": {"model_id": "tiny", "revision": "1"}}
        row = {"metric": "m", "fingerprint": "f", "models": models, "params": {}, "status": "retired"}
        connection.execute(sa.insert(schema.scorer).values(**row, code_version="1"))
        unneeded = list_unneeded_evidence(connection, ())
    found = {row.table: (row.rows, row.bytes > 0) for row in unneeded}
    assert found == {"text_embedding": (1, True), "frame_set": (1, True), "vector_file": (2, True)}
    assert delete_evidence(engine, unneeded) == 4
    assert files_of(tmp_path) == []


def test_vectors_are_found_wherever_they_are(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of them in the database and half in files; the search must look farther than the first it takes as near."""
    monkeypatch.setattr(search, "_MOST_NEAR", 1)
    model_id, clips, other = new_model(engine), make_dataset(engine), make_dataset(engine, "other")
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(60, 8)).astype(np.float16).astype(np.float32)
    for place in range(60):
        dataset = clips if place % 5 == 0 else other
        add_sample(engine, dataset, add_video(engine, dataset, f"v{place}"), f"s{place}", f"text {place}")
    names = [f"text {place}" for place in range(60)]
    store_vectors(engine, model_id, names[:30], vectors[:30])
    store_vectors(write_vectors_to(engine, tmp_path), model_id, names[30:50], vectors[30:50])
    store_vectors(engine, model_id, names[50:], vectors[50:])
    loaded = load_text_vectors(engine, model_id, names)
    np.testing.assert_array_equal([loaded[name].vector for name in names], vectors)
    cosines = vectors @ vectors[0] / np.linalg.norm(vectors, axis=1)
    with engine.connect() as connection:
        assert has_files(connection, model_id, "text")
        assert not has_files(connection, model_id, "frame")
        for dataset_id, mine in ((clips.dataset_id, range(0, 60, 5)), (None, range(60))):
            order = sorted(mine, key=lambda place: -cosines[place])
            for limit in (1, 7, 100):
                found = list_nearest_captions(connection, model_id, vectors[0], dataset_id, limit)
                assert [row["sample"] for row in found] == [f"s{place}" for place in order[:limit]]


def test_numbers_out_of_the_range_of_half_precision_stay_exact(engine: Engine, tmp_path: Path) -> None:
    model_id = new_model(write_vectors_to(engine, tmp_path))
    sizes = []
    for place, scale in enumerate((1.0, 1e-9, 1e9)):
        vector = np.linspace(1, 2, 512, dtype=np.float32)[None] * np.float32(scale)
        store_vectors(engine, model_id, [str(place)], vector)
        found = load_text_vectors(engine, model_id, [str(place)])[str(place)].vector
        np.testing.assert_allclose(found, vector[0], rtol=5e-4 if scale == 1 else 0)
        sizes.append(sum(path.stat().st_size for path in files_of(tmp_path)) - sum(sizes))
    assert sizes[0] + 1000 < sizes[1] == sizes[2], "four bytes a number instead of two"


def test_a_folder_that_cannot_be_used_is_named_with_its_setting(engine: Engine, tmp_path: Path) -> None:
    model_id = new_model(write_vectors_to(engine, tmp_path))
    store_vectors(engine, model_id, ["a"], np.ones((1, 4), np.float32))
    engine.update_execution_options(**{FOLDER_OPTION: VectorFolder(str(tmp_path / "moved"), is_written=False)})
    with pytest.raises(VectorFilesUnusable, match=r"file text/\d+/\w+\.parquet of .*moved.*REELSIEVE_VECTORS_FOLDER"):
        load_text_vectors(engine, model_id, ["a"])
    store_vectors(engine, model_id, ["b"], np.ones((1, 4), np.float32))
    assert load_text_vectors(engine, model_id, ["b"])["b"].vector.tolist() == [1] * 4, "the database has new ones"
    (tmp_path / "file").touch()
    write_vectors_to(engine, tmp_path / "file")
    with pytest.raises(VectorFilesUnusable, match=r"no vectors can be written to .*/file \(.*REELSIEVE_VECTORS_FOLDER"):
        store_vectors(engine, model_id, ["c"], np.ones((1, 4), np.float32))


@pytest.mark.slow
def test_a_store_keeps_files_like_a_folder(engine: Engine, tmp_path: Path) -> None:
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    with s3_store(tmp_path) as bucket:
        folder = VectorFolder(f"s3://{BUCKET}/kept/vectors", is_written=True)
        engine.update_execution_options(**{FOLDER_OPTION: folder})
        dataset, model_id = make_dataset(engine), new_model(engine)
        videos = store_frames_of(engine, model_id, dataset, 2)
        found = load_frames(engine, model_id, videos)
        assert [found[video].features.tolist() for video in videos] == [[[1.0 + i] * 4 for i in range(3)]] * 2
        with engine.begin() as connection:
            (name,) = connection.scalars(sa.select(schema.vector_file.c.name))
            delete_dataset(connection, dataset)
        assert bucket.get(f"kept/vectors/{name}")[:4] == b"PAR1"
        assert delete_unused_files(engine) == 1
        with pytest.raises(Exception, match="NoSuchKey"):
            bucket.get(f"kept/vectors/{name}")
