"""The command export: writes a frozen selection for training, for a spreadsheet or for others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from orchestration.cli.output import AsJson, console, print_json, show_progress
from orchestration.cli.pass_installation import pass_installation

if TYPE_CHECKING:
    from orchestration.installation import Installation

# The values of ExportFormat, which is imported late.
Format = Literal["parquet", "jsonl", "csv", "label-studio", "keys", "webdataset", "hf"]


@pass_installation
def export(
    installation: Installation,
    selection: Annotated[int, typer.Argument(help="Number of the selection.")],
    to: Annotated[Path, typer.Option(help="File to create; for webdataset and hf, folder to create.")],
    format: Annotated[
        Format | None,
        typer.Option(help="Format of the file (default: by the ending .parquet, .jsonl, .csv, .json or .keys)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a frozen selection to files for training, with a passport: whole or not at all. Nothing is overwritten."""
    from assets.selection.export import export_selection
    from assets.selection.export_target import ExportFormat
    from assets.words.text import format_count

    with show_progress() as tell:
        done = export_selection(installation.engine, selection, to, ExportFormat(format) if format else None, tell=tell)
    if as_json:
        answer = {"selection_id": selection, "path": str(done.path), "format": done.form.value, "rows": done.rows}
        print_json({**answer, "media_root": done.media_root})
        return
    console.print(f"{format_count(done.rows, 'row')} written to {done.path}")
    if done.media_root:
        console.print(f"media addresses are relative to {done.media_root}")
