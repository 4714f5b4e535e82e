"""Videos with captions in the tables of Data-Juicer: NAME.jsonl, with numbers in NAME_stats.jsonl where it exported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import repeat
from pathlib import PurePosixPath
from typing import Any

from assets.ingest.files import open_text_file
from assets.ingest.hygiene import is_blank_text
from assets.ingest.json_lines import read_numbered_objects
from assets.ingest.paths import resolve_inside
from assets.ingest.rejects import Reject
from assets.ingest.rows import ORIGIN_FIELDS
from assets.new_manifest.findings import Caption, CaptionedVideo, Findings, NoManifest, Reason
from assets.new_manifest.tool_fields import collect_tool_fields, remove_marks
from assets.new_manifest.videos import JudgedCells, VideoRegistry
from assets.words.text import format_count

_STATS, _META = "__dj__stats__", "__dj__meta__"
_TABLE_SUFFIX, _STATS_SUFFIX = ".jsonl", "_stats.jsonl"


def read_data_juicer(tool: str, videos: VideoRegistry, findings: Findings) -> Iterator[CaptionedVideo]:
    """Return an iterator over the videos with captions in a folder's tables: numbers about videos become own fields of
    the video, numbers about texts and other fields own fields of the caption. Rows without one video and a text are
    left out with the reason in `findings`. Where a table has numbers, those without are not read. tool: its name.

    Raises NoManifest where no table has numbers or `videos`, or a table's numbers have another number of rows.
    """
    listing = videos.folder.list_files("table")
    tables = [file for file in listing if file.endswith(_TABLE_SUFFIX) and not file.endswith(_STATS_SUFFIX)]
    if not tables:
        raise NoManifest(f"{videos.folder.path}: no .jsonl table: give the folder of the export_path of {tool}")
    stats = {table: name if (name := _name_stats(table)) in listing else None for table in tables}
    chosen = [table for table in tables if stats[table] or _STATS in _read_first_row(videos, table)]
    chosen = chosen or [table for table in tables if "videos" in _read_first_row(videos, table)]
    if not chosen:
        raise NoManifest(
            f"{tables[0]}: its first row has no field videos, as the tables of {tool} have: leave --from out to read "
            "it as a table with other columns"
        )
    for table in chosen:
        _check_stats(videos, tool, table, stats[table])
    return (video for table in chosen for video in _read_rows(videos, findings, tool, table, stats[table]))


def _name_stats(table: str) -> str:
    return table.removesuffix(_TABLE_SUFFIX) + _STATS_SUFFIX


def _read_first_row(videos: VideoRegistry, table: str) -> dict[str, Any]:
    """Return the first row of a table that can be read; empty where none can."""
    return next((row for _, row in _read_lines(videos, table) if isinstance(row, dict)), {})


def _check_stats(videos: VideoRegistry, tool: str, table: str, stats: str | None) -> None:
    """Raise NoManifest where it is not known which numbers of a file belong to which row of its table."""
    if stats is None:
        return
    n, n_rows = (sum(1 for _ in _read_lines(videos, file)) for file in (stats, table))
    if n != n_rows:
        raise NoManifest(
            f"{stats}: it has {format_count(n, 'row')} and {table} has {n_rows:,}, so it is not known which numbers "
            f"belong to which row: export both again with {tool}"
        )


def _read_lines(videos: VideoRegistry, table: str) -> Iterator[tuple[int, dict[str, Any] | Reject]]:
    with open_text_file(resolve_inside(videos.folder.path, table)) as file:
        yield from read_numbered_objects(file)


def _read_rows(
    videos: VideoRegistry, findings: Findings, tool: str, table: str, stats: str | None
) -> Iterator[CaptionedVideo]:
    """Yield the video and caption of every row of a table that has both."""
    for file in filter(None, (table, stats)):
        videos.folder.mark_read(file)
    numbers = repeat((0, {})) if stats is None else _read_lines(videos, stats)
    names = (_find_video_name(row) for _, row in _read_lines(videos, table) if isinstance(row, dict))
    judged = videos.judge_cells({name for name in names if name is not None}, PurePosixPath(table).parent.as_posix())
    named = {"tool": tool, "tool_file": stats or table}
    for (number, row), (_, measured) in zip(_read_lines(videos, table), numbers, strict=False):
        where = f"{table}:{number}"
        if isinstance(row, Reject):
            findings.leave_out_unreadable("a row", row.code, where)
        elif isinstance(measured, Reject):
            findings.leave_out_unreadable("a row", measured.code, where)
        elif (video := _build_video(videos, judged, findings, {**row, **measured}, named, where)) is not None:
            yield video


def _build_video(
    videos: VideoRegistry,
    judged: JudgedCells,
    findings: Findings,
    row: Mapping[str, Any],
    named: Mapping[str, str],
    where: str,
) -> CaptionedVideo | None:
    """Build the video of a row with its caption; None where the row lacks one of them. judged: the videos of all rows.
    named: the own fields that name the tool.
    """
    name, text = _find_video_name(row), row.get("text")
    if name is None:
        findings.leave_out(Reason.NOT_ONE_VIDEO, where)
        return None
    text = remove_marks(text).strip() if isinstance(text, str) else ""
    if is_blank_text(text):
        findings.leave_out(Reason.NO_TEXT, where)
        return None
    of_video, of_text = _divide_fields(row)
    caption = Caption(text, extra=collect_tool_fields("caption", of_text, findings, where))
    if not findings.accept_row("caption", caption.build_row("v", "c"), where):
        return None
    place = videos.register_cell(name, judged, None, where)
    if place is None:
        return None
    fields = collect_tool_fields("video", of_video, findings, where, named)
    return CaptionedVideo(place.video_id, place.path, (caption,), fields)


def _find_video_name(row: Mapping[str, Any]) -> str | None:
    """Return the name of a row's only video; None without one, or with several."""
    names = row.get("videos")
    return names[0] if isinstance(names, list) and len(names) == 1 and isinstance(names[0], str) else None


def _divide_fields(row: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a row about its video, and those about its text. A number about videos is a list with a
    value for every video.
    """
    measured: dict[str, Any] = {}
    for part in (row.get(_META), row.get(_STATS)):
        measured |= part if isinstance(part, dict) else {}
    of_video = {name: value[0] for name, value in measured.items() if isinstance(value, list) and len(value) == 1}
    of_video |= {name: row[name] for name in ORIGIN_FIELDS if name in row}
    others = {name: value for name, value in row.items() if name not in ("videos", "text", _STATS, _META)}
    of_text = {**others, **measured}
    return of_video, {name: value for name, value in of_text.items() if name not in of_video}
