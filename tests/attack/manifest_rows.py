"""Rows of a manifest, well-formed ones and spoilt ones, and tables of them in the three formats."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.rows import DIMENSIONS

Row = dict[str, Any]
FORMATS = ("jsonl", "csv", "parquet")
N_VIDEOS = 12
MEDIA = ("media/clip.avi", "media/text.mp4", "media/folder.mp4", "media/fifo.mp4", "media/away.avi", "media/none.mp4")

_NESTED: Any = "deep"
for _ in range(40):
    _NESTED = [_NESTED]
# Hard to compress, so that an index has to hold all of its 900 bytes.
LONG_ID = "".join(chr(0x4E00 + number * 7919 % 20_000) for number in range(300))
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 6, 2**31, 10**30, -0.0, 0.5, 1e308, float("inf"), float("nan"),
    "", " ", "\t\n", "a", "v0", "v1", "true", "1", "NaN", "reference", "candidate", "x" * 100_001, "é" * 600, LONG_ID,
    "\x00", "\x07", "\x9b", "\ud800", "\u200b", "\U0001f600", "'; DROP TABLE sample; --", "$1 %s {0}", "\\N",
    "\u202eabc", "../../etc/passwd", "/dev/zero", "file:///etc/passwd", "https://x.org/a.mp4", *MEDIA,
    [], {}, [1], ["a", None], {"a": 1}, {"": ""}, {"a": {"b": [float("nan")]}}, _NESTED,
    [{"start_s": 0.0, "end_s": 1.0}], [{"start_s": 5.0, "end_s": 1.0}], [{"start_s": "a"}], [{"start_s": -1e308}],
]  # fmt: skip
FIELDS = (
    "video_id", "caption_id", "keypoint_id", "qa_id", "role", "system", "text", "segments", "parse_error", "dimension",
    "segment_index", "covered", "question", "answer", "quality", "rater", "aspect", "value", "path", "duration_s",
    "kind", "extra", "id", "dataset_id", "row_sha256", "é", " ", "$", "a.b",
)  # fmt: skip
BYTES = (
    b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\n", b"\r", b"\r\n", b'"', b"\\", b"\\u", b"{",
    b"}", b"[", b",", b":", b"'", b"NaN", b"1e999", b"9" * 400, b"[" * 2000, b'"a":1,', b"\xe2\x80\xa8", b" ",
)  # fmt: skip
LINES = (b"", b"   ", b"\t", b"\r", b"null", b"[]", b"{}", b"1", b'"text"', b"#", b'{"a":', b"\xff\xfe", b"{" * 500)


class Table(NamedTuple):
    """A table as it was written: how many rows a reader finds in it, of which so many are blank lines."""

    path: Path
    rows: int
    blank: int


def good_row(random: Random, kind: str, number: int) -> Row:
    """A row that an ingest accepts if the rows that it points to are there."""
    video, caption = f"v{random.randrange(N_VIDEOS)}", f"c{random.randrange(2 * N_VIDEOS)}"
    text = f"A man {random.randrange(1000)} opens a door. It is “red”."
    rows: dict[str, Row] = {
        "video": {"video_id": f"v{number}", "duration_s": random.choice([4.0, 10.5])},
        "caption": {"caption_id": f"c{number}", "video_id": video, "role": "candidate", "system": "s", "text": text},
        "keypoint": {
            "keypoint_id": f"k{number}", "video_id": video, "dimension": random.choice(sorted(DIMENSIONS)), "text": text
        },
        "keypoint_label": {"keypoint_id": f"k{number}", "caption_id": caption, "covered": random.random() < 0.5},
        "qa": {"qa_id": f"q{number}", "video_id": video, "question": "What is it?", "answer": text},
        "rating": {"caption_id": caption, "rater": f"r{number}", "aspect": "all", "value": random.randint(1, 5)},
        "vector": {"video_id": f"v{number}", "encoder": "e", "vector": [random.uniform(0.1, 1), 0.5, -1]},
    }  # fmt: skip
    row = rows[kind]
    if kind == "caption" and random.random() < 0.3:
        row |= {"role": "reference", "segments": [{"start_s": 0.0, "end_s": 1.0, "text": "A man."}]}
    if kind == "video" and random.random() < 0.05:
        row["path"] = random.choice(MEDIA)
    return row


def spoilt(random: Random, row: Row, earlier: Sequence[Row]) -> Row:
    """The row with a field gone, changed, added or renamed; or an earlier row again, as it was or changed."""
    field = random.choice([*row, "extra"])
    match random.randrange(6):
        case 0:
            return {name: value for name, value in row.items() if name != field}
        case 1 | 2:
            return {**row, field: random.choice(VALUES)}
        case 3:
            return {**row, random.choice(FIELDS): random.choice(VALUES)}
        case 4:
            return {random.choice(FIELDS) if name == field else name: value for name, value in row.items()}
        case _:
            again = random.choice([*earlier, row])
            return again if random.random() < 0.5 else {**again, field: random.choice(VALUES)}


def rows_of(random: Random, kind: str, n: int) -> list[Row]:
    """n rows of a kind, many of them spoilt; of the videos fewer, because all others point to them."""
    share = 0.2 if kind == "video" else 0.4
    rows: list[Row] = []
    for number in range(n):
        row = good_row(random, kind, number)
        rows.append(spoilt(random, row, rows) if random.random() < share else row)
    return rows


def write_table(random: Random, folder: Path, kind: str, rows: Sequence[Row], suffix: str) -> Table:
    """Write rows as videos.jsonl, captions.csv and so on, with what can be spoilt in that format alone."""
    path = folder / f"{MANIFEST_TABLES[kind].name}.{suffix}"
    write = {"jsonl": write_lines, "csv": _write_csv, "parquet": _write_parquet}[suffix]
    return write(random, path, rows)


def write_lines(random: Random, path: Path, rows: Sequence[Row]) -> Table:
    """JSON Lines, every sixth one spoilt as bytes, and a line that is no row now and then."""
    lines = []
    for row in rows:
        line = json.dumps(row, ensure_ascii=random.random() < 0.5).encode("utf-8", "surrogatepass")
        lines.append(_spoilt_bytes(random, line) if random.random() < 1 / 6 else line)
        if random.random() < 1 / 20:
            lines.append(random.choice(LINES))
    data = random.choice([b"", b"", b"\xef\xbb\xbf"]) + random.choice([b"\n", b"\r\n"]).join(lines)
    path.write_bytes(data + random.choice([b"", b"\n", b"\n\n"]))
    # Counted from the file's bytes, whatever they were meant to be; what follows the last line feed may be nothing.
    found = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if found[-1] == b"":
        found.pop()
    return Table(path, len(found), sum(not line.strip() for line in found))


def _spoilt_bytes(random: Random, line: bytes) -> bytes:
    place, other = sorted(random.randrange(len(line) + 1) for _ in range(2))
    match random.randrange(5):
        case 0:
            return line[:place]
        case 1:
            return line[:place] + line[other:]
        case 2:
            return line[:other] + line[place:]
        case 3:
            return line[:place] + bytes([random.randrange(256)]) + line[place + 1 :]
        case _:
            return line[:place] + random.choice(BYTES) + line[place:]


def _write_csv(random: Random, path: Path, rows: Sequence[Row]) -> Table:
    """Records of a known number: what would open or close a quote is not among the bytes that are spoilt."""
    header = list(dict.fromkeys(name for row in rows for name in row if name.strip()))
    data = _record(header)
    blank = 0
    for row in rows:
        cells = [_cell(row.get(name)) for name in header]
        if random.random() < 1 / 15:
            cells = cells[:-1] if random.random() < 0.5 and len(cells) > 2 else [*cells, "more"]
        record = _record(cells)
        if random.random() < 1 / 10:
            letters = [place for place, byte in enumerate(record) if chr(byte).isalnum()]
            place = random.choice(letters)
            record = record[:place] + random.choice([b"\x00", b"\xff", b"\xc3"]) + record[place + 1 :]
        data += record
        if random.random() < 1 / 20:
            blank += 1
            data += random.choice([b"\r\n", b"\n"])
    path.write_bytes(random.choice([b"", b"\xef\xbb\xbf"]) + data)
    return Table(path, len(rows) + blank, blank)


def _record(cells: Sequence[str]) -> bytes:
    stream = io.StringIO()
    csv.writer(stream).writerow(cells)
    return stream.getvalue().encode("utf-8", "surrogatepass")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _write_parquet(random: Random, path: Path, rows: Sequence[Row]) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [_column(random, [row.get(name) for row in rows]) for name in names]
    pq.write_table(pa.table(columns, names=names), path, row_group_size=random.choice([1, 7, 1000]))
    return Table(path, len(rows), 0)


def _column(random: Random, values: Sequence[Any]) -> pa.Array:
    """The values as a column of the type that most of them have; a column of texts has the others as texts."""
    of_type = Counter(type(value) for value in values if value is not None)
    (common, _), *_ = of_type.most_common(1) or [(str, 0)]
    try:
        if common not in (str, dict):  # Parquet has no struct without fields
            return pa.array([value if type(value) is common else None for value in values])
    except (pa.ArrowException, OverflowError):
        pass  # lists of unlike things, or a number beyond 64 bits: as texts, then
    texts = [None if value is None else _cell(value).encode("utf-8", "surrogatepass") for value in values]
    column = pa.array(texts, pa.binary()).view(pa.string())
    if random.random() < 0.5 or not _is_unicode(column):
        return column
    return column.cast(random.choice([pa.large_string(), pa.dictionary(pa.int32(), pa.string())]))


def _is_unicode(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowException:
        return False
    return True
