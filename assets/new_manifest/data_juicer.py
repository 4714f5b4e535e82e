"""Videos with captions in the tables of Data-Juicer: NAME.jsonl, with numbers in NAME_stats.jsonl where it exported
them.

The only path in `videos` is the video, and `text` the caption. Lists of one value in __dj__stats__ and __dj__meta__,
and the origin, are fields of the video; all else that is no list is a field of the caption.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import PurePosixPath
from typing import Any

from assets.ingest.files import open_table
from assets.ingest.json_lines import read_objects
from assets.ingest.paths import resolve_inside
from assets.ingest.rejects import Reject
from assets.ingest.rows import ORIGIN_FIELDS
from assets.new_manifest.columns import ColumnMap, MappedColumn
from assets.new_manifest.findings import CaptionedVideo, Findings, NoManifest, Place, Reason
from assets.new_manifest.rows import parse_row_captions
from assets.new_manifest.tool_fields import collect_tool_fields
from assets.new_manifest.videos import VideoRegistry
from assets.words.text import format_count

_STATS, _META, _SUFFIX = "__dj__stats__", "__dj__meta__", "_stats.jsonl"
_COLUMNS = ColumnMap({"caption": MappedColumn("text", "name")})


def read_data_juicer(tool: str, videos: VideoRegistry, findings: Findings) -> Iterator[CaptionedVideo]:
    """Yield the videos with captions in a folder's tables. Rows without one video and a text are left out with the
    reason in `findings`. If some tables have numbers, the others are skipped. tool: its name.

    Raises NoManifest where no table has numbers or `videos`, or a table's numbers have another number of rows.
    """
    listing = videos.folder.list_files("table")
    tables = [file for file in listing if file.endswith(".jsonl") and not file.endswith(_SUFFIX)]
    if not tables:
        raise NoManifest(f"{videos.folder.path}: no .jsonl table: give the folder of the export_path of {tool}")
    stats = {table: name for table in tables if (name := table.removesuffix(".jsonl") + _SUFFIX) in listing}
    first = {
        table: next((row for _, row in _read_rows(tool, videos, table, table) if isinstance(row, dict)), {})
        for table in tables
    }
    chosen = [table for table in tables if table in stats or _STATS in first[table]]
    chosen = chosen or [table for table in tables if "videos" in first[table]]
    if not chosen:
        what = "its first row has no field videos" if first[tables[0]] else "it has no row that can be read"
        raise NoManifest(
            f"{tables[0]}: {what}, as the tables of {tool} have: leave --from out to read it as a table with other "
            "columns"
        )
    for table in chosen:
        yield from _read_videos(tool, videos, findings, table, stats.get(table, table))


def _read_rows(
    tool: str, videos: VideoRegistry, table: str, stats: str
) -> Iterator[tuple[int, dict[str, Any] | Reject]]:
    """Yield the rows of a table with their numbers, and with the fields in the same row of another file."""
    counts = dict.fromkeys((table, stats), 0)
    with ExitStack() as stack:
        files = [stack.enter_context(open_table(resolve_inside(videos.folder.path, name))) for name in counts]
        for rows in zip_longest(*map(read_objects, files)):
            for name, row in zip(counts, rows, strict=True):
                counts[name] += row is not None
            if None not in rows:
                unread = [row for _, row in rows if isinstance(row, Reject)]
                parts = (row.items() for _, row in rows if not isinstance(row, Reject))
                yield rows[0][0].number, unread[0] if unread else dict(chain.from_iterable(parts))
    if counts[stats] != counts[table]:
        raise NoManifest(
            f"{stats}: it has {format_count(counts[stats], 'row')} and {table} has {counts[table]:,}, so it is not "
            f"known which numbers belong to which row: export both again with {tool}"
        )


def _read_videos(
    tool: str, videos: VideoRegistry, findings: Findings, table: str, stats: str
) -> Iterator[CaptionedVideo]:
    for file in (table, stats):
        videos.folder.mark_read(file)
    names = (_find_video_name(row) for _, row in _read_rows(tool, videos, table, stats) if isinstance(row, dict))
    judged = videos.judge_cells({name for name in names if name is not None}, PurePosixPath(table).parent.as_posix())
    for number, row in _read_rows(tool, videos, table, stats):
        where = f"{table}:{number}"
        if isinstance(row, Reject):
            findings.leave_out_unreadable("a row", row.code, where)
        elif (name := _find_video_name(row)) is None:
            findings.leave_out(Reason.NOT_ONE_VIDEO, where)
        elif captions := parse_row_captions({"text": row.get("text")}, _COLUMNS, Place(findings, where)):
            of_video, of_text = _divide_fields(row)
            extra = collect_tool_fields("caption", of_text, findings, where)
            if (place := videos.register_cell(name, judged, None, where)) is not None:
                fields = collect_tool_fields("video", of_video, findings, where, {"tool": tool, "tool_file": stats})
                captions = tuple(replace(caption, text=caption.text.strip(), extra=extra) for caption in captions)
                yield CaptionedVideo(place.video_id, place.path, captions, fields)


def _find_video_name(row: Mapping[str, Any]) -> str | None:
    """Return the name of a row's only video; None without one, or with several."""
    names = row.get("videos")
    return names[0] if isinstance(names, list) and len(names) == 1 and isinstance(names[0], str) else None


def _divide_fields(row: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a row about its video, and those about its text."""
    parts = [part for part in (row.get(_META), row.get(_STATS)) if isinstance(part, dict)]
    measured = {name: value for part in parts for name, value in part.items()}
    of_video = {name: value[0] for name, value in measured.items() if isinstance(value, list) and len(value) == 1}
    of_video |= {name: row[name] for name in ORIGIN_FIELDS if name in row}
    of_text = {name: value for name, value in row.items() if name not in ("videos", "text", _STATS, _META)} | measured
    return of_video, {name: value for name, value in of_text.items() if name not in of_video}
