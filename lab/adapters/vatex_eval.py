"""VATEX-EVAL without media: references, and candidate captions with the ratings of three people.

The file has one JSON object per video: {"video_id": .., "references": [9 texts], "candidates": [{"text": ..,
"ratings": [3 whole numbers from 1 to 5]}, ..]}. Run it as a program:

    python -m lab.adapters.vatex_eval VATEX.jsonl FOLDER --references 9
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel, Field

from lab.adapters.tables import Row, print_counts, read_models, write_tables

N_REFERENCES = 9
RATERS = ("rater_1", "rater_2", "rater_3")
# A rater gave a caption one number. The file does not say which aspect it rates.
ASPECT = "overall"

REMEDY = (
    f"give VATEX-EVAL as one object per video with video_id, {N_REFERENCES} references and candidates with "
    f"{len(RATERS)} whole ratings"
)


class _Candidate(BaseModel):
    text: str
    ratings: list[int] = Field(min_length=len(RATERS), max_length=len(RATERS))


class _Video(BaseModel):
    video_id: str
    references: list[str] = Field(min_length=N_REFERENCES)
    candidates: list[_Candidate]


def convert(source: Path, folder: Path, *, references: int = N_REFERENCES) -> dict[str, int]:
    """Write videos.jsonl, captions.jsonl and ratings.jsonl, and return the numbers of rows.

    A video keeps its first references, as many as `references` says (1 to 9). Ids are `<video>__reference_1` and
    `<video>__candidate_1`, with places from 1. The file does not say who wrote a candidate, so the system is named
    after the place: `candidate_1`.

    Raises ManifestError, before anything is written, for a line of another form than the module describes.
    """
    entries = list(read_models(source, _Video, REMEDY))
    tables: dict[str, list[Row]] = {"videos": [], "captions": [], "ratings": []}
    for entry in entries:
        tables["videos"].append({"video_id": entry.video_id})
        tables["captions"] += _reference_rows(entry.video_id, entry.references[:references])
        for place, candidate in enumerate(entry.candidates, start=1):
            caption, *ratings = _candidate_rows(entry.video_id, f"candidate_{place}", candidate)
            tables["captions"].append(caption)
            tables["ratings"] += ratings
    write_tables(folder, tables)
    return {name: len(rows) for name, rows in tables.items()}


def _reference_rows(video: str, texts: Sequence[str]) -> list[Row]:
    return [
        {"caption_id": f"{video}__reference_{place}", "video_id": video, "role": "reference", "text": text}
        for place, text in enumerate(texts, start=1)
    ]


def _candidate_rows(video: str, system: str, candidate: _Candidate) -> Iterator[Row]:
    """The row of the caption, then the rows of its ratings."""
    key = f"{video}__{system}"
    yield {"caption_id": key, "video_id": video, "role": "candidate", "system": system, "text": candidate.text}
    for rater, value in zip(RATERS, candidate.ratings, strict=True):
        yield {"caption_id": key, "rater": rater, "aspect": ASPECT, "value": value}


def main(
    source: Annotated[Path, typer.Argument(help="VATEX-EVAL as JSON Lines, one video per line.")],
    folder: Annotated[Path, typer.Argument(help="Manifest folder to write.")],
    references: Annotated[
        int, typer.Option(min=1, max=N_REFERENCES, help="References per video; the benchmark takes 1 or 9.")
    ] = N_REFERENCES,
) -> None:
    """Rewrite VATEX-EVAL as a manifest folder."""
    print_counts(lambda: convert(source, folder, references=references))


if __name__ == "__main__":
    typer.run(main)
