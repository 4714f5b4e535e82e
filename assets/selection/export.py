"""Exports a selection to a file or a folder, which is written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sqlalchemy.engine import Engine

from assets.progress import LineWriter
from assets.selection.export_input import Batch, ExportInput, load_export_input, require_all_rows
from assets.selection.export_target import (
    PASSPORT_SUFFIX,
    RANGES_SUFFIX,
    ExportFormat,
    build_write_error,
    choose_format,
    require_export_target,
)
from assets.selection.formats.hugging_face import write_hugging_face
from assets.selection.formats.json_lines import write_json_lines
from assets.selection.formats.label_studio import write_label_studio
from assets.selection.formats.parquet import write_parquet
from assets.selection.formats.shard_keys import write_shard_keys
from assets.selection.formats.spreadsheet import write_csv
from assets.selection.formats.web_dataset import (
    DEFAULT_SHARD_LIMITS,
    ShardLimits,
    write_tar_shards,
)
from assets.selection.frozen_media import MediaRows
from assets.selection.partial_file import delete_abandoned_files, open_partial_file
from assets.selection.partial_folder import open_partial_folder
from assets.selection.passport import format_passport
from assets.words.text import format_count
from db.selection.exports import add_member_places, load_export_batches, load_media_in_tars
from db.selection.recipes import SelectionError
from metrics_core.file_hash import compute_file_sha256


@dataclass(frozen=True, slots=True)
class ExportResult:
    """A complete export: its path, format (`form`) and number of rows. media_root: the folder on this machine that
    addresses of media in the export are relative to; None without local files.
    """

    path: Path
    form: ExportFormat
    rows: int
    media_root: str | None


def export_selection(
    engine: Engine,
    selection_id: int,
    path: Path,
    form: ExportFormat | None = None,
    *,
    replace: bool = False,
    tell: LineWriter = lambda _: None,
    limits: ShardLimits = DEFAULT_SHARD_LIMITS,
) -> ExportResult:
    """Write the rows of a frozen selection in order of rank to a file or folder, wholly or not at all. form: the
    format; None for the suffix of `path`. replace: whether an existing file may be replaced; a folder never is. Partial
    files of killed exports are deleted. Raises SelectionError for an unknown selection, unwritable paths and missing
    media.

    tell: called with lines of progress. limits: where a shard of WebDataset ends. An export that was killed starts
    again.
    """
    chosen_form, target = choose_format(path, form), require_export_target(path, form, replace=replace)
    try:
        delete_abandoned_files(target.parent)
        if chosen_form is ExportFormat.WEB_DATASET:
            source = _export_shards(engine, selection_id, target, tell, limits)
        else:
            source = _export_rows(engine, selection_id, target, chosen_form, tell)
    except OSError as error:
        raise build_write_error(path, error) from error
    return ExportResult(target, chosen_form, source.frozen.n, source.media_root)


def _export_rows(engine: Engine, selection_id: int, target: Path, form: ExportFormat, tell: LineWriter) -> ExportInput:
    """Write a format without media. Everything is read from one state of the database."""
    with (
        engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection,
        connection.begin(),
    ):
        source = load_export_input(connection, selection_id, form.value)
        query = add_member_places(source.query) if form is ExportFormat.KEYS else source.query
        batches = require_all_rows(source.frozen, load_export_batches(connection, query), tell)
        if form is ExportFormat.PARQUET:
            with open_partial_file(target) as file:
                write_parquet(file, source.columns, source.passport, batches)
        elif form is ExportFormat.HUGGING_FACE:
            with open_partial_folder(target, tell) as folder:
                write_hugging_face(folder, source, batches)
        elif form is ExportFormat.KEYS:
            load_media = partial(load_media_in_tars, connection, source.media_root)
            write = partial(write_shard_keys, load_media=load_media)
            _write_with_passport(target, write, source, batches, RANGES_SUFFIX)
        else:
            _write_with_passport(target, _WRITERS[form], source, batches)
    return source


def _export_shards(
    engine: Engine, selection_id: int, target: Path, tell: LineWriter, limits: ShardLimits
) -> ExportInput:
    """Write WebDataset."""
    with engine.connect() as connection:
        source = load_export_input(connection, selection_id, ExportFormat.WEB_DATASET.value)
    n_without_media = source.passport["counts"]["rows_without_media"]
    if n_without_media:
        have = "has" if n_without_media == 1 else "have"
        raise SelectionError(
            f"{n_without_media:,} of the {format_count(source.frozen.n, 'row')} of selection {selection_id} {have} no "
            "video file: select with --where \"video_status != 'text_only'\", or use another format"
        )
    with open_partial_folder(target, tell) as folder:
        rows = MediaRows(engine, source, tell)
        write_tar_shards(folder, source.passport, rows, rows.open_media, limits)
    return source


def _write_with_passport(
    target: Path, write: _Writer, source: ExportInput, batches: Iterator[Batch], *suffixes: str
) -> None:
    """Write a file, further ones with its name and these suffixes, and their passport. The passport gets its name
    first, the file without a suffix last: one without the others is not a complete export.
    """
    with ExitStack() as stack:
        paths = [target.with_name(target.name + suffix) for suffix in ("", *suffixes)]
        files = [stack.enter_context(open_partial_file(path)) for path in paths]
        write(*files, source.columns, batches)
        records = []
        for path, file in zip(paths, files, strict=True):
            file.flush()
            # On the disk before the passport has its name, so that only the file's name can still fail.
            os.fsync(file.fileno())
            digest = compute_file_sha256(Path(file.name)).hex()
            records.append({"name": path.name, "bytes": file.tell(), "sha256": digest})
        with open_partial_file(target.with_name(target.name + PASSPORT_SUFFIX)) as passport_file:
            passport_file.write(format_passport({**source.passport, "files": records}).encode())


# Of binary files, columns and batches.
_Writer = Callable[..., None]
_WRITERS: Mapping[ExportFormat, _Writer] = {
    ExportFormat.JSON_LINES: write_json_lines,
    ExportFormat.CSV: write_csv,
    ExportFormat.LABEL_STUDIO: write_label_studio,
}
