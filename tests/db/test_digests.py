"""Digests that triggers keep on a video, against the same made of its references and keypoints as they are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db import schema
from db.evidence.embeddings import text_sha256
from db.manifest.datasets import Dataset
from db.server.bulk import UpsertCounts, upsert
from db.server.engine import open_psycopg_transaction
from tests.db.builders import add_keypoint, add_reference, add_video, change, make_dataset, remove, wait_for_lock

TIMES = [{"text": "Ein Hund läuft — 犬.", "end_s": 2.5, "start_s": 0}, {"end_s": 4, "start_s": 2.5}]
REFERENCE = ["dataset_id", "video_id", "key", "annotator", "text", "text_sha256", "row_sha256"]

Digests = tuple[bytes | None, bytes | None, bytes | None]


def sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def kept(engine: Engine) -> dict[str, Digests]:
    """By video: the digests of the references' texts, of their times, and of the keypoints."""
    video = schema.video.c
    columns = (video.references_sha256, video.reference_segments_digest, video.keypoints_sha256)
    with engine.connect() as connection:
        return {row[0]: tuple(row[1:]) for row in connection.execute(sa.select(video.key, *columns))}


def made_anew(engine: Engine) -> dict[str, Digests]:
    """The same without SQL."""
    with engine.connect() as connection:
        videos = connection.execute(sa.select(schema.video.c.video_id, schema.video.c.key)).all()
        references = connection.execute(sa.select(schema.reference)).all()
        keypoints = connection.execute(sa.select(schema.keypoint)).all()
    return {
        key: (
            hashed(b"".join(sha256(r.key) + sha256(r.text) for r in ordered(references, video_id))),
            b"".join(sha256(r.key) + sha256(as_json(r.segments)) for r in ordered(references, video_id)) or None,
            hashed(b"".join(keypoint_parts(k) for k in ordered(keypoints, video_id))),
        )
        for video_id, key in videos
    }


def ordered(rows: Sequence[Any], video_id: int) -> list[Any]:
    return sorted((row for row in rows if row.video_id == video_id), key=lambda row: row.key.encode())


def as_json(segments: Any) -> str:
    return "" if segments is None else json.dumps(segments, ensure_ascii=False)


def keypoint_parts(row: Any) -> bytes:
    index = "" if row.segment_index is None else str(row.segment_index)
    return b"".join(map(sha256, (row.key, row.dimension, row.text, index)))


def hashed(content: bytes) -> bytes | None:
    return hashlib.sha256(content).digest() if content else None


@dataclass
class Videos:
    """Three videos: with two references and two keypoints, with one of each, with none."""

    engine: Engine
    dataset: Dataset
    ids: list[int]
    references: list[int]
    keypoints: list[int]


@pytest.fixture
def videos(engine: Engine) -> Videos:
    clips = make_dataset(engine)
    ids = [add_video(engine, clips, key) for key in ("two", "one", "none")]
    references = [
        add_reference(engine, clips, ids[0], "r9", "A dog runs.", segments=TIMES),
        add_reference(engine, clips, ids[0], "r10", "ça — 犬"),
        add_reference(engine, clips, ids[1], "é", "A cat sleeps.", segments=TIMES[:1]),
    ]
    keypoints = [
        add_keypoint(engine, clips, ids[0], "k9", segment_index=1),
        add_keypoint(engine, clips, ids[0], "K10", "camera", "It pans — 犬."),
        add_keypoint(engine, clips, ids[1], "k", text=""),
    ]
    return Videos(engine, clips, ids, references, keypoints)


def test_an_insert(videos: Videos) -> None:
    found = kept(videos.engine)
    assert found == made_anew(videos.engine)
    assert found["none"] == (None, None, None)
    assert None not in {*found["two"], *found["one"]}


def text_of(text: str) -> dict[str, Any]:
    return {"text": text, "text_sha256": text_sha256(text)}


CHANGES: dict[str, Callable[[Videos], None]] = {
    "text of a reference": lambda v: change(v.engine, schema.reference, v.references[0], **text_of("A cat.")),
    "times of a reference": lambda v: change(v.engine, schema.reference, v.references[1], segments=TIMES[1:]),
    "key of a reference": lambda v: change(v.engine, schema.reference, v.references[0], key="R"),
    "video of a reference": lambda v: change(v.engine, schema.reference, v.references[0], video_id=v.ids[1]),
    "video of the only reference": lambda v: change(v.engine, schema.reference, v.references[2], video_id=v.ids[2]),
    "one reference less": lambda v: remove(v.engine, schema.reference, v.references[1]),
    "the only reference less": lambda v: remove(v.engine, schema.reference, v.references[2]),
    "text of a keypoint": lambda v: change(v.engine, schema.keypoint, v.keypoints[0], text="It rains."),
    "key of a keypoint": lambda v: change(v.engine, schema.keypoint, v.keypoints[0], key="A"),
    "dimension of a keypoint": lambda v: change(v.engine, schema.keypoint, v.keypoints[0], dimension="camera"),
    "segment of a keypoint": lambda v: change(v.engine, schema.keypoint, v.keypoints[0], segment_index=None),
    "video of a keypoint": lambda v: change(v.engine, schema.keypoint, v.keypoints[1], video_id=v.ids[2]),
    "the only keypoint less": lambda v: remove(v.engine, schema.keypoint, v.keypoints[2]),
}


def test_a_change(videos: Videos) -> None:
    before = kept(videos.engine)
    for name, make in CHANGES.items():
        make(videos)
        after = kept(videos.engine)
        assert after != before, name
        assert after == made_anew(videos.engine), name
        before = after


@pytest.mark.parametrize("table", [schema.video, schema.dataset])
def test_a_deletion_that_takes_them_along(videos: Videos, table: sa.Table) -> None:
    other = make_dataset(videos.engine, "other")
    add_reference(videos.engine, other, add_video(videos.engine, other, "elsewhere"), "r", "It rains.")
    remove(videos.engine, table, videos.ids[0] if table is schema.video else videos.dataset.dataset_id)
    found = kept(videos.engine)
    assert set(found) == ({"one", "none", "elsewhere"} if table is schema.video else {"elsewhere"})
    assert found == made_anew(videos.engine)


def test_one_statement_over_rows_of_several_videos(videos: Videos) -> None:
    with videos.engine.begin() as connection:
        connection.execute(sa.update(schema.reference).values(**text_of("The same everywhere.")))
        connection.execute(sa.update(schema.keypoint).values(video_id=videos.ids[2]))
    assert kept(videos.engine) == made_anew(videos.engine)
    with videos.engine.begin() as connection:
        connection.execute(sa.delete(schema.reference))
        connection.execute(sa.delete(schema.keypoint))
    assert kept(videos.engine) == dict.fromkeys(("two", "one", "none"), (None, None, None))


def write_references(engine: Engine, dataset: Dataset, texts: dict[tuple[int, str], str]) -> UpsertCounts:
    """As ingest writes them: new ones and changed ones in one statement."""
    rows = [
        (dataset.dataset_id, video_id, key, "ann", text, text_sha256(text), text_sha256(text))
        for (video_id, key), text in texts.items()
    ]
    with open_psycopg_transaction(engine) as connection:
        return upsert(connection, schema.reference, REFERENCE, rows, compare=["video_id", "text", "text_sha256"])


def test_an_upsert_of_new_changed_and_unchanged_rows(videos: Videos) -> None:
    _, one, none = videos.ids
    texts = {(one, "r9"): "It moved.", (none, "new"): "A dog.", (one, "é"): "A cat sleeps."}
    assert write_references(videos.engine, videos.dataset, texts) == UpsertCounts(1, 1, 1)
    assert kept(videos.engine) == made_anew(videos.engine)


def test_what_enters_no_digest_leaves_the_videos_row_alone(videos: Videos) -> None:
    query = sa.text("SELECT key, CAST(xmin AS text) FROM video ORDER BY key")
    with videos.engine.connect() as connection:
        before = connection.execute(query).all()
    change(videos.engine, schema.reference, videos.references[0], annotator="another", row_sha256=b"new")
    change(videos.engine, schema.keypoint, videos.keypoints[0], extra={"note": "checked"})
    with videos.engine.connect() as connection:
        assert connection.execute(query).all() == before


@pytest.mark.parametrize("table", [schema.reference, schema.keypoint])
def test_two_connections_that_write_for_one_video_at_once(videos: Videos, table: sa.Table) -> None:
    """The later one waits, and its digest holds the rows of both."""
    engine, dataset, video_id = videos.engine, videos.dataset, videos.ids[0]

    def other() -> int:
        if table is schema.reference:
            return add_reference(engine, dataset, video_id, "later", "It rains.")
        return add_keypoint(engine, dataset, video_id, "later")

    row = videos.references[0] if table is schema.reference else videos.keypoints[0]
    (key,) = table.primary_key.columns
    with ThreadPoolExecutor(1) as pool, engine.connect() as first:
        with first.begin():
            first.execute(sa.update(table).where(key == row).values(key="first"))
            second = pool.submit(other)
            wait_for_lock(engine, second)
            assert not second.done()
        second.result()
    assert kept(engine) == made_anew(engine)
