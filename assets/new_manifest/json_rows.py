"""JSON of published datasets as rows of a table: one scheme for lists of rows, objects by video, lists that share ids,
captions with times, and lists that a cell has as text.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import product
from pathlib import PurePosixPath
from typing import Any

from assets.ingest import strict_json
from assets.ingest.files import OpenFile
from assets.ingest.json_lines import read_objects
from assets.ingest.rejects import ManifestError, Reject
from assets.new_manifest.columns import ColumnMap, guess_columns, normalise_header
from assets.new_manifest.findings import Place, Reason
from assets.new_manifest.folder import is_video_name

Row = dict[str, Any]
_IsVideo = Callable[[str], bool]
# Its value takes about eight times as much memory.
MAX_JSON_BYTES = 2**28
# The columns that `tidy_row` may give a row.
TIDY_COLUMNS = ("caption", "candidates", "segments")
# The keys of an object by video that are looked at before it counts as none, and the parts of any other object.
_LOOKED_AT, _MOST_PARTS = 1000, 50
_REMEDY = 'write it as JSON Lines, with a line such as {"video": "a.mp4", "caption": "A dog."} for each caption'
_CAPTION_KEY = re.compile(
    r'"(?:[^"\\]{0,40}(?:captions?|sentences?)|conversations|messages|text|description)"\s*:\s*["\[N]', re.IGNORECASE
)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_WORDS = re.compile(r"[^\W\d_]\s+[^\W\d_]")
# Keys of the parts of a document, not of videos.
_PART_KEY = re.compile(
    "annotations?|data(base|set)?|videos?|images|sentences|captions|results|train|val(idation)?|test|info|meta(data)?"
    "|rows|items|samples|clips|features"
)
_VIDEO_KEY = re.compile("video|image|clip|vid|media|file")
_CERTAIN = frozenset(("caption", "captions", "sentence", "sentences", "encap", "conversations", "segments"))
# Columns whose cells may hold a list.
_WITH_LISTS = ("video", "caption", "candidates", "reference", "segments", "question", "answer", "options")
_PAIRS = ("timestamps", "timestamp", "segment", "segments", "times", "time", "interval", "intervals", "span")
_STARTS = ("start", "starts", "startsec", "starttime", "begin")
_ENDS = ("end", "ends", "endsec", "endtime", "stop")
_LITERAL = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_NO_COMMA = re.compile(r"\0\s*\0")
_LIST = re.compile(r"""\[\s*['"{].*\]\s*""", re.DOTALL)
_CLOCK = re.compile(r"(?:(?:(\d{1,4}):)?(\d{1,2}):)?(\d{1,6}(?:[.,]\d{1,9})?)")


def read_published_rows(file: OpenFile, name: str, is_video: _IsVideo) -> list[tuple[int, Row | Reject]]:
    """Return the rows of an open JSON file with their numbers. Raises ManifestError where it has none. name: of the
    file, for messages. is_video: returns whether a text names a video of the folder.
    """
    document = strict_json.read_json(file, MAX_JSON_BYTES)
    if isinstance(document, Reject):
        if document.code == "too_long":
            raise ManifestError(f"{name}: JSON of more than {MAX_JSON_BYTES >> 20} MiB: {_REMEDY}")
        file.rewind()
        objects = read_objects(file)
        lines = [(line.number, row if isinstance(row, Reject) else tidy_row(row)) for line, row in objects]
        if document.code != "json_invalid" or not lines or isinstance(lines[0][1], Reject):
            raise ManifestError(f"{name}: {document.reason}")
        return lines
    if not (rows := _find_rows(document, is_video)):
        raise ManifestError(f"{name}: JSON in a form that is not read: {_REMEDY}, or move it away")
    return list(enumerate(rows, 1))


def has_captions(text: str, name: str, is_video: _IsVideo) -> bool:
    """Return whether a JSON text seems to hold captions: by a field for them in a file named like a video, else by that
    or a text of several words next to the name of a video. name: of the file.
    """
    stem, has_field = PurePosixPath(name).stem, _CAPTION_KEY.search(text) is not None
    if any(is_video(stem[:end]) for end in range(1, len(stem) + 1)):
        return has_field
    strings = [found[1] for found in _STRING.finditer(text)]
    return any(map(is_video, strings)) and (has_field or any(map(_WORDS.search, strings)))


def _find_rows(document: Any, is_video: _IsVideo) -> list[Row | Reject]:
    """Return the rows of a JSON value, as `tidy_row` returns them; empty where its form is not known.

    >>> def is_video(name): return name == "a.mp4"
    >>> _find_rows({"videos": [{"id": 7, "path": "a.mp4"}], "sentences": [{"video_id": 7, "caption": "A."}]}, is_video)
    [{'caption': 'A.', 'video': 'a.mp4'}]
    >>> _find_rows({"a.mp4": ["A dog.", "It runs."]}, is_video)
    [{'caption': ['A dog.', 'It runs.'], 'video': 'a.mp4'}]
    """
    # Keys that name no video of the folder only count where nothing else is known.
    return _list_rows(document, is_video) or _list_rows(document, None)


def _list_rows(value: Any, is_video: _IsVideo | None, depth: int = 2) -> list[Row | Reject]:
    if isinstance(value, list):
        rows = [tidy_row(item) if isinstance(item, dict) else Reject("not_an_object", "no object") for item in value]
        return rows if any(isinstance(row, dict) and _guess(row).has_video_and_text for row in rows) else []
    if not isinstance(value, dict) or not depth:
        return []
    if rows := _list_rows_by_video(value, is_video):
        return rows
    row = tidy_row(value)
    if _guess(row).has_video_and_text and isinstance(row[_guess(row)["video"] or ""], str):
        return [row]
    parts = [part for part in value.values() if isinstance(part, list | dict)]
    if len(parts) > _MOST_PARTS:
        return []
    joined = [_join(part, parts) if isinstance(part, list) else part for part in parts]
    return [row for part in joined for row in _list_rows(part, is_video, depth - 1)]


def _list_rows_by_video(value: Mapping[str, Any], is_video: _IsVideo | None) -> list[Row | Reject]:
    """Return a row for every video of an object whose keys name videos. Where is_video is None, keys count that are no
    words of JSON, with objects that certainly hold captions.
    """
    rows: list[Row | Reject] = []
    n_with_text, are_videos = 0, is_video is None
    for key, part in value.items():
        own = tidy_row(part) if isinstance(part, dict) else {"caption": part}
        row = tidy_row({**own, "video": key})
        cell = own.get(_guess(own)["video"] or "")
        is_known = is_video_name(key) or (is_video is not None and is_video(key))
        if not is_known and isinstance(cell, str) and (key.isdecimal() or is_video_name(cell)):
            row, are_videos = own, True  # the key is the id of a row
        elif (own_id := _guess(row)["video_id"]) is not None:
            row[f"source_{own_id}"] = row.pop(own_id)
        if is_video is not None:
            are_videos = are_videos or is_known
        else:
            names = own if isinstance(part, dict) else row.keys() - {"caption"}
            are_videos &= not _CERTAIN.isdisjoint(map(normalise_header, names)) and not _PART_KEY.fullmatch(key)
        n_with_text += _guess(row).has_text and isinstance(part, str | list | dict)
        rows.append(row)
        if len(rows) == _LOOKED_AT and not (n_with_text and are_videos):
            return []
    return rows if are_videos and 2 * n_with_text >= len(rows) else []


def _join(rows: list[Any], parts: Sequence[Any]) -> list[Any]:
    """Return rows with texts, each joined with the object of another list that has its id."""
    lists = [part for part in parts if part is not rows and isinstance(part, list)]
    for key in rows[0] if rows and isinstance(rows[0], dict) and _guess(rows[0]).has_text else ():
        for part, own in product(lists, (key, "id")) if _VIDEO_KEY.search(normalise_header(key)) else ():
            by_id = {str(item[own]): item for item in part if isinstance(item, dict) and own in item}
            if len(by_id) == len(part) and all(isinstance(row, dict) and str(row.get(key)) in by_id for row in rows):
                return [_merge(by_id[str(row[key])], row, own, key) for row in rows]
    return rows


def _merge(video: Row, row: Row, own: str, key: str) -> Row:
    """Return a row with the fields of its video, whose id is in field `own`, and in field `key` of the row."""
    others = {name: value for name, value in video.items() if name != own}
    file = _guess(others)["video"] or ""
    path = others.pop(file) if file and "url" not in normalise_header(file) else row[key]
    return {**others, **{name: value for name, value in row.items() if name != key or own == key}, "video": path}


def tidy_row(fields: Row) -> Row:
    """Return a row whose captions with times are `caption` and `segments`, and those of VATEX `candidates`. Where it
    names no video or caption, the objects in it are flattened. A row without any of these is returned as it is.

    >>> tidy_row({"timestamps": [[0, 1.5], ["0:00:01.5", "0:00:04"]], "sentences": ["One.", "Two."]})["segments"]
    [{'start_s': 0.0, 'end_s': 1.5, 'text': 'One.'}, {'start_s': 1.5, 'end_s': 4.0, 'text': 'Two.'}]
    """
    if any(isinstance(value, dict) for value in fields.values()) and not _guess(fields).has_video_and_text:
        inner = {name: part for value in fields.values() if isinstance(value, dict) for name, part in value.items()}
        flat = {**inner, **{name: value for name, value in fields.items() if not isinstance(value, dict)}}
        fields = flat if _guess(flat).has_video_and_text else fields
    return tidy_captions(fields)


def tidy_captions(fields: Row) -> Row:
    """Return a row as `tidy_row` does, without flattening it."""
    caption = _guess(fields)["caption"]
    if not any(isinstance(value, list) or (name == caption and _parse_list(value)) for name, value in fields.items()):
        return fields
    names = {normalise_header(name): name for name in fields}
    if languages := [names[name] for name in ("encap", "chcap") if name in names]:
        others = {name: value for name, value in fields.items() if name not in languages}
        return {**others, "candidates": {name[:2]: fields[name] for name in languages}}
    for name, value in fields.items():
        events = _parse_list(value) if name == caption or isinstance(value, list) else None
        used = {name}
        if events and name == caption and not isinstance(events[0], dict):
            times, columns = _find_times(fields)
            pairs, used = _parse_list(times) or [], used | columns
            texts = events if len(events) == len(pairs) else []
            events = [{"caption": text, "time": pair} for text, pair in zip(texts, pairs, strict=False)]
        segments = [_build_segment(event) for event in events or ()]
        timed = [segment for segment in segments if segment is not None]
        if timed and len(timed) == len(segments):
            others = {key: part for key, part in fields.items() if key not in used}
            text = others.get(whole := _guess(others)["caption"] or "")
            others = {key: part for key, part in others.items() if key != whole or not isinstance(text, str)}
            joined = " ".join(segment["text"].strip() for segment in timed)
            return {**others, "caption": text if isinstance(text, str) else joined, "segments": timed}
    return fields


def parse_list_cells(fields: Mapping[str, Any], columns: ColumnMap, place: Place) -> dict[str, Any]:
    """Return the fields of a row, with the JSON lists in columns of texts and segments parsed. A cell that looks like a
    list and is not valid JSON is dropped, and counted as left out at `place`.
    """
    parsed = dict(fields)
    for column in filter(None, map(columns.__getitem__, _WITH_LISTS)):
        value = fields.get(column)
        if not isinstance(value, str) or not value.lstrip().startswith("["):
            continue
        if (parsed_list := _parse_list(value)) is not None:
            parsed[column] = parsed_list
        elif _LIST.fullmatch(value):
            place.leave_out(Reason.BAD_LIST, column)
            del parsed[column]
    return parsed


def _parse_list(value: Any) -> list[Any] | None:
    """Return a list, or the list that a text shows in JSON or as Python writes it; None for anything else.

    >>> _parse_list("['A dog.', 'It runs.']"), _parse_list('["A dog."]'), _parse_list("['A dog.' 'It runs.']")
    (['A dog.', 'It runs.'], ['A dog.'], None)
    """
    if not isinstance(value, str) or not value.lstrip().startswith("["):
        return value if isinstance(value, list) else None
    parsed = strict_json.parse_json(value)
    # Python joins strings that have no comma between them, which is how NumPy writes a list.
    if isinstance(parsed, Reject) and not _NO_COMMA.search(_LITERAL.sub("\0", value)):
        try:
            parsed = strict_json.parse_json(json.dumps(ast.literal_eval(value.strip())))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None
    return parsed if isinstance(parsed, list) else None


def _build_segment(event: Any) -> Row | None:
    """Return an object with a text and two times as a segment, with its other fields; None for anything else."""
    if not isinstance(event, dict) or not isinstance(text := event.get(name := _guess(event)["caption"] or ""), str):
        return None
    pair, used = _find_times(event)
    times = [_parse_seconds(time) for time in pair] if isinstance(pair, list) else []
    ordered = sorted(time for time in times if time is not None)
    if len(times) != 2 or len(ordered) != 2:
        return None
    others = {key: value for key, value in event.items() if key != name and key not in used}
    return {**others, "start_s": ordered[0], "end_s": ordered[1], "text": text}


def _find_times(fields: Mapping[str, Any]) -> tuple[Any, set[str]]:
    """Return begin and end in fields, or a list of such pairs, and the names of their fields."""
    names = {normalise_header(name): name for name in fields}
    if pair := next((names[name] for name in _PAIRS if name in names), None):
        return fields[pair], {pair}
    start, end = (next((names[name] for name in wanted if name in names), "") for wanted in (_STARTS, _ENDS))
    ends = [fields.get(start), fields.get(end)]
    are_lists = all(isinstance(values, list) for values in ends)
    return list(map(list, zip(*ends, strict=False))) if are_lists else ends, {start, end}


def _parse_seconds(time: Any) -> float | None:
    if isinstance(time, str) and (found := _CLOCK.fullmatch(time.strip())):
        hours, minutes, seconds = found.groups()
        return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds.replace(",", "."))
    return float(time) if isinstance(time, int | float) and not isinstance(time, bool) else None


@lru_cache(4096)
def _guess_names(names: tuple[str, ...]) -> ColumnMap:
    return guess_columns(names)


def _guess(row: Mapping[str, Any]) -> ColumnMap:
    return _guess_names(tuple(row))
