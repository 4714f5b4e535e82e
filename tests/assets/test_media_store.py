"""Real clips from servers of S3 and of Google's storage: the same frames and scores as from files.

And what becomes of changed objects.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.home.folder import DEMO_DATASET
from assets.ingest.run import ingest_folder
from assets.metrics.evqa.scorer import EVQAScorer
from assets.metrics.evqa.settings import EVQASettings
from assets.scores.run import score_shard
from db.manifest.removal import delete_dataset
from tests.assets.media_servers import BUCKET, Bucket, S3Bucket, google_store, s3_store
from tests.assets.verifying import dataset_of, make_sources

pytestmark = pytest.mark.slow

PROBED = ["key", "content_sha256", "size_bytes", "duration_s", "fps", "n_frames", "width", "height", "codec", "status"]
# Those that tests change or look at, in three containers. From a store the other files come as the same copy.
CLIPS = {"counter_h265", "eye_makeup", "hair_brushing", "lobby_fern", "pancake_flip", "pool_cleaning"}
# Few frames: each scorer decodes the clips again.
SETTINGS = {"frames_every": 30, "frames_cap": 8}


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Path:
    """The manifest of these clips, beside their files."""
    folder, all_clips = tmp_path_factory.mktemp("clips"), shared_data / "clips"
    for table in ("videos", "captions", "keypoints", "keypoint_labels", "qa", "ratings"):
        lines = (all_clips / f"{table}.jsonl").read_text().splitlines(keepends=True)
        (folder / f"{table}.jsonl").write_text("".join(line for line in lines if _clip_of(json.loads(line)) in CLIPS))
    (folder / "videos").mkdir()
    for path in (all_clips / "videos").iterdir():
        if path.stem in CLIPS:
            shutil.copyfile(path, folder / "videos" / path.name)
    return folder


def _clip_of(row: dict[str, Any]) -> str:
    return str(row.get("video_id") or row["caption_id"].partition("__")[0])


@pytest.fixture(
    scope="module",
    params=[pytest.param(s3_store, id="s3"), pytest.param(google_store, id="gs", marks=pytest.mark.expensive)],
)
def bucket(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, clips: Path
) -> Generator[Bucket, None, None]:
    with request.param(tmp_path_factory.mktemp("cache")) as bucket:
        for path in sorted((clips / "videos").iterdir()):
            bucket.put(f"videos/{path.name}", path.read_bytes())
        yield bucket


@pytest.fixture
def cache(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of copies."""
    monkeypatch.setenv("REELSIEVE_MEDIA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, clips: Path, bucket: Bucket) -> Path:
    """The manifest of the clips, whose paths are addresses."""
    folder = tmp_path_factory.mktemp("remote")
    for path in clips.glob("*.jsonl"):
        shutil.copyfile(path, folder / path.name)
    rows = [json.loads(line) for line in (folder / "videos.jsonl").read_text().splitlines()]
    for row in rows:
        row["path"] = f"{bucket.scheme}://{BUCKET}/{row['path']}"
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
def stored(module_engine: Engine, bucket: Bucket, folder: Path) -> Generator[Engine, None, None]:
    """A database with the clips of the store, scored."""
    ingest_folder(module_engine, folder, DEMO_DATASET, n_shards=1)
    score(module_engine)
    yield module_engine
    # The other store's clips are ingested into the same database.
    with module_engine.begin() as connection:
        delete_dataset(connection, dataset_of(module_engine, DEMO_DATASET))


def of_video(engine: Engine, name: str) -> list[dict[str, Any]]:
    query = (
        "SELECT c.status, c.value, c.error FROM current_score c JOIN sample s USING (sample_id) "
        "JOIN video v USING (video_id) WHERE c.metric = 'evqa' AND v.key = :name"
    )
    return rows(engine, query, name=name)


def object_of(engine: Engine, name: str) -> str:
    """The name in the bucket of a video's object."""
    (row,) = rows(engine, "SELECT uri FROM video WHERE key = :name", name=name)
    return str(row["uri"]).partition(f"://{BUCKET}/")[2]


def test_an_object_gives_what_its_file_gives(stored: Engine, engine: Engine, clips: Path) -> None:
    ingest_folder(engine, clips, DEMO_DATASET, n_shards=1)
    score(engine)
    assert videos(stored) == videos(engine)
    assert {row["key"] for row in videos(stored)} == CLIPS
    of_store, of_files = scores(stored), scores(engine)
    assert [row for row in of_files if row["status"] == "ok"]
    assert of_store == of_files
    frames = "SELECT v.key, f.n_frames, f.n_sampled, f.reader, f.status FROM frame_set f JOIN video v USING (video_id)"
    assert sorted(map(str, rows(stored, frames))) == sorted(map(str, rows(engine, frames)))


def test_what_is_stored_of_an_object(stored: Engine, bucket: Bucket) -> None:
    (row,) = rows(stored, "SELECT * FROM video WHERE key = 'pancake_flip'")
    assert row["uri"] == f"{bucket.scheme}://{BUCKET}/{object_of(stored, 'pancake_flip')}"
    assert row["etag"].strip('"')
    assert (row["mtime_ns"], row["ctime_ns"], row["inode"]) == (None, None, None)
    everything = rows(stored, "SELECT v::text AS text FROM video v UNION ALL SELECT f::text FROM frame_set f")
    assert not [row for row in everything if "never-stored" in row["text"] or "of-the-environment" in row["text"]]


def test_unchanged_objects_are_not_fetched_again(stored: Engine, folder: Path, cache: Path) -> None:
    again = ingest_folder(stored, folder, DEMO_DATASET)
    assert (sum(again.accepted.values()), again.rejected) == (0, 0)
    assert not cache.exists()


def test_copies_serve_the_next_scorer_within_the_limit(
    stored: Engine, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    largest = max(row["size_bytes"] for row in videos(stored))
    monkeypatch.setenv("REELSIEVE_MEDIA_CACHE_GB", str((largest + 1) / 1e9))
    score(stored, frames_cap=7)
    assert 0 < sum(path.stat().st_size for path in cache.iterdir()) <= largest + 1
    assert {row["status"] for row in rows(stored, "SELECT status FROM frame_set")} == {"ok"}


def test_a_changed_object_makes_frames_and_scores_stale(
    stored: Engine, bucket: Bucket, folder: Path, cache: Path
) -> None:
    name = "hair_brushing"
    key, other = object_of(stored, name), object_of(stored, "lobby_fern")
    original = bucket.get(key)
    before = of_video(stored, name)
    bucket.put(key, bucket.get(other))
    # Not ingested yet: what is scored anew is not scored with the frames of another file.
    score(stored, frames_cap=6)
    assert {row["status"] for row in of_video(stored, name)} >= {"failed"}
    assert any(
        "has changed since it was ingested: put the file back" in (row["error"] or "") for row in of_video(stored, name)
    )
    report = ingest_folder(stored, folder, DEMO_DATASET)
    assert report.accepted["videos"] == 1
    assert {row["status"] for row in of_video(stored, name)} == {"stale"}
    assert {row["value"] for row in of_video(stored, name)} == {None}
    bucket.put(key, original)
    ingest_folder(stored, folder, DEMO_DATASET)
    score(stored)
    values = [row["value"] for row in before if row["status"] == "ok"]
    assert set(values) <= {row["value"] for row in of_video(stored, name)}


def test_an_object_that_was_written_again_alike_makes_nothing_stale(
    stored: Engine, bucket: Bucket, folder: Path
) -> None:
    """Its time changed, or, by an upload in parts, its etag too: then its hash decides."""
    name = object_of(stored, "eye_makeup")
    before = of_video(stored, "eye_makeup")
    if isinstance(bucket, S3Bucket):
        bucket.put_in_parts(name, bucket.get(name))
    else:
        bucket.put(name, bucket.get(name))
    accepted = ingest_folder(stored, folder, DEMO_DATASET).accepted["videos"]
    assert accepted == (1 if isinstance(bucket, S3Bucket) else 0)
    assert of_video(stored, "eye_makeup") == before
    assert "stale" not in {row["status"] for row in before}


def test_an_object_that_is_gone_is_a_status_with_a_remedy(
    stored: Engine, bucket: Bucket, folder: Path, cache: Path
) -> None:
    name = "pool_cleaning"
    key = object_of(stored, name)
    body = bucket.get(key)
    bucket.delete(key)
    score(stored, frames_cap=5)
    (failed,) = rows(
        stored,
        "SELECT DISTINCT f.status, f.error FROM frame_set f JOIN video v USING (video_id) "
        "WHERE v.key = :name AND f.status <> 'ok'",
        name=name,
    )
    address = f"{bucket.scheme}://{BUCKET}/{key}"
    assert failed == {
        "status": "failed",
        "error": f"{address}: there is no such object: put the file back or ingest the folder of video {name} again",
    }
    assert ingest_folder(stored, folder, DEMO_DATASET).rejected >= 1
    (refused,) = rows(stored, "SELECT code, reason FROM ingest_reject WHERE source = 'videos.jsonl'")
    assert refused == {
        "code": "file_missing",
        "reason": f"field 'path' is '{address}': there is no such object",
    }
    bucket.put(key, body)
    assert ingest_folder(stored, folder, DEMO_DATASET).rejected == 0
    score(stored, frames_cap=5)
    assert "failed" not in {row["status"] for row in of_video(stored, name)}


def test_a_root_may_be_a_prefix_of_a_store_or_a_folder(
    engine: Engine, bucket: Bucket, folder: Path, tmp_path: Path, clips: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same manifest, and the same rows of the database, serve machines whose media lie in different places."""
    (tmp_path / "set").mkdir()
    shutil.copyfile(folder / "captions.jsonl", tmp_path / "set" / "captions.jsonl")
    text = (folder / "videos.jsonl").read_text().replace(f"{bucket.scheme}://{BUCKET}/", "root://clips/")
    (tmp_path / "set" / "videos.jsonl").write_text(text)
    monkeypatch.setenv("REELSIEVE_MEDIA_ROOTS", json.dumps({"clips": f"{bucket.scheme}://{BUCKET}"}))
    assert ingest_folder(engine, tmp_path / "set", DEMO_DATASET, n_shards=1).rejected == 0
    from_store = videos(engine)
    assert {row["uri"][:18] for row in rows(engine, "SELECT uri FROM video")} == {"root://clips/video"}
    monkeypatch.setenv("REELSIEVE_MEDIA_ROOTS", json.dumps({"clips": str(clips)}))
    score(engine)
    assert {row["status"] for row in rows(engine, "SELECT status FROM frame_set")} == {"ok"}
    ingest_folder(engine, tmp_path / "set", DEMO_DATASET)
    assert videos(engine) == from_store
    assert "stale" not in {row["status"] for row in scores(engine)}
