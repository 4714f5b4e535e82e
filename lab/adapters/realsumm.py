"""REALSumm's checklist: people's votes on which statements a summary covers. There are no media and no references.

The file has one JSON object per summary: {"system": .., "doc": .., "text": .., "keypoints": [{"scu": .., "text": ..,
"votes": [0 or 1 per voter], "present": 0 or 1}, ..]}; all summaries of a document have its statements. Run it as a
program:

    python -m lab.adapters.realsumm CHECKLIST.jsonl FOLDER
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import BaseModel

from assets.ingest.rejects import ManifestError
from lab.adapters.tables import Row, print_counts, read_models, write_tables

DIMENSION = "statement"
REMEDY = "give one object per summary with system, doc, text and keypoints, each with scu, text, votes and present"


class _Statement(BaseModel):
    scu: str
    text: str
    votes: list[Literal[0, 1]]
    present: Literal[0, 1] | None

    @property
    def is_tied(self) -> bool:
        """Whether as many voters said 0 as said 1. The file has `present` 0 then."""
        return 2 * sum(self.votes) == len(self.votes)


class _Summary(BaseModel):
    system: str
    doc: str
    text: str
    keypoints: list[_Statement]


def convert(source: Path, folder: Path) -> dict[str, int]:
    """Write videos, captions, keypoints, keypoint_labels and dimensions.json, and return the numbers of rows.

    A document becomes a video without a path, its statements become keypoints of dimension "statement", and its
    summaries become candidate captions. A label is the majority of the votes, which stay in its field `votes`. A
    statement without a majority has no label; `ties` counts such statements. Ids are `<doc>__<system>` and
    `<doc>__<scu>`.

    Raises ManifestError, before anything is written, for a line of another form than the module describes, and for a
    statement that has two texts.
    """
    documents: dict[str, Row] = {}
    captions: list[Row] = []
    statements: dict[str, Row] = {}
    labels: list[Row] = []
    ties = 0
    for summary in read_models(source, _Summary, REMEDY):
        documents[summary.doc] = {"video_id": summary.doc}
        captions.append(_caption_row(summary))
        for statement in summary.keypoints:
            row = _keypoint_row(summary.doc, statement)
            if statements.setdefault(row["keypoint_id"], row) != row:
                raise ManifestError(f"{source.name}, keypoint {row['keypoint_id']}: it has two texts: keep one of them")
            if statement.present is None or statement.is_tied:
                ties += 1
            else:
                labels.append(_label_row(row, captions[-1], statement))
    tables = {
        "videos": list(documents.values()),
        "captions": captions,
        "keypoints": list(statements.values()),
        "keypoint_labels": labels,
    }
    write_tables(folder, tables, [DIMENSION])
    return {**{name: len(rows) for name, rows in tables.items()}, "ties": ties}


def _caption_row(summary: _Summary) -> Row:
    return {
        "caption_id": f"{summary.doc}__{summary.system}",
        "video_id": summary.doc,
        "role": "candidate",
        "system": summary.system,
        "text": summary.text,
    }


def _keypoint_row(document: str, statement: _Statement) -> Row:
    return {
        "keypoint_id": f"{document}__{statement.scu}",
        "video_id": document,
        "dimension": DIMENSION,
        "text": statement.text,
    }


def _label_row(keypoint: Row, caption: Row, statement: _Statement) -> Row:
    return {
        "keypoint_id": keypoint["keypoint_id"],
        "caption_id": caption["caption_id"],
        "covered": statement.present == 1,
        "votes": statement.votes,
    }


def main(
    source: Annotated[Path, typer.Argument(help="REALSumm's checklist as JSON Lines, one summary per line.")],
    folder: Annotated[Path, typer.Argument(help="Manifest folder to write.")],
) -> None:
    """Rewrite REALSumm's checklist as a manifest folder."""
    print_counts(lambda: convert(source, folder))


if __name__ == "__main__":
    typer.run(main)
