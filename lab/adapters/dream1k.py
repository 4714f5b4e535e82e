"""DREAM-1K without media: a caption by a person and a checklist of events for every clip. There are no references.

The file has one JSON object per clip: {"idx": .., "dataset": .., "messages": [the request, the answer, whose first
content has the caption as its `reference`], "extra_info": {"duration": seconds, "events": [..]}}. Run it as a program:

    python -m lab.adapters.dream1k DREAM-1k.jsonl FOLDER
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel, Field

from lab.adapters.tables import Row, print_counts, read_models, write_tables

DIMENSION = "events"
REMEDY = "give one object per clip with idx, dataset, a request and an answer as messages, and extra_info with events"


class _Content(BaseModel):
    reference: str


class _Answer(BaseModel):
    content: list[_Content] = Field(min_length=1)


class _Info(BaseModel):
    duration: float
    events: list[str]


class _Clip(BaseModel):
    idx: int
    dataset: str
    messages: tuple[Any, _Answer]
    extra_info: _Info

    @property
    def caption(self) -> str:
        """The caption that a person wrote."""
        return self.messages[1].content[0].reference


def convert(source: Path, folder: Path) -> dict[str, int]:
    """Write videos, captions, keypoints and dimensions.json, and return the numbers of rows.

    Events become keypoints of dimension "events". A clip has two candidates. System `human` is the person's caption.
    System `other_clip` is a negative control: the person's caption of the next clip of the same `dataset`, named in the
    field `negative_control`. The last clip of a dataset takes the caption of the first; the only clip of a dataset has
    no control. Ids are `<idx>__human`, `<idx>__other_clip` and `<idx>__<place>`, with places from 1.

    Raises ManifestError, before anything is written, for a line of another form than the module describes.
    """
    clips = list(read_models(source, _Clip, REMEDY))
    by_dataset: dict[str, list[_Clip]] = {}
    for clip in clips:
        by_dataset.setdefault(clip.dataset, []).append(clip)
    tables = {
        "videos": [_video_row(clip) for clip in clips],
        "captions": [row for members in by_dataset.values() for row in _caption_rows(members)],
        "keypoints": [row for clip in clips for row in _keypoint_rows(clip)],
    }
    write_tables(folder, tables, [DIMENSION])
    return {name: len(rows) for name, rows in tables.items()}


def _video_row(clip: _Clip) -> Row:
    return {"video_id": str(clip.idx), "duration_s": clip.extra_info.duration, "dataset": clip.dataset}


def _caption_rows(clips: Sequence[_Clip]) -> Iterator[Row]:
    for clip, following in zip(clips, [*clips[1:], clips[0]], strict=True):
        yield _caption_row(clip, "human", clip.caption)
        if following is not clip:
            control = f"the human caption of clip {following.idx}"
            yield {**_caption_row(clip, "other_clip", following.caption), "negative_control": control}


def _caption_row(clip: _Clip, system: str, text: str) -> Row:
    return {
        "caption_id": f"{clip.idx}__{system}",
        "video_id": str(clip.idx),
        "role": "candidate",
        "system": system,
        "text": text,
    }


def _keypoint_rows(clip: _Clip) -> Iterator[Row]:
    for place, event in enumerate(clip.extra_info.events, start=1):
        yield {
            "keypoint_id": f"{clip.idx}__{place}",
            "video_id": str(clip.idx),
            "dimension": DIMENSION,
            "text": event,
        }


def main(
    source: Annotated[Path, typer.Argument(help="DREAM-1K as JSON Lines, one clip per line.")],
    folder: Annotated[Path, typer.Argument(help="Manifest folder to write.")],
) -> None:
    """Rewrite DREAM-1K as a manifest folder."""
    print_counts(lambda: convert(source, folder))


if __name__ == "__main__":
    typer.run(main)
