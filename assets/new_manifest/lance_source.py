"""Videos with captions, numbers and vectors in Lance tables: rows of a column of files become addresses of videos."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assets.home.settings import read_settings
from assets.ingest.rejects import Reject
from assets.ingest.rows import MAX_DIM
from assets.media.errors import MediaUnavailable
from assets.media.lance_tables import list_file_columns, open_table
from assets.media.settings import MediaSettings
from assets.new_manifest.columns import ColumnMap, ColumnNames, check_columns, guess_columns
from assets.new_manifest.findings import CaptionedVideo, Findings, NoManifest, Place, Reason
from assets.new_manifest.folder import strip_suffix
from assets.new_manifest.json_rows import parse_list_cells
from assets.new_manifest.rows import parse_id, parse_row
from assets.new_manifest.tool_fields import build_vector_row, collect_tool_fields
from assets.new_manifest.videos import VideoRegistry

if TYPE_CHECKING:
    import pyarrow as pa

_ROW_ID = "_rowid"
# Rows that are read at a time: their vectors take memory.
_ROWS = 256
# Lists of numbers with a fraction, of a fixed length or of any.
_NUMBERS = re.compile(r"(fixed_size_|large_)?list<\w+: (halffloat|float|double)( not null)?>(\[(?P<length>\d+)\])?")


def read_lance_tables(
    tool: str, tables: Sequence[str], videos: VideoRegistry, findings: Findings, column_names: ColumnNames
) -> Iterator[CaptionedVideo]:
    """Yield the video and captions of every row of Lance tables that has both; numbers and texts in other columns
    become own fields of the video, and lists of numbers of a fixed length its vectors. The rest is left out with the
    reason in `findings`. tool: the name for the own field `tool`.

    tables: paths relative to the source folder. column_names: those that the user gave. Raises NoManifest where there
    is no table, and where it is not known which column has the videos or the captions.
    """
    if not tables:
        raise NoManifest(f"{videos.folder.path}: no Lance table: give a folder with the suffix .lance, or its parent")
    for table in tables:
        videos.folder.mark_read(table)
        try:
            opened = open_table(videos.folder.path / table, read_settings(MediaSettings))
        except MediaUnavailable as error:
            findings.leave_out_table(f"{table}: {error}", table, is_whole=True)
            continue
        columns = _choose_columns(table, opened.schema, column_names)
        findings.add_guess(columns.format_guess())
        named = {"tool": tool, "tool_version": str(opened.version), "tool_file": table}
        for row_id, fields, vectors in _read_rows(opened, columns, table, findings):
            row = Place(findings, f"{table}#{row_id}")
            texts = {name: value for name, value in fields.items() if name in columns.meanings}
            captions, pairs = parse_row(parse_list_cells(texts, columns, row), columns, row)
            if not captions and not pairs:
                continue
            member, short = f"{columns['video']}/{row_id}", f"{strip_suffix(table)}/{row_id}"
            own_id = parse_id(texts.get(columns["video_id"] or ""))
            place = videos.register_member("lance", table, member, short, own_id, row.where)
            if place is not None:
                others = {name: value for name, value in fields.items() if name not in texts}
                own = collect_tool_fields("video", others, findings, row.where, named)
                # Tables may have columns of one name by different models.
                rows = [
                    build_vector_row(place.video_id, f"{strip_suffix(table)}/{column}", vector, findings, row.where)
                    for column, vector in vectors.items()
                ]
                kept = tuple(vector for vector in rows if vector is not None)
                yield CaptionedVideo(place.video_id, place.path, captions, own, kept, row.where, pairs)


def _choose_columns(table: str, schema: pa.Schema, column_names: ColumnNames) -> ColumnMap:
    """Choose the columns of a table by their names; the one of videos has to hold files."""
    files = list_file_columns(schema)
    guessed = guess_columns(schema.names, column_names)["video"]
    if guessed not in files:
        if len(files) != 1 or "video" in column_names.by_field:
            listed = (
                f"one of {', '.join(map(repr, files))} with --column video=NAME" if files else "a table that has one"
            )
            raise NoManifest(f"{table}: no column of files was recognised as that of the videos: choose {listed}")
        guessed = files[0]
    columns = guess_columns(schema.names, column_names, by_content={"video": guessed})
    check_columns(table, schema.names, columns)
    return columns


def _read_rows(
    opened: Any, columns: ColumnMap, table: str, findings: Findings
) -> Iterator[tuple[int, Mapping[str, Any], Mapping[str, object]]]:
    """Yield the id of every row with its fields, without files, and with its vectors by column."""
    from assets.ingest.parquet_reader import convert_batch

    read, vectors = _list_read_columns(opened.schema, columns, table, findings)
    row_id: int | None = None
    try:
        for batch in opened.scanner(columns=[*read, *vectors], with_row_id=True, batch_size=_ROWS).to_batches():
            # A damaged file may name places that it does not have, and reading there would end the process.
            batch.validate(full=True)
            rows = convert_batch(batch.drop_columns([_ROW_ID, *vectors]), {})
            for n, (content, _) in enumerate(rows):
                row_id = batch.column(_ROW_ID)[n].as_py()
                if isinstance(content, Reject):
                    findings.leave_out_unreadable("a row", content.code, f"{table}#{row_id}")
                else:
                    cells = {name: batch.column(name)[n].as_py() for name in vectors}
                    yield row_id, content, {name: cell for name, cell in cells.items() if cell is not None}
    except (OSError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        why = f"data is missing or damaged, put the complete table there ({type(error).__name__})"
        findings.leave_out_table(f"{table}: {why}", table, is_whole=row_id is None)


def _list_read_columns(
    schema: pa.Schema, columns: ColumnMap, table: str, findings: Findings
) -> tuple[list[str], list[str]]:
    """List the columns that hold neither files nor lists of numbers, and those that hold vectors. Other lists, with
    which a row may be too long for a manifest, and files that are not the videos are left out with the reason.
    """
    files, read, vectors = list_file_columns(schema), list[str](), list[str]()
    for field in schema:
        if field.name not in columns.meanings and (matched := _NUMBERS.fullmatch(str(field.type))):
            if 1 <= int(matched["length"] or 0) <= MAX_DIM:
                vectors.append(field.name)
            else:
                findings.leave_out(Reason.LISTS_OF_NUMBERS, table, column=field.name)
        elif field.name not in files:
            read.append(field.name)
        elif field.name != columns["video"]:
            findings.leave_out(Reason.OTHER_FILES, table, column=field.name)
    return read, vectors
