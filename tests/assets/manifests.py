"""Manifest folders made for tests, small real videos, and the whole content of a database to compare."""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from assets.ingest.manifest_tables import MANIFEST_TABLES
from db.schema import METADATA

Row = dict[str, Any]

# The names of the manifest's tables by the kind of their rows, in the order of ingest.
TABLE_NAMES = {kind: table.name for kind, table in MANIFEST_TABLES.items()}

_INGESTED = (
    *("dataset", "video", "reference", "keypoint", "sample", "rating", "keypoint_label", "video_embedding"),
    "ingest_reject",
)
_TIMES = {"created_at", "ingested_at", "stored_at", "rewritten_at"}


def candidate(key: str, video: str, text: str, **more: Any) -> Row:
    return {
        "caption_id": key,
        "video_id": video,
        "role": "candidate",
        "system": "sys",
        "text": text,
        **more,
    }


def reference(key: str, video: str, text: str, **more: Any) -> Row:
    return {"caption_id": key, "video_id": video, "role": "reference", "text": text, **more}


def qa(key: str, video: str, question: str = "What is tossed?", answer: str = "A pancake.") -> Row:
    return {"qa_id": key, "video_id": video, "question": question, "answer": answer}


def keypoint(key: str, video: str, **more: Any) -> Row:
    return {
        "keypoint_id": key,
        "video_id": video,
        "dimension": "segment_detail",
        "text": "A pan.",
        **more,
    }


def vector(video: str, *numbers: float, encoder: str = "InternVideo2") -> Row:
    return {"video_id": video, "encoder": encoder, "vector": list(numbers)}


def label(keypoint: str, caption: str, covered: bool = True) -> Row:
    return {"keypoint_id": keypoint, "caption_id": caption, "covered": covered}


def spans(*times: tuple[float, float], texts: Iterable[str | None] = ()) -> list[Row]:
    """Segments of these (start, end) in seconds, the first with the first text and so on."""
    return [{"start_s": start, "end_s": end, "text": text} for (start, end), text in zip_longest(times, texts)]


def rating(caption: str, value: int = 3, rater: str = "r1") -> Row:
    return {"caption_id": caption, "rater": rater, "aspect": "coverage", "value": value}


def write_manifest(folder: Path, videos: Iterable[str | Row] = (), **tables: Iterable[Row]) -> Path:
    """Write a folder of JSON Lines tables; a video given by its name alone is text only."""
    folder.mkdir(exist_ok=True)
    rows = [{"video_id": video} if isinstance(video, str) else video for video in videos]
    unknown = set(tables) - set(TABLE_NAMES.values())
    assert not unknown
    for name, content in {"captions": (), **tables, "videos": rows}.items():
        write_lines(folder / f"{name}.jsonl", content)
    return folder


def write_lines(path: Path, rows: Iterable[Row]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def of_kind(kind: str, *rows: Row) -> list[Row]:
    """Rows as a mixed file has them."""
    return [{"kind": kind, **row} for row in rows]


def write_clip(path: Path, *, n_frames: int = 12, brightness: int = 60, width: int = 32) -> Path:
    """A small real video of noise, whose every frame is a key frame."""
    import av

    noise = np.random.default_rng(brightness)
    path.parent.mkdir(exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mjpeg", rate=Fraction(12))
        stream.width, stream.height = width, 32
        stream.pix_fmt = "yuvj420p"
        for _ in range(n_frames):
            pixels = noise.integers(0, brightness, (32, width, 3), dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def dump(engine: Engine) -> dict[str, list[Row]]:
    """Every row that ingest has written, with its ids; only the time of a refusal is left out."""
    with engine.connect() as connection:
        return {name: _rows(connection, name, leave_out={"ingested_at"}) for name in _INGESTED}


def content(engine: Engine) -> dict[str, list[Row]]:
    """Every row that ingest has written, with keys in the place of the ids that the database gave."""
    with engine.connect() as connection:
        tables = {name: _rows(connection, name, leave_out=_TIMES) for name in _INGESTED}
    names = {
        f"{table}_id": {row[f"{table}_id"]: (row.get("kind"), row.get("key", row.get("name"))) for row in tables[table]}
        for table in ("dataset", "video", "reference", "keypoint", "sample")
    }
    return {
        table: sorted(
            ({c: names[c][value] if c in names else value for c, value in row.items()} for row in rows), key=repr
        )
        for table, rows in tables.items()
    }


def _rows(connection: Connection, name: str, *, leave_out: set[str]) -> list[Row]:
    columns = [column for column in METADATA.tables[name].columns if column.name not in leave_out]
    return sorted((dict(row) for row in connection.execute(sa.select(*columns)).mappings()), key=repr)
