"""Short ways to put datasets, videos, samples and scores into a real database."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Engine

from assets.metrics.registry import METRIC_INPUTS
from db import schema
from db.evidence.embeddings import TextVector, store_text_vectors, text_sha256
from db.evidence.frames import StoredFrames, make_empty_features, store_frames
from db.evidence.vector_files import FOLDER_OPTION, VectorFolder
from db.manifest.datasets import Dataset, find_or_create_dataset
from db.schema.inputs import Input
from db.schema.views import create_views
from db.scores.keypoint_decisions import LABEL_METHOD
from db.scores.pending import load_samples
from db.scores.store import ScoreRow, register_scorer, store_scores
from db.scores.thresholds import store_thresholds
from db.server.bulk import UpsertCounts

INPUT = hashlib.sha256(b"whatever the scorer looked at").digest()
# What views show of two metrics.
TWO_METRICS = {metric: METRIC_INPUTS[metric] for metric in ("vcs", "evqa")}


def make_dataset(engine: Engine, name: str = "clips", n_shards: int = 1) -> Dataset:
    with engine.begin() as connection:
        return find_or_create_dataset(connection, name, n_shards)


def make_dataset_of_two_metrics(engine: Engine) -> Dataset:
    """Create an empty dataset, and the views as they are where `TWO_METRICS` are the only ones."""
    with engine.begin() as connection:
        create_views(connection, TWO_METRICS)
    return make_dataset(engine)


def add_video(
    engine: Engine, dataset: Dataset, key: str, *, content: bytes | None = None, status: str = "ok", **columns: Any
) -> int:
    """The id of a new video whose file has these bytes, in the shard where ingest would put it."""
    row = {
        "dataset_id": dataset.dataset_id,
        "shard": dataset.compute_shard(key),
        "key": key,
        "uri": f"media/{key}.mp4",
        "content_sha256": None if content is None else hashlib.sha256(content).digest(),
        "identity": None if content is None else "sha256",
        "duration_s": 4.0,
        "status": status,
        "row_sha256": text_sha256(key),
        **columns,
    }
    return _insert(engine, schema.video, row)


def add_reference(engine: Engine, dataset: Dataset, video_id: int, key: str, text: str, **columns: Any) -> int:
    row = {
        "dataset_id": dataset.dataset_id,
        "video_id": video_id,
        "key": key,
        "annotator": "ann",
        "text": text,
        "text_sha256": text_sha256(text),
        "row_sha256": text_sha256(text),
        **columns,
    }
    return _insert(engine, schema.reference, row)


def add_keypoint(
    engine: Engine,
    dataset: Dataset,
    video_id: int,
    key: str,
    dimension: str = "events",
    text: str = "A dog runs.",
    segment_index: int | None = None,
) -> int:
    row = {
        "dataset_id": dataset.dataset_id,
        "video_id": video_id,
        "key": key,
        "dimension": dimension,
        "text": text,
        "segment_index": segment_index,
        "row_sha256": text_sha256(key),
    }
    return _insert(engine, schema.keypoint, row)


def add_label(engine: Engine, keypoint_id: int, sample_id: int, covered: bool, source: str = "manifest") -> None:
    row = {"keypoint_id": keypoint_id, "sample_id": sample_id, "source": source, "covered": covered}
    with engine.begin() as connection:
        connection.execute(schema.keypoint_label.insert().values(**row, row_sha256=b"row"))


def labels_by_source(engine: Engine) -> dict[str, int]:
    """How many labels of each source there are."""
    source = schema.keypoint_label.c.source
    with engine.connect() as connection:
        return dict(map(tuple, connection.execute(sa.select(source, sa.func.count()).group_by(source))))


def add_sample(
    engine: Engine, dataset: Dataset, video_id: int, key: str, text: str = "a dog runs", **columns: Any
) -> int:
    """The id of a new caption, or with kind="qa" a QA pair, in its video's shard."""
    with engine.connect() as connection:
        shard = connection.scalar(sa.select(schema.video.c.shard).where(schema.video.c.video_id == video_id))
    row = {
        "dataset_id": dataset.dataset_id,
        "shard": shard,
        "video_id": video_id,
        "key": key,
        "kind": "caption",
        "system": "brief",
        "text": text,
        "text_sha256": text_sha256(text),
        "row_sha256": text_sha256(key + text),
        **columns,
    }
    return _insert(engine, schema.sample, row)


def change_text(engine: Engine, sample_id: int, text: str) -> None:
    changed = sa.update(schema.sample).where(schema.sample.c.sample_id == sample_id)
    with engine.begin() as connection:
        connection.execute(changed.values(text=text, text_sha256=text_sha256(text)))


def change(engine: Engine, table: sa.Table, row_id: int, **values: Any) -> None:
    """Set columns of the row with this id."""
    (key,) = table.primary_key.columns
    with engine.begin() as connection:
        connection.execute(sa.update(table).where(key == row_id).values(**values))


def remove(engine: Engine, table: sa.Table, row_id: int) -> None:
    """Delete the row with this id, and all that hangs on it."""
    (key,) = table.primary_key.columns
    with engine.begin() as connection:
        connection.execute(sa.delete(table).where(key == row_id))


def activate(engine: Engine, metric: str = "vcs", version: str = "1") -> int:
    """The id of the metric's scorer of this version, which becomes the active one, whatever it has scored."""
    scorer_id = register(engine, metric, version)
    of_metric, this = schema.scorer.c.metric == metric, schema.scorer.c.scorer_id == scorer_id
    with engine.begin() as connection:
        active = sa.and_(of_metric, schema.scorer.c.status == "active")
        connection.execute(sa.update(schema.scorer).where(active).values(status="retired"))
        connection.execute(sa.update(schema.scorer).where(this).values(status="active"))
    return scorer_id


def register(engine: Engine, metric: str = "vcs", version: str = "1") -> int:
    """The id of the metric's scorer of this version, which stays what it is, or is a candidate when it is new."""
    models = {"encoder": {"model_id": "tiny"}}
    with engine.begin() as connection:
        return register_scorer(connection, metric=metric, models=models, params={}, code_version=version)


def ok(sample_id: int, value: float) -> ScoreRow:
    """A score of inputs that no sample has: `write_fresh` puts in those that it has."""
    return ScoreRow(sample_id, INPUT, {}, value, {}, "ok", None)


def undefined(sample_id: int, status: str = "undefined") -> ScoreRow:
    """The same without a value."""
    return ScoreRow(sample_id, INPUT, {}, None, {}, status, f"{status} for a reason")


def write_fresh(
    engine: Engine,
    scorer_id: int,
    rows: Sequence[ScoreRow],
    inputs: Collection[Input[Any]] | None = None,
    run_id: str = "run",
) -> UpsertCounts:
    """Store these scores as made of what their samples are now; inputs: by default those of the scorer's metric."""
    with engine.connect() as connection:
        metric = connection.scalar(sa.select(schema.scorer.c.metric).where(schema.scorer.c.scorer_id == scorer_id))
        chosen = inputs or METRIC_INPUTS[str(metric)]
        samples = load_samples(connection, [row.sample_id for row in rows], chosen, scorer_id)
    now = {sample.sample_id: sample for sample in samples}
    fresh = [
        replace(row, input_sha256=now[row.sample_id].input_sha256, input_marks=now[row.sample_id].input_marks)
        for row in rows
    ]
    return store_scores(engine, scorer_id, run_id, fresh)


def set_scores(engine: Engine, values: Mapping[int, float | None], metric: str = "vcs", version: str = "1") -> int:
    """Store these values (None: undefined), of present inputs, under the metric's scorer of this version; its id."""
    scorer_id = activate(engine, metric, version)
    rows = [undefined(i) if value is None else ok(i, value) for i, value in values.items()]
    write_fresh(engine, scorer_id, rows)
    return scorer_id


def store_threshold(
    connection: sa.Connection, *, scorer_id: int, dataset_id: int, method: str, objective: str, value: float, n: int
) -> None:
    """Store one cut of a dataset in place of all others of the same method."""
    row = score_threshold_row(objective, value, n, n)
    store_thresholds(connection, schema.score_threshold, scorer_id, dataset_id, method, [row])


def score_threshold_row(
    objective: str, at_least: float, n: int, n_kept: int, *, shard: int | None = None, kind: str = "caption"
) -> dict[str, Any]:
    """A row of table score_threshold, without its scorer, dataset and method."""
    return {"shard": shard, "kind": kind, "objective": objective, "at_least": at_least, "n": n, "n_kept": n_kept}


def keypoint_threshold_row(
    dimension: str,
    threshold: float,
    n: int = 9,
    n_positive: int = 3,
    objective: str = "f1",
    shard: int | None = None,
    **details: Any,
) -> dict[str, Any]:
    """A row of table keypoint_threshold, without its scorer, dataset and method."""
    place, counts = {"shard": shard, "dimension": dimension}, {"n": n, "n_positive": n_positive}
    return {**place, "objective": objective, "threshold": threshold, **counts, "details": details}


def store_label_thresholds(
    connection: sa.Connection, scorer_id: int, dataset_id: int, rows: Sequence[dict[str, Any]]
) -> None:
    """Store these rows of table keypoint_threshold in place of all others that were chosen on labels."""
    store_thresholds(connection, schema.keypoint_threshold, scorer_id, dataset_id, LABEL_METHOD, rows)


def put_label_thresholds(engine: Engine, scorer_id: int, dataset: Dataset, **cuts: float) -> None:
    """Store these cuts, by dimension, in place of all others that the scorer has on the dataset's keypoints."""
    rows = [keypoint_threshold_row(dimension, cut) for dimension, cut in cuts.items()]
    with engine.begin() as connection:
        store_label_thresholds(connection, scorer_id, dataset.dataset_id, rows)


def empty(engine: Engine) -> None:
    """Remove every row, so that each example of a property starts anew."""
    with engine.begin() as connection:
        # What the views are is no row of an example.
        names = ", ".join(name for name in schema.METADATA.tables if name != schema.view_definition.name)
        connection.exec_driver_sql(f"TRUNCATE {names} RESTART IDENTITY CASCADE")


def wait_for_lock(engine: Engine, other: Future[Any]) -> None:
    """Return once another connection waits for a lock (or has ended), asking the server over and over."""
    waiting = sa.text(
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' LIMIT 1"
    )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        while not other.done() and connection.scalar(waiting) is None:
            pass


def _insert(engine: Engine, table: sa.Table, row: Mapping[str, Any]) -> int:
    (key,) = table.primary_key.columns
    with engine.begin() as connection:
        new_id = connection.scalar(table.insert().values(row).returning(key))
    assert isinstance(new_id, int)
    return new_id


def write_vectors_to(engine: Engine, place: Path) -> Engine:
    """The engine, which from now on writes vectors into files of this folder."""
    engine.update_execution_options(**{FOLDER_OPTION: VectorFolder(str(place), is_written=True)})
    return engine


def store_vectors(engine: Engine, model_id: int, texts: Iterable[str], vectors: NDArray[np.float32]) -> int:
    """Store the vectors of texts, each read at once; how many were new."""
    return store_text_vectors(engine, model_id, dict(zip(texts, map(TextVector, vectors), strict=True)))


def store_frame_rows(engine: Engine, model_id: int, rows: Iterable[Mapping[str, Any]]) -> int:
    """Store the frames of videos: rows with the columns of `frame_set`, and "frames" with index, time and feature."""
    stored = {}
    for row in rows:
        indices, times_s, features = zip(*row["frames"], strict=True) if row["frames"] else ((), (), ())
        stacked = np.stack(features) if features else make_empty_features()
        facts = (row["status"], row["error"], stacked, times_s, indices, row["n_frames"], row["reader"])
        stored[row["video_id"], row["content_sha256"]] = StoredFrames(*facts)
    return store_frames(engine, model_id, stored)
