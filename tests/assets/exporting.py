"""A small selection with everything that an export carries: media, references, own fields, texts of every kind."""

from __future__ import annotations

import hashlib
import json
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Engine

from assets.media.file_state import FileState
from assets.metrics.registry import METRICS
from db import schema
from db.manifest.datasets import Dataset
from db.manifest.remarks import Remark, store_remarks
from db.selection.recipes import parse_recipe
from tests.conftest import PROJECT
from tests.db.builders import add_reference, add_sample, add_video, change, make_dataset, set_scores
from tests.db.freezing import freeze_recipe

# Texts that a spreadsheet, a reader of CSV or of JSON could take for something else.
TEXTS = (
    "A dog runs.",
    '=HYPERLINK("http://example.org"; "click")',
    "+1 and -1, @home",
    "- a list\n- of two\r\nlines",
    "'quoted' and \"quoted\"",
    "one; =1+1\t=2",
    "\tindented",
    "犬が走る, ＝１ \u2028 ü",
    "",
    "NULL",
    "0123",
    "true",
)
# The columns of an export before those of the metrics.
ORDER = [
    "rank",
    "value",
    "dataset",
    "kind",
    "sample",
    "system",
    "video",
    "media",
    "duration_s",
    "content_sha256",
    "licence",
    "source_url",
    "text",
    "question",
    "answer",
    "collected_at",
    "opt_out",
    "segments",
    "references",
    "tags",
    "extra",
    "video_extra",
]


@dataclass(frozen=True, slots=True)
class Clips:
    """A dataset with a selection of all its samples, best first in the order of TEXTS."""

    dataset: Dataset
    selection_id: int
    media: Path
    samples: tuple[int, ...]
    videos: tuple[int, ...]


def media_bytes(number: int) -> bytes:
    """The content of a video's file: any bytes will do, an export decodes none."""
    return f"video {number} ".encode() * (1000 + number)


def make_clips(engine: Engine, media: Path) -> Clips:
    """Store a sample of a video of its own for each text, with files in two folders below `media`."""
    clips = make_dataset(engine)
    samples, videos = [], []
    for number, text in enumerate(TEXTS):
        folder = media / ("odd" if number % 2 else "even")
        folder.mkdir(exist_ok=True)
        path = folder / f"clip {number}.MP4"
        path.write_bytes(media_bytes(number))
        video = add_video(engine, clips, f"v{number}", content=media_bytes(number))
        state = FileState.build_from_stat(path.stat())
        columns = {
            "uri": str(path),
            "size_bytes": state.size_bytes,
            "mtime_ns": state.mtime_ns,
            "duration_s": number + 0.1,
        }
        columns |= origin(number)
        change(engine, schema.video, video, **columns, extra={"camera": number} if number % 3 == 0 else None)
        for annotator in ("b", "a")[: number % 3]:
            add_reference(engine, clips, video, f"v{number}_{annotator}", f"={annotator} says {text!r}")
            # Equal references are one in an export.
            add_reference(engine, clips, video, f"v{number}_{annotator}_again", f"={annotator} says {text!r}")
        sample = add_sample(engine, clips, video, f"s.{number}/x", text, **_of_sample(number))
        samples.append(sample)
        videos.append(video)
    with engine.begin() as connection:
        tags = [Remark(samples[1], "tag", text, "ann") for text in ("in two\nlines", "=good")]
        store_remarks(connection, clips, [*tags, Remark(samples[1], "note", "no tag", "ann")])
    set_scores(engine, {sample: 1 - place / 10 for place, sample in enumerate(samples)})
    set_scores(engine, dict.fromkeys(samples[:3]), metric="evqa")
    with engine.begin() as connection:
        rule = parse_recipe({"by": "vcs", "keep": 1, "kind": "all", "where": "system != '; \"--'"})
        chosen = freeze_recipe(connection, clips, rule)
    return Clips(clips, chosen.selection_id, media, tuple(samples), tuple(videos))


def _of_sample(number: int) -> dict[str, object]:
    if number == 2:
        return {"kind": "qa", "question": "+why?", "answer": "-because"}
    if number == 3:
        return {"segments": [{"start_s": 0.5, "end_s": 2, "text": "=a"}]}
    return {"extra": {"source": "=web", "tags": ["a", None, 1.5]}} if number == 1 else {}


@contextmanager
def files_of_at_most(n_bytes: int) -> Iterator[None]:
    """As on a full disk: no file that this process writes may be longer."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def origin(number: int) -> dict[str, Any]:
    """The origin of a video: of all but the first, some without a licence."""
    if number == 0:
        return dict.fromkeys(("licence", "source_url", "collected_at", "opt_out"))
    return {
        "licence": "=CC-BY-4.0" if number % 2 else None,
        "source_url": f"https://clips.example/{number}?v=1",
        "collected_at": f"2026-05-0{number % 9 + 1}",
        "opt_out": number == 2,
    }


def sha256(number: int) -> str:
    """Of a video's file."""
    return hashlib.sha256(media_bytes(number)).hexdigest()


def from_table(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows with the JSON of tables as objects."""
    of_json = ("segments", "extra", "video_extra")
    return [row | {name: json.loads(row[name]) for name in of_json if row[name] is not None} for row in rows]


def read_documented(chapter: str) -> dict[str, Any]:
    """What the examples in a chapter of docs/export.md define, by name."""
    page = (PROJECT / "docs" / "export.md").read_text(encoding="utf-8").split(f"## {chapter}\n")[1]
    blocks = re.findall(r"^```python\n(.*?)^```", page.split("\n## ")[0], flags=re.MULTILINE | re.DOTALL)
    scope: dict[str, Any] = {}
    exec("\n".join(blocks), scope)
    return scope


def from_cell(name: str, cell: str) -> Any:
    """The value of a cell as docs/export.md describes it."""
    if name in ("rank", "value", "duration_s", *METRICS):
        return (int if name == "rank" else float)(cell) if cell else None
    if name == "opt_out":
        return {"": None, "true": True, "false": False}[cell]
    text = re.sub(r"(^|[;\t\r\n])'", r"\1", cell)
    if name in ("segments", "references", "tags", "extra", "video_extra"):
        return json.loads(text) if text else None
    return text if text or name == "text" else None
