"""Vectors in Postgres and in files: `python -m benchmarks.vector_files [--texts 100000] [--clips 10000]`.

Texts have one random vector of 384 numbers each, clips sixteen of 512. Both are saved in the batches in which sources
save them: 2,048 texts or 32 videos. Measured are seconds to save, bytes in the database with indexes and in files,
seconds to load a batch of 256 as a scorer does, all texts at once as dedupe does, and to search all for the nearest
ten.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from benchmarks.installation import temporary_engine
from benchmarks.measure import RESULTS, Spread, save_with_load, timed
from benchmarks.million_fill import NAME
from db.evidence.embeddings import (
    TextVector,
    load_text_vectors,
    load_vectors_by_digest,
    store_text_vectors,
    text_sha256,
)
from db.evidence.frames import StoredFrames, load_frames, store_frames
from db.evidence.models import register_model
from db.evidence.search import list_nearest_captions, list_nearest_videos
from db.evidence.vector_files import FOLDER_OPTION, VectorFolder
from db.manifest.datasets import find_or_create_dataset

TEXTS_AT_ONCE, CLIPS_AT_ONCE, SCORED_AT_ONCE = 2048, 32, 256
TEXT_NUMBERS, FRAME_NUMBERS, N_FRAMES, SEED = 384, 512, 16, 7
_ROWS = {
    "video": "INSERT INTO video (dataset_id, shard, key, uri, status, content_sha256, extra, row_sha256) "
    "SELECT :dataset_id, 0, 'v' || n, 'v' || n, 'ok', sha256(int8send(n)), '{}', '\\x00' "
    "FROM generate_series(0, :n - 1) n",
    "sample": "INSERT INTO sample (dataset_id, shard, video_id, key, kind, system, text, text_sha256, extra, "
    "row_sha256) "
    "SELECT :dataset_id, 0, (SELECT min(video_id) FROM video), 's' || n, 'caption', 'one', 'text ' || n, "
    "sha256(convert_to('text ' || n, 'UTF8')), '{}', '\\x00' FROM generate_series(0, :n - 1) n",
}
_SIZES = {
    "texts": "SELECT pg_total_relation_size('text_embedding')",
    "frames": "SELECT pg_total_relation_size('frame_set') + pg_total_relation_size('frame_embedding')",
}


def fill(engine: Engine, n_texts: int, n_clips: int) -> None:
    """Captions and videos to find again."""
    with engine.begin() as connection:
        dataset_id = find_or_create_dataset(connection, NAME, 1).dataset_id
        for table, n in (("video", n_clips), ("sample", n_texts)):
            connection.execute(sa.text(_ROWS[table]), {"dataset_id": dataset_id, "n": n})


def save_texts(engine: Engine, model_id: int, n: int) -> None:
    """Store vectors of n texts."""
    rng = np.random.default_rng(SEED)
    for start in range(0, n, TEXTS_AT_ONCE):
        lot = [f"text {number}" for number in range(start, min(start + TEXTS_AT_ONCE, n))]
        vectors = rng.normal(size=(len(lot), TEXT_NUMBERS)).astype(np.float32)
        store_text_vectors(engine, model_id, dict(zip(lot, map(TextVector, vectors), strict=True)))


def save_clips(engine: Engine, model_id: int, videos: list[tuple[int, bytes]]) -> None:
    """Store the frames of these videos."""
    rng = np.random.default_rng(SEED)
    times_s, indices = tuple(map(float, range(N_FRAMES))), tuple(range(0, 30 * N_FRAMES, 30))
    for start in range(0, len(videos), CLIPS_AT_ONCE):
        frames = {
            video: StoredFrames(
                "ok", None, rng.normal(size=(N_FRAMES, FRAME_NUMBERS)).astype(np.float32), times_s, indices, 480, "pyav"
            )
            for video in videos[start : start + CLIPS_AT_ONCE]
        }
        store_frames(engine, model_id, frames)


def measure(engine: Engine, place: str, folder: Path, n_texts: int) -> dict[str, Any]:
    """What one place for vectors takes."""
    engine.update_execution_options(**{FOLDER_OPTION: VectorFolder(str(folder), place == "files")})
    found: dict[str, Any] = {}

    def note(name: str, call: Callable[[], Any]) -> Any:
        found[f"{name}_s"], answer = timed(f"{place}: {name}", call)
        return answer

    with engine.begin() as connection:
        model_id = register_model(connection, {"model_id": place, "revision": "1", "params": {}})
        rows = connection.exec_driver_sql("SELECT video_id, content_sha256 FROM video ORDER BY video_id")
        videos = [(row[0], bytes(row[1])) for row in rows]
    with engine.connect() as connection:
        before = {name: connection.scalar(sa.text(query)) for name, query in _SIZES.items()}
    note("texts saved", lambda: save_texts(engine, model_id, n_texts))
    note("clips saved", lambda: save_clips(engine, model_id, videos))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("ANALYZE")
        for name, query in _SIZES.items():
            found[f"{name}_bytes_in_database"] = connection.scalar(sa.text(query)) - before[name]
    for name in ("text", "frame"):
        paths = list((folder / name / str(model_id)).glob("*.parquet"))
        found[f"{name}_files"], found[f"{name}_bytes_in_files"] = len(paths), sum(path.stat().st_size for path in paths)
    rng = np.random.default_rng(SEED)
    texts = [f"text {number}" for number in rng.integers(0, n_texts, SCORED_AT_ONCE)]
    clips = [videos[number][0] for number in range(min(SCORED_AT_ONCE, len(videos)))]
    batches = {
        "text": lambda: load_text_vectors(engine, model_id, texts),
        "clip": lambda: load_frames(engine, model_id, clips),
    }
    for name, load in batches.items():
        taken = [timed(f"{place}: batch of {name}s", load)[0] for _ in range(3)]
        found[f"{name}_batch_s"] = {"first": taken[0], **Spread.of(taken[1:]).as_dict()}
    digests = [text_sha256(f"text {number}") for number in range(n_texts)]
    with engine.connect() as connection:
        loaded = note("all texts loaded", lambda: load_vectors_by_digest(connection, model_id, digests))
        assert loaded is not None
        asked = np.random.default_rng(1).normal(size=FRAME_NUMBERS).astype(np.float32)
        note("texts searched", lambda: list_nearest_captions(connection, model_id, asked[:TEXT_NUMBERS], None, 10))
        note("clips searched", lambda: list_nearest_videos(connection, model_id, asked, None, 10))
    return found


def main() -> None:
    """Measure, print and write results/vector_files.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--clips", type=int, default=10_000)
    parser.add_argument("--only", choices=["postgres", "files"])
    parser.add_argument("--json", type=Path, default=RESULTS / "vector_files.json")
    given = parser.parse_args()
    before = os.getloadavg()
    result: dict[str, Any] = {"texts": given.texts, "clips": given.clips}
    with tempfile.TemporaryDirectory(prefix="reelsieve-") as folder, temporary_engine(Path(folder), NAME) as engine:
        fill(engine, given.texts, given.clips)
        for place in (given.only,) if given.only else ("postgres", "files"):
            result[place] = measure(engine, place, Path(folder) / "vectors", given.texts)
    print(json.dumps(result, indent=1))
    save_with_load(given.json, result, before)


if __name__ == "__main__":
    main()
