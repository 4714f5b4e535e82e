"""The real clips from an S3 server: the same frames and scores as from files, and what becomes of changed objects."""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.datasets import DEMO_DATASET
from assets.ingest.run import ingest_folder
from assets.scores.evqa import EVQAScorer
from assets.scores.evqa_settings import EVQASettings
from assets.scores.run import score_shard
from tests.assets.media_servers import BUCKET, object_store
from tests.assets.verifying import dataset_of, make_sources

pytestmark = pytest.mark.slow

PROBED = ["key", "content_sha256", "size_bytes", "duration_s", "fps", "n_frames", "width", "height", "codec", "status"]
# Few frames: each scorer decodes the clips again.
SETTINGS = {"frames_every": 30, "frames_cap": 8}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Generator[Any, None, None]:
    with object_store(tmp_path_factory.mktemp("cache")) as client:
        for path in sorted((shared_data / "clips" / "videos").iterdir()):
            client.upload_file(str(path), BUCKET, f"videos/{path.name}")
        yield client


@pytest.fixture
def cache(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of copies."""
    monkeypatch.setenv("REELSIEVE_MEDIA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Path:
    """The manifest of the clips, whose paths are addresses."""
    folder = tmp_path_factory.mktemp("remote")
    for path in (shared_data / "clips").glob("*.jsonl"):
        shutil.copyfile(path, folder / path.name)
    rows = [json.loads(line) for line in (folder / "videos.jsonl").read_text().splitlines()]
    for row in rows:
        row["path"] = f"s3://{BUCKET}/{row['path']}"
    (folder / "videos.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def rows(engine: Engine, query: str, **values: Any) -> list[dict[str, Any]]:
    with engine.connect() as connection:
        return [dict(row) for row in connection.execute(sa.text(query), values).mappings()]


def videos(engine: Engine) -> list[dict[str, Any]]:
    return rows(engine, f"SELECT {', '.join(PROBED)} FROM video ORDER BY key")


def score(engine: Engine, **settings: Any) -> EVQAScorer:
    scorer = EVQAScorer.from_settings(EVQASettings(**{**SETTINGS, **settings}))
    dataset = dataset_of(engine, DEMO_DATASET)
    make_sources(engine, scorer, dataset)
    score_shard(engine, scorer, dataset, 0, run_id="run")
    return scorer


def scores(engine: Engine) -> list[dict[str, Any]]:
    query = "SELECT kind, key, value, status, error FROM current_score WHERE metric = 'evqa' ORDER BY kind, key"
    return rows(engine, query)


@pytest.fixture(scope="module")
def stored(module_engine: Engine, client: Any, folder: Path) -> Engine:
    """A database with the clips of the store, scored."""
    ingest_folder(module_engine, folder, DEMO_DATASET, n_shards=1)
    score(module_engine)
    return module_engine


def of_video(engine: Engine, name: str) -> list[dict[str, Any]]:
    query = (
        "SELECT c.status, c.value, c.error FROM current_score c JOIN sample s USING (sample_id) "
        "JOIN video v USING (video_id) WHERE c.metric = 'evqa' AND v.key = :name"
    )
    return rows(engine, query, name=name)


def object_of(engine: Engine, name: str) -> str:
    """The name in the bucket of a video's object."""
    (row,) = rows(engine, "SELECT uri FROM video WHERE key = :name", name=name)
    return str(row["uri"]).removeprefix(f"s3://{BUCKET}/")


def test_an_object_gives_what_its_file_gives(stored: Engine, engine: Engine, shared_data: Path) -> None:
    ingest_folder(engine, shared_data / "clips", DEMO_DATASET, n_shards=1)
    score(engine)
    assert videos(stored) == videos(engine)
    assert len(videos(stored)) == 16
    of_store, of_files = scores(stored), scores(engine)
    assert [row for row in of_files if row["status"] == "ok"]
    assert of_store == of_files
    frames = "SELECT v.key, f.n_frames, f.n_sampled, f.reader, f.status FROM frame_set f JOIN video v USING (video_id)"
    assert sorted(map(str, rows(stored, frames))) == sorted(map(str, rows(engine, frames)))


def test_what_is_stored_of_an_object(stored: Engine) -> None:
    (row,) = rows(stored, "SELECT * FROM video WHERE key = 'pancake_flip'")
    assert row["uri"] == f"s3://{BUCKET}/{object_of(stored, 'pancake_flip')}"
    assert row["etag"].strip('"')
    assert (row["mtime_ns"], row["ctime_ns"], row["inode"]) == (None, None, None)
    everything = rows(stored, "SELECT v::text AS text FROM video v UNION ALL SELECT f::text FROM frame_set f")
    assert not [row for row in everything if "never-stored" in row["text"] or "of-the-environment" in row["text"]]


def test_unchanged_objects_are_not_fetched_again(stored: Engine, folder: Path, cache: Path) -> None:
    again = ingest_folder(stored, folder, DEMO_DATASET)
    assert (sum(again.accepted.values()), again.rejected) == (0, 0)
    assert not cache.exists()


def test_copies_serve_the_next_scorer_within_the_limit(
    stored: Engine, client: Any, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    largest = max(row["size_bytes"] for row in videos(stored))
    monkeypatch.setenv("REELSIEVE_MEDIA_CACHE_GB", str((largest + 1) / 1e9))
    score(stored, frames_cap=7)
    assert 0 < sum(path.stat().st_size for path in cache.iterdir()) <= largest + 1
    assert {row["status"] for row in rows(stored, "SELECT status FROM frame_set")} == {"ok"}


def test_a_changed_object_makes_frames_and_scores_stale(stored: Engine, client: Any, folder: Path, cache: Path) -> None:
    name = "hair_brushing"
    key, other = object_of(stored, name), object_of(stored, "lobby_fern")
    original = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    before = of_video(stored, name)
    client.copy_object(Bucket=BUCKET, Key=key, CopySource=f"{BUCKET}/{other}")
    # Not ingested yet: what is scored anew is not scored with the frames of another file.
    score(stored, frames_cap=6)
    assert {row["status"] for row in of_video(stored, name)} >= {"failed"}
    assert any(
        "has changed since it was ingested: put it back" in (row["error"] or "") for row in of_video(stored, name)
    )
    report = ingest_folder(stored, folder, DEMO_DATASET)
    assert report.accepted["videos"] == 1
    assert {row["status"] for row in of_video(stored, name)} == {"stale"}
    assert {row["value"] for row in of_video(stored, name)} == {None}
    client.put_object(Bucket=BUCKET, Key=key, Body=original)
    ingest_folder(stored, folder, DEMO_DATASET)
    score(stored)
    values = [row["value"] for row in before if row["status"] == "ok"]
    assert set(values) <= {row["value"] for row in of_video(stored, name)}


def test_an_object_that_was_written_again_alike_makes_nothing_stale(stored: Engine, client: Any, folder: Path) -> None:
    """Only its time changed, or, as by an upload in parts, its etag: its hash decides."""
    name = object_of(stored, "eye_makeup")
    body = client.get_object(Bucket=BUCKET, Key=name)["Body"].read()
    upload = client.create_multipart_upload(Bucket=BUCKET, Key=name)["UploadId"]
    part = client.upload_part(Bucket=BUCKET, Key=name, UploadId=upload, PartNumber=1, Body=body)
    client.complete_multipart_upload(
        Bucket=BUCKET,
        Key=name,
        UploadId=upload,
        MultipartUpload={"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]},
    )
    before = of_video(stored, "eye_makeup")
    assert ingest_folder(stored, folder, DEMO_DATASET).accepted["videos"] == 1
    assert of_video(stored, "eye_makeup") == before
    assert "stale" not in {row["status"] for row in before}


def test_an_object_that_is_gone_is_a_status_with_a_remedy(
    stored: Engine, client: Any, folder: Path, cache: Path
) -> None:
    name = "pool_cleaning"
    key = object_of(stored, name)
    body = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    client.delete_object(Bucket=BUCKET, Key=key)
    score(stored, frames_cap=5)
    (failed,) = rows(
        stored,
        "SELECT DISTINCT f.status, f.error FROM frame_set f JOIN video v USING (video_id) "
        "WHERE v.key = :name AND f.status <> 'ok'",
        name=name,
    )
    assert failed == {
        "status": "failed",
        "error": f"s3://{BUCKET}/{key}: there is no such object: put it back or ingest the folder of {name} again",
    }
    assert ingest_folder(stored, folder, DEMO_DATASET).rejected >= 1
    (refused,) = rows(stored, "SELECT code, reason FROM ingest_reject WHERE source = 'videos.jsonl'")
    assert refused == {
        "code": "file_missing",
        "reason": f"field 'path' is 's3://{BUCKET}/{key}': there is no such object",
    }
    client.put_object(Bucket=BUCKET, Key=key, Body=body)
    assert ingest_folder(stored, folder, DEMO_DATASET).rejected == 0
    score(stored, frames_cap=5)
    assert "failed" not in {row["status"] for row in of_video(stored, name)}


def test_a_root_may_be_a_prefix_of_a_store_or_a_folder(
    engine: Engine, client: Any, folder: Path, tmp_path: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same manifest, and the same rows of the database, serve machines whose media lie in different places."""
    (tmp_path / "set").mkdir()
    shutil.copyfile(folder / "captions.jsonl", tmp_path / "set" / "captions.jsonl")
    text = (folder / "videos.jsonl").read_text().replace(f"s3://{BUCKET}/", "root://clips/")
    (tmp_path / "set" / "videos.jsonl").write_text(text)
    monkeypatch.setenv("REELSIEVE_MEDIA_ROOTS", json.dumps({"clips": f"s3://{BUCKET}"}))
    assert ingest_folder(engine, tmp_path / "set", DEMO_DATASET, n_shards=1).rejected == 0
    from_store = videos(engine)
    assert {row["uri"][:18] for row in rows(engine, "SELECT uri FROM video")} == {"root://clips/video"}
    monkeypatch.setenv("REELSIEVE_MEDIA_ROOTS", json.dumps({"clips": str(shared_data / "clips")}))
    score(engine)
    assert {row["status"] for row in rows(engine, "SELECT status FROM frame_set")} == {"ok"}
    ingest_folder(engine, tmp_path / "set", DEMO_DATASET)
    assert videos(engine) == from_store
    assert "stale" not in {row["status"] for row in scores(engine)}
