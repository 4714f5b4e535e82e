"""Fills a database for `benchmarks.million` by SQL alone, in the order in which ingest and scoring would write it.

Samples lie in the order of their videos, as a manifest has them, so a shard is spread over the whole table. Scores are
written shard by shard and metric by metric, as runs write them. Every score is fresh, one in fifty is undefined.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from assets.metrics.registry import METRIC_INPUTS, METRICS
from db.evidence.verdicts import VERDICT_INPUTS
from db.manifest.datasets import Dataset, find_or_create_dataset
from db.schema.inputs import build_digest_sql, build_marks_sql
from db.scores.store import activate_scorer, register_scorer

NAME = "million"
SAMPLES_PER_VIDEO = 5
TEXTS = ("references", "keypoints")
MODELS = {"encoder": {"model_id": "benchmark encoder", "revision": "1"}}
# As Dataset.shard_of: the first 64 bits of the key's SHA-256 modulo the number of shards, in two halves.
_HALF = "CAST(CAST('x' || substr(encode(sha256(CAST({key} AS bytea)), 'hex'), {start}, 8) AS bit(32)) AS bigint)"
_HIGH, _LOW = (
    f"((({_HALF} % 4294967296) + 4294967296) % 4294967296)".replace("{start}", str(start)) for start in (1, 9)
)
SHARD = f"CAST(((({_HIGH} % :n_shards) * (4294967296 % :n_shards)) + {_LOW}) % :n_shards AS integer)"
WORDS = "CAST('{a,red,dog,runs,over,the,wet,street,while,two,men,talk,near,an,old,house,and,wave}' AS text[])"
TEXT = (
    "(SELECT string_agg(({words})[1 + (hashint8extended({number} * 31 + w, 7) & 65535) % 18], ' ' ORDER BY w) "
    "FROM generate_series(1, {n_words}) w) || ' ' || {number}"
)
# Of captions that no metric compares, some three times as fast to make.
SAME_TEXT = (
    "'a red dog runs over the wet street while two men talk near an old house and wave ' || (v.video_id * 5 + n)"
)
VIDEOS = """
INSERT INTO video (dataset_id, shard, key, uri, content_sha256, size_bytes, mtime_ns, duration_s, fps, n_frames, width,
                   height, codec, status, row_sha256)
SELECT :dataset_id, {shard}, key, '/clips/of/the/benchmark/' || key || '.mp4', sha256(CAST(key AS bytea)), 1000000 + i,
       1700000000000000000 + i, 10, 30, 300, 640, 360, 'h264', 'ok', sha256(CAST('row ' || key AS bytea))
FROM (SELECT i, 'v' || lpad(CAST(i AS text), 9, '0') AS key FROM generate_series(1, :n_videos) i) made
"""
REFERENCES = """
INSERT INTO reference (dataset_id, video_id, key, annotator, text, text_sha256, row_sha256)
SELECT :dataset_id, video_id, key, 'annotator', text, sha256(CAST(text AS bytea)), sha256(CAST('row ' || key AS bytea))
FROM (SELECT v.video_id, v.key || '_r' || r AS key, {text} AS text
      FROM video v, generate_series(1, 2) r WHERE v.dataset_id = :dataset_id ORDER BY v.video_id, r) made
"""
KEYPOINTS = """
INSERT INTO keypoint (dataset_id, video_id, key, dimension, text, row_sha256)
SELECT dataset_id, video_id, key || '_k', 'segment_detail', 'A dog runs near house ' || video_id,
       sha256(CAST('row ' || key AS bytea))
FROM video WHERE dataset_id = :dataset_id ORDER BY video_id
"""
# The captions of the last system are timed.
SAMPLES = """
INSERT INTO sample (dataset_id, shard, video_id, key, kind, system, text, segments, text_sha256, row_sha256)
SELECT :dataset_id, shard, video_id, key, 'caption', 'system_' || n, text,
       CASE WHEN n = 5 THEN jsonb_build_array(jsonb_build_object('start_s', 0.5, 'end_s', 4.5, 'text', text)) END,
       sha256(CAST(text AS bytea)), sha256(CAST('row ' || key AS bytea))
FROM (SELECT v.shard, v.video_id, v.key || '_s' || n AS key, n, {text} AS text
      FROM video v, generate_series(1, :per_video) n WHERE v.dataset_id = :dataset_id ORDER BY v.video_id, n) made
"""
# The value is a hash of sample and scorer in [0, 1): other machines get the same numbers.
SCORES = """
INSERT INTO score (scorer_id, sample_id, input_sha256, input_marks, value, components, status, error, run_id)
SELECT :scorer_id, sample_id, digest, marks, CASE WHEN is_ok THEN value END,
       jsonb_build_object('precision', round(CAST(value AS numeric), 6), 'recall', 0.5, 'n_references', 2,
                          'reference', sample_id, 'n_chunks', 3, 'chunk_size', 8),
       CASE WHEN is_ok THEN 'ok' ELSE 'undefined' END, CASE WHEN NOT is_ok THEN 'it has no words' END,
       '0a1b2c3d-0000-4000-8000-0123456789ab'
FROM (SELECT s.sample_id, {digest} AS digest, {marks} AS marks,
             (hashint8extended(s.sample_id, CAST(:scorer_id AS bigint)) & 1048575) / 1048576.0 AS value,
             (s.sample_id + :scorer_id) % 50 > 0 AS is_ok
      FROM sample s JOIN video v USING (video_id)
      WHERE s.dataset_id = :dataset_id AND s.shard BETWEEN :first AND :last
      ORDER BY s.shard, s.sample_id) made
"""
VERDICT_SETS = """
INSERT INTO verdict_set (scorer_id, sample_id, input_sha256, status, n_sentences, n_passes, run_id)
SELECT :scorer_id, s.sample_id, {digest}, 'ok', 1, 1, 'benchmark'
FROM sample s JOIN video v USING (video_id)
WHERE s.dataset_id = :dataset_id AND s.shard BETWEEN :first AND :last
ORDER BY s.shard, s.sample_id
"""
VERDICTS = """
INSERT INTO ecs_verdict (scorer_id, sample_id, keypoint_id, probability, sentence_index, sentence, n_passes)
SELECT :scorer_id, s.sample_id, k.keypoint_id, 0.75, 0, s.text, 1
FROM sample s JOIN keypoint k USING (video_id)
WHERE s.dataset_id = :dataset_id AND s.shard BETWEEN :first AND :last
ORDER BY s.shard, s.sample_id
"""
SHARDS_AT_A_TIME = 10
# Metrics whose scores are computed from references or keypoints; without them none are stored.
WITH_TEXTS = {metric for metric, inputs in METRIC_INPUTS.items() for each in inputs if each.name in TEXTS}


@dataclass(frozen=True)
class Filled:
    """The dataset, its scorers by metric, and the seconds that each table took."""

    dataset: Dataset
    scorers: Mapping[str, int]
    seconds: Mapping[str, float]


def fill(engine: Engine, n_samples: int, n_shards: int, metrics: Iterable[str] = METRICS) -> Filled:
    """Fill an empty, migrated database with this many samples, five to a video, all scored by these metrics."""
    taken: dict[str, float] = {}
    with engine.begin() as connection:
        dataset = find_or_create_dataset(connection, NAME, n_shards)
    place = {"dataset_id": dataset.dataset_id, "n_shards": n_shards, "n_videos": n_samples // SAMPLES_PER_VIDEO}
    statements = {
        "video": VIDEOS.replace("{shard}", SHARD.replace("{key}", "key")),
        "reference": REFERENCES.replace("{text}", _text("(v.video_id * 2 + r)", 12)),
        "keypoint": KEYPOINTS,
        "sample": SAMPLES.replace("{text}", _text("(v.video_id * 5 + n)", 16)),
    }
    if not WITH_TEXTS & set(metrics):
        statements = {"video": statements["video"], "sample": SAMPLES.replace("{text}", SAME_TEXT)}
    _write_ahead(engine, "off")
    for name, statement in statements.items():
        with _timed(engine, taken, name) as connection:
            _run(connection, statement, {**place, "per_video": SAMPLES_PER_VIDEO})
    _analyse(engine, taken)
    scorers = _scores(engine, dataset, metrics, taken)
    _analyse(engine, taken)
    _write_ahead(engine, "on")
    return Filled(dataset, scorers, taken)


def _text(number: str, n_words: int) -> str:
    return TEXT.replace("{words}", WORDS).replace("{number}", number).replace("{n_words}", str(n_words))


def _scores(engine: Engine, dataset: Dataset, metrics: Iterable[str], taken: dict[str, float]) -> dict[str, int]:
    scorers = {}
    for metric in metrics:
        with engine.begin() as connection:
            scorers[metric] = register_scorer(connection, metric=metric, models=MODELS, params={}, code_version="1")
    if "ecs" in scorers:
        score_all(engine, dataset, scorers, taken)
    else:
        # As fast as a load goes: all scorers at once, and the indexes behind them.
        each = ({metric: scorer_id} for metric, scorer_id in scorers.items())
        with _indexes_later(engine, taken), ThreadPoolExecutor() as pool:
            list(pool.map(lambda one: score_all(engine, dataset, one, taken), each))
    for scorer_id in scorers.values():
        with engine.begin() as connection:
            activate_scorer(connection, scorer_id, [dataset.dataset_id])
    return scorers


@contextmanager
def _indexes_later(engine: Engine, taken: dict[str, float]) -> Iterator[None]:
    """Leave out the indexes of scores but for their key, and build them at the end."""
    query = sa.text("SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'score' AND indexname LIKE 'ix%'")
    with engine.begin() as connection:
        indexes = dict(connection.execute(query).tuples().all())
        for name in indexes:
            connection.exec_driver_sql(f"DROP INDEX {name}")
    yield
    with _timed(engine, taken, "indexes of score") as connection:
        connection.exec_driver_sql("SET LOCAL maintenance_work_mem = '1GB'")
        for definition in indexes.values():
            connection.exec_driver_sql(definition)


def score_all(engine: Engine, dataset: Dataset, scorers: Mapping[str, int], taken: dict[str, float]) -> None:
    """Store verdicts and a score of every scorer for each sample of a dataset that has none."""
    at_a_time = max(SHARDS_AT_A_TIME, dataset.n_shards // 25)
    for first in range(0, dataset.n_shards, at_a_time):
        place = {"dataset_id": dataset.dataset_id, "first": first, "last": first + at_a_time - 1}
        for metric, scorer_id in scorers.items():
            values = {**place, "scorer_id": scorer_id}
            if metric == "ecs":
                with _timed(engine, taken, "verdict_set") as connection:
                    _run(connection, VERDICT_SETS.replace("{digest}", build_digest_sql(VERDICT_INPUTS)), values)
                with _timed(engine, taken, "ecs_verdict") as connection:
                    _run(connection, VERDICTS, values)
            inputs = METRIC_INPUTS[metric]
            parts = {"{digest}": build_digest_sql(inputs), "{marks}": build_marks_sql(inputs)}
            statement = SCORES.replace("{digest}", parts["{digest}"]).replace("{marks}", parts["{marks}"])
            with _timed(engine, taken, "score") as connection:
                _run(connection, statement, values)


@contextmanager
def _timed(engine: Engine, taken: dict[str, float], name: str) -> Iterator[Connection]:
    started = time.perf_counter()
    with engine.begin() as connection:
        yield connection
    taken[name] = taken.get(name, 0.0) + time.perf_counter() - started
    print(f"{name}: {taken[name]:.0f} s in all", flush=True)


def _write_ahead(engine: Engine, full: str) -> None:
    """Write whole pages ahead, or as a load that may be made again does not: less than half is written then."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for setting in (f"full_page_writes = {full}", f"synchronous_commit = {full}", "max_wal_size = '4GB'"):
            connection.exec_driver_sql(f"ALTER SYSTEM SET {setting}")
        connection.exec_driver_sql("SELECT pg_reload_conf()")


def _run(connection: Connection, statement: str, values: Mapping[str, Any]) -> None:
    text = sa.text(statement)
    connection.execute(text, {name: values[name] for name in text.compile().params})


def _analyse(engine: Engine, taken: dict[str, float]) -> None:
    """What autovacuum does some minutes after a load: statistics, and which pages all transactions see."""
    started = time.perf_counter()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")
        connection.exec_driver_sql("CHECKPOINT")
    taken["vacuum"] = taken.get("vacuum", 0.0) + time.perf_counter() - started
