"""Writes tasks for Label Studio: a JSON list with a task for every row, whose scores are predictions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO
from urllib.parse import quote

from assets.media.address import is_address
from assets.selection.export_input import Batch
from assets.selection.formats.json_lines import build_row_objects
from db.selection.exports import ExportColumn

# Where a server of Label Studio has the files below its LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT.
LOCAL_FILES_PREFIX = "/data/local-files/?d="


def write_label_studio(file: BinaryIO, columns: Sequence[ExportColumn], batches: Iterable[Batch]) -> None:
    """Write rows to a binary file as a JSON list of Label Studio tasks in UTF-8, one for every row. The scores of a row
    are its predictions; the system is left out, since a rater must not see it. Local videos get addresses below the
    folder that Label Studio serves files from. The format is that of labelstud.io/guide/predictions.
    """
    names = {column.name for column in columns}
    metrics = [name for name in names if f"{name}_models" in names]
    separator = "[\n"
    for batch in batches:
        for row in build_row_objects(columns, batch):
            file.write(f"{separator}{json.dumps(_build_task(row, sorted(metrics)), ensure_ascii=False)}".encode())
            separator = ",\n"
    file.write(b"[]\n" if separator == "[\n" else b"\n]\n")


def _build_task(row: dict[str, Any], metrics: Sequence[str]) -> dict[str, Any]:
    """Build the task of a row. Text and media do not name the system, which a rater must not see; `sample` identifies
    the caption.
    """
    data = {
        "video": _format_media_address(row["media"]),
        "text": row["text"],
        "references": "\n".join(row["references"] or []),
        "dataset": row["dataset"],
        "sample": row["sample"],
    }
    return {
        "data": {name: value for name, value in data.items() if value is not None},
        "predictions": [
            {"model_version": f"{metric}: {row[f'{metric}_models']}", "score": row[metric], "result": []}
            for metric in metrics
            if row[metric] is not None
        ],
    }


def _format_media_address(media: str | None) -> str | None:
    """Return the address of a file for the server: web addresses stay, relative paths become those below the server's
    root.
    """
    return media if media is None or is_address(media) else f"{LOCAL_FILES_PREFIX}{quote(media)}"
