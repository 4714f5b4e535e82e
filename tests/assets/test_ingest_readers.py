"""Readers: three formats give the same rows, bad rows never stop good ones, and memory stays bounded."""

from __future__ import annotations

import csv
import hashlib
import json
import tracemalloc
import unicodedata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.ingest.declarations import read_declarations
from assets.ingest.files import open_table
from assets.ingest.lines import MAX_ROW_BYTES
from assets.ingest.manifest import list_table_files
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.readers import TableContent, count_table_rows, read_table
from assets.ingest.rejects import CODES, ManifestError, Reject
from assets.ingest.rows import DIMENSIONS, RawRow, ValidRow
from assets.ingest.validate import validate_row

RATING = {"caption_id": "c", "rater": "r", "aspect": "coverage", "value": 5}


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def codes(rows: list[RawRow]) -> list[tuple[int, str]]:
    results = [(row.line, validate_row(row)) for row in rows]
    return [(line, result.code if isinstance(result, Reject) else "valid") for line, result in results]


def read(path: Path, kind: str = "rating") -> list[RawRow]:
    return list(read_table(path, kind))


# The folder


def test_tables_are_found_in_the_order_of_ingest(tmp_path: Path) -> None:
    for name in ("ratings.csv", "videos.parquet", "captions.jsonl", "keypoint_labels.jsonl", "notes.jsonl"):
        (tmp_path / name).touch()
    tables = list_table_files(tmp_path)
    assert list(tables) == ["video", "caption", "keypoint_label", "rating"]
    assert tables["rating"] == tmp_path / "ratings.csv"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "videos is missing"),
        (["videos.csv"], "captions is missing"),
        (["videos.csv", "captions.csv", "captions.parquet"], r"captions\.csv and captions\.parquet"),
    ],
)
def test_unusable_folders_are_refused_in_one_sentence(tmp_path: Path, names: list[str], message: str) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(ManifestError, match=message):
        list_table_files(tmp_path)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="no such folder"):
        list_table_files(tmp_path / "none")


def test_dimensions_are_those_of_omnidcbench_or_the_folders_own(tmp_path: Path) -> None:
    assert read_declarations(tmp_path).dimensions == DIMENSIONS
    longest = "x" * 40
    written(tmp_path, "dimensions.json", b'\xef\xbb\xbf ["statement", "a_1",\n "%s"]\n' % longest.encode())
    assert read_declarations(tmp_path).dimensions == ("statement", "a_1", longest)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b'["events"', "the JSON stops after 9 characters"),
        (b"", "the JSON stops after 0 characters"),
        (b'{"events": 1}', "it is not a list of names"),
        (b"[]", "it is not a list of names"),
        (b'["events", "Mood"]', "'Mood' is not a valid name"),
        (b'["1st"]', "'1st' is not a valid name"),
        (b'[""]', "'' is not a valid name"),
        (b'["a\\n"]', r"'a\\n' is not a valid name"),
        (b'["caf\xe9"]', "byte 6 is not valid UTF-8"),
        (b'["x%s"]' % (b"x" * 40), "'x{41}' is not a valid name"),
        (b"[5]", "5 is not a valid name"),
        (b'["events", "mood", "events"]', "'events' occurs twice"),
        (b'["events"]' + b" " * 2**20, "it has more than 1048576 bytes"),
    ],
)
def test_bad_dimensions_are_refused_in_one_sentence(tmp_path: Path, content: bytes, fault: str) -> None:
    written(tmp_path, "dimensions.json", content)
    with pytest.raises(ManifestError, match=rf"^dimensions\.json: {fault}.*: give a JSON list of distinct names"):
        read_declarations(tmp_path)


@pytest.mark.parametrize("name", ["ratings.jsonl", "ratings.csv", "ratings.parquet", "ratings.txt"])
def test_a_table_that_cannot_be_opened_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ManifestError, match=name):
        read(tmp_path / name)


# JSON Lines

JSON_LINES: list[tuple[bytes, str]] = [
    (b'{"value": NaN}', "nan"),
    (b'{"value": [Infinity]}', "nan"),
    (b'{"value": -Infinity}', "nan"),
    (b'{"value": 1e400}', "not_finite"),
    (b'{"value": -1e400}', "not_finite"),
    (b'{"value": ' + b"9" * 301 + b"}", "out_of_range"),
    (b'{"value": -' + b"9" * 5000 + b"}", "out_of_range"),
    (b'{"value": 5', "json_truncated"),
    (b'{"value": 1.', "json_truncated"),
    (b'{"value": 1e+', "json_truncated"),
    (b'{"value": -', "json_truncated"),
    (b'{"value": tru', "json_truncated"),
    (b'{"value":', "json_truncated"),
    (b'{"value"', "json_truncated"),
    (b'{"val', "json_truncated"),
    (b'{"value": 5,', "json_truncated"),
    (b'{"rater": "ab\\', "json_truncated"),
    (b'{"rater": "ab\\u00', "json_truncated"),
    (b'{"rater": "ab\r', "json_truncated"),
    (b"{", "json_truncated"),
    (b'{"value": 5}}', "json_invalid"),
    (b'{"value": 5,}', "json_invalid"),
    (b"{'value': 5}", "json_invalid"),
    (b'{"value": 05}', "json_invalid"),
    (b'{"value": True}', "json_invalid"),
    (b'{"rater": "a\x00b"}', "json_invalid"),
    (b'{"rater": "a\tb"}', "json_invalid"),
    (b'{"rater": "\\x41"}', "json_invalid"),
    (b'{"rater": "he said "hi" twice"}', "json_invalid"),
    (b'\xef\xbb\xbf{"value": 5}', "json_invalid"),
    (b"value", "json_invalid"),
    (b"[]", "not_an_object"),
    (b"5", "not_an_object"),
    (b'"text"', "not_an_object"),
    (b"null", "not_an_object"),
    (b'{"value": 5, "value": 5}', "duplicate_key"),
    (b'{"more": {"a": 1, "b": 2, "a": 3}}', "duplicate_key"),
    (b'{"rater": "caf\xe9"}', "invalid_utf8"),
    (b'{"rater": "\xed\xa0\xbd"}', "invalid_utf8"),
    (b'{"rater": "\xc0\x80"}', "invalid_utf8"),
    (b'{"a": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", "too_deep"),
    (b'{"a": ' + b"[" * 200_000, "too_deep"),
    (b'{"a":' * 33 + b"1" + b"}" * 33, "too_deep"),
    (b'{"a":' + b"[" * 31, "json_truncated"),
    (b'{"a":' + b"[" * 32, "too_deep"),
    (b'{"a": "\\\\", "b": ' + b"[" * 20_000, "too_deep"),
    (b'{"a": "\\"", "b": ' + b"[" * 20_000, "too_deep"),
]


@pytest.mark.parametrize(("line", "code"), JSON_LINES)
def test_broken_lines_get_their_code_and_the_next_row_is_read(tmp_path: Path, line: bytes, code: str) -> None:
    good = json.dumps(RATING).encode()
    path = written(tmp_path, "ratings.jsonl", good + b"\n" + line + b"\n" + good)
    rows = read(path)
    assert codes(rows) == [(1, "valid"), (2, code), (3, "valid")]
    assert rows[1].source == "ratings.jsonl"
    assert rows[1].raw == line[:2000].rstrip(b"\r").decode("utf-8", "backslashreplace").replace("\x00", "\\x00")


def test_brackets_inside_texts_do_not_count_as_nesting(tmp_path: Path) -> None:
    text = '\\"[{' * 100 + "\\\\"
    line = f'{{"caption_id": "c", "rater": "{text}", "aspect": "x", "value": 1, "more": {"[" * 31 + "]" * 31}}}'
    assert codes(read(written(tmp_path, "ratings.jsonl", line.encode()))) == [(1, "valid")]


def test_many_brackets_side_by_side_are_not_deep(tmp_path: Path) -> None:
    line = json.dumps({**RATING, "more": [[1], {"a": []}] * 500})
    assert codes(read(written(tmp_path, "ratings.jsonl", line.encode()))) == [(1, "valid")]


def test_lines_are_split_at_the_line_feed_only(tmp_path: Path) -> None:
    row = {**RATING, "rater": "one\u2028two\u2029three"}
    line = json.dumps(row, ensure_ascii=False).encode()
    path = written(tmp_path, "ratings.jsonl", b"\xef\xbb\xbf" + line + b"\r\n\n \t\r\n" + line + b"\r\n" + line)
    rows = read(path)
    assert codes(rows) == [(1, "valid"), (4, "valid"), (5, "valid")]
    assert [raw.fields for raw in rows] == [row] * 3


def test_a_line_beyond_the_limit_is_skipped_in_bounded_memory(tmp_path: Path) -> None:
    good = json.dumps(RATING).encode() + b"\n"
    path = tmp_path / "ratings.jsonl"
    with path.open("wb") as file:
        file.write(good)
        for _ in range(8):
            file.write(b"x" * MAX_ROW_BYTES)
        file.write(b"\n" + good)
    tracemalloc.start()
    rows = read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert codes(rows) == [(1, "valid"), (2, "too_long"), (3, "valid")]
    assert peak < 4 * MAX_ROW_BYTES


def test_a_line_at_the_limit_is_read(tmp_path: Path) -> None:
    good = json.dumps(RATING).encode()
    path = written(tmp_path, "ratings.jsonl", good.ljust(MAX_ROW_BYTES - 1) + b"\n" + good.ljust(MAX_ROW_BYTES))
    assert codes(read(path)) == [(1, "valid"), (2, "too_long")]


def test_reading_is_lazy(tmp_path: Path) -> None:
    path = written(tmp_path, "ratings.jsonl", json.dumps(RATING).encode() + b"\n" + b"{" * 100)
    assert next(read_table(path, "rating")).line == 1


@pytest.mark.parametrize(
    ("name", "content", "n_rows"),
    [
        ("ratings.jsonl", b'\xef\xbb\xbf{"a": 1}\n\n \t\r\n{"broken\n[]\n{"text": "\xe2\x80\xa8"}', 4),
        ("ratings.jsonl", b"", 0),
        ("ratings.csv", b'caption_id,rater\nc1,"two\nlines"\n\nc2\n', 2),
    ],
)
def test_rows_are_counted_as_they_are_read(tmp_path: Path, name: str, content: bytes, n_rows: int) -> None:
    path = written(tmp_path, name, content)
    assert count_table_rows(path, "rating") == len(read(path)) == n_rows


def test_all_content_of_a_table_is_passed_on_once_while_its_rows_are_read(tmp_path: Path) -> None:
    header, late = "caption_id,note\n", "".join(f"c{n},ä\n" for n in range(40_000))
    contents = {
        "captions.jsonl": b'\xef\xbb\xbf{"a": 1}\n\n{"broken\n',
        "videos.jsonl": '{"a": "ä"}\n'.encode("utf-16"),
        "ratings.csv": (header + "c,a\n" * 100_000 + late).encode("cp1252"),
        "qa.csv": (header + late).encode("utf-16"),
    }
    paths = [written(tmp_path, name, content) for name, content in contents.items()]
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "keypoints.parquet")
    for path in [*paths, tmp_path / "keypoints.parquet"]:
        content = TableContent()
        assert list(read_table(path, "rating", content=content))
        with open_table(path) as file:
            whole = b"".join(iter(lambda: file.read(1000), b""))
            assert (content.compute_sha256(), content.encoding) == (hashlib.sha256(whole).digest(), file.encoding)


@pytest.mark.parametrize("name", ["ratings.jsonl", "ratings.csv"])
def test_counting_names_a_table_that_cannot_be_opened(tmp_path: Path, name: str) -> None:
    with pytest.raises(ManifestError, match=name):
        count_table_rows(tmp_path / name, "rating")


# Mixed files


def test_mixed_rows_carry_their_kind_and_lose_the_field(tmp_path: Path) -> None:
    lines = [{"kind": "rating", **RATING}, {"kind": "moods"}, {"video_id": "v"}, {"kind": ["rating"]}, [1]]
    path = written(tmp_path, "mixed.jsonl", "\n".join(map(json.dumps, lines)).encode())
    rows = list(read_table(path, None))
    assert [row.kind for row in rows] == ["rating"] + ["unknown"] * 4
    assert rows[0].fields == RATING
    unknown = [(line, "unknown_kind") for line in (2, 3, 4)]
    assert codes(rows) == [(1, "valid"), *unknown, (5, "not_an_object")]


def check_storable(row: RawRow) -> None:
    result = validate_row(row)
    if isinstance(result, Reject):
        assert result.code in CODES
        for text in (row.raw, result.reason):
            assert "\x00" not in text
            text.encode("utf-8")
    else:
        assert len(result.content_sha256) == 32


FRAGMENTS = st.sampled_from(
    [
        *(b'{"kind": "caption", ', b'"text": "', b'"segments": [{', b'"value": 5', b'"', b"\\", b"\\ud83d", b"}", b"]"),
        *(b"[" * 40, b"NaN", b"1e999", b"\xef\xbb\xbf", b"\xff", b"\x00", b"\r", b"\n", b",", b":", b" "),
    ]
)
HOSTILE = st.lists(FRAGMENTS | st.binary(max_size=20), max_size=30).map(b"".join)


@given(content=HOSTILE)
def test_no_bytes_make_the_reader_of_mixed_files_raise(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = written(tmp_path_factory.getbasetemp(), "hostile.jsonl", content)
    rows = list(read_table(path, None))
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    assert [row.line for row in rows] == [number for number, line in enumerate(lines, 1) if line.strip()]
    for row in rows:
        check_storable(row)


@given(content=st.lists(FRAGMENTS | st.sampled_from([b'""', b'"a\n', b'b",']), max_size=40).map(b"".join))
def test_no_bytes_make_the_reader_of_csv_raise(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = written(tmp_path_factory.getbasetemp(), "hostile.csv", b"caption_id,text,segments\n" + content)
    lines = [row.line for row in read_table(path, "caption")]
    assert lines == sorted(set(lines))
    for row in read_table(path, "caption"):
        check_storable(row)


# CSV


def test_cells_get_the_types_of_their_fields(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "captions.csv",
        b"caption_id,video_id,role,text,segments,value,covered\r\n"
        b'1,v,reference,"two ""quoted"",\r\nlines","[{""start_s"": 0, ""end_s"": 1}]",05,true\r\n',
    )
    [row] = read(path, "caption")
    assert row.fields == {
        "caption_id": "1",
        "video_id": "v",
        "role": "reference",
        "text": 'two "quoted",\r\nlines',
        "segments": [{"start_s": 0, "end_s": 1}],
        "value": "05",
        "covered": "true",
    }


@pytest.mark.parametrize(
    ("kind", "name", "cell", "value"),
    [
        ("rating", "value", "5", 5),
        ("rating", "value", "5.0", 5),
        ("rating", "value", "+5", 5),
        ("rating", "value", "5.5", 5.5),
        ("rating", "value", "five", "five"),
        ("rating", "value", " 5", " 5"),
        ("rating", "value", "1_0", "1_0"),
        ("rating", "value", "nan", "nan"),
        ("rating", "value", "\u0665", "\u0665"),
        ("rating", "value", "1e400", float("inf")),
        ("keypoint", "segment_index", "0", 0),
        ("video", "duration_s", "12", 12.0),
        ("video", "duration_s", "1.5e1", 15.0),
        ("video", "duration_s", "inf", "inf"),
        ("keypoint_label", "covered", "true", True),
        ("keypoint_label", "covered", "False", False),
        ("keypoint_label", "covered", "1", "1"),
        ("caption", "segments", "[]", []),
    ],
)
def test_cells_are_converted_only_where_they_fit(tmp_path: Path, kind: str, name: str, cell: str, value: Any) -> None:
    [row] = read(written(tmp_path, "table.csv", f"id,{name}\n1,{cell}\n".encode()), kind)
    assert row.fields == {"id": "1", name: value}
    assert type(row.fields[name]) is type(value)


def test_an_empty_cell_and_a_missing_column_are_absent_fields(tmp_path: Path) -> None:
    path = written(tmp_path, "ratings.csv", b"caption_id,rater,value\nc,r,5\nc,,5\n")
    rows = read(path)
    assert rows[1].fields == {"caption_id": "c", "value": 5}
    assert codes(rows) == [(2, "missing_field"), (3, "missing_field")]


HEADER = b"caption_id,rater,aspect,value,more\n"


@pytest.mark.parametrize(
    ("record", "code"),
    [
        (b"c,r,a,5\n", "csv_invalid"),
        (b"c,r,a,5,x,y\n", "csv_invalid"),
        (b'c,r,a,5,"x"y\n', "csv_invalid"),
        (b"c,r,a,5,x\ry\n", "csv_invalid"),
        (b"c,r,a,5,\xff\n", "invalid_utf8"),
        (b'c,r,a,5,"\xff\ny"\n', "invalid_utf8"),
        (b"c,r,a,5,\x00\n", "nul_character"),
        (b"c,r,a,5,\x07\n", "control_characters"),
        (b"c,r,a,five,x\n", "wrong_type"),
        (b"c,r,a,5," + b"x" * 140_000 + b"\n", "too_long"),
        (b"c,r,a,5," + b"x" * MAX_ROW_BYTES + b"\n", "too_long"),
        (b"c,r,a,5," + b"x" * 110_000 + b"\n", "too_long"),
    ],
)
def test_broken_records_get_their_code_and_the_next_is_read(tmp_path: Path, record: bytes, code: str) -> None:
    good = b'c,r,a,5,"two\nlines"\n'
    rows = read(written(tmp_path, "ratings.csv", b"\xef\xbb\xbf" + HEADER + good + b"\n\r\n" + record + good))
    after = 6 + record.count(b"\n")
    assert codes(rows) == [(2, "valid"), (6, code), (after, "valid")]


@pytest.mark.parametrize("more_rows", [3, 20_000])
def test_a_quote_that_is_never_closed_costs_one_row_only(tmp_path: Path, more_rows: int) -> None:
    path = written(tmp_path, "ratings.csv", HEADER + b'c,r,a,5,"open\n' + b"c,r,a,5,x\n" * more_rows)
    rows = read(path)
    assert [row.line for row in rows] == list(range(2, more_rows + 3))
    assert [row.line for row in rows if row.reject is not None] == [2]


def test_an_endless_record_is_given_up(tmp_path: Path) -> None:
    line = b'","' + b"x" * 100_000 + b"\n"
    rows = read_table(written(tmp_path, "ratings.csv", HEADER + b'"\n' + line * 90), "rating")
    first = next(rows)
    assert first.line == 2
    assert first.reject is not None
    assert first.reject.code == "too_long"


def test_quotes_that_never_balance_cost_linear_time_and_lost_lines_are_reported(tmp_path: Path) -> None:
    # Read again from every line, these 30,000 lines would take 450 million steps.
    # Such a line leaves a quote open both when it starts a record and when it starts inside a quote.
    rows = read(written(tmp_path, "ratings.csv", HEADER + b'",x","""z\n' * 30_000))
    assert [row.line for row in rows] == list(range(2, len(rows) + 2))
    assert rows[-1].reject is not None
    assert rows[-1].reject.reason.endswith("the lines up to 30001 could not be read")


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"a,a\n", b"a,,b\n", b"a,\xff\n", b'a,"b\n', b"x" * (MAX_ROW_BYTES + 1)]
)
def test_csv_without_a_usable_header_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ManifestError, match=r"^ratings\.csv(, header line|: the header)"):
        read(written(tmp_path, "ratings.csv", content))


@pytest.mark.parametrize(("separator", "shown"), [(";", "';'"), ("\t", "'.t'"), ("|", "'.'")])
def test_csv_with_another_separator_is_named_as_such(tmp_path: Path, separator: str, shown: str) -> None:
    content = separator.join(RATING).encode() + b"\n" + separator.join("cra5").encode() + b"\n"
    message = rf"ratings\.csv: the columns seem to be separated by {shown}: save the file with commas"
    with pytest.raises(ManifestError, match=message):
        read(written(tmp_path, "ratings.csv", content))


@pytest.mark.parametrize(
    ("cell", "code"),
    [("0-3: a person", "json_invalid"), ("[NaN]", "nan"), ("[" * 99, "too_deep"), ('"text"', "wrong_type")],
)
def test_cells_of_segments_are_strict_json(tmp_path: Path, cell: str, code: str) -> None:
    path = tmp_path / "captions.csv"
    write_csv(path, [{"caption_id": "c", "video_id": "v", "role": "reference", "text": "t", "segments": cell}])
    [row] = read(path, "caption")
    assert codes([row]) == [(2, code)]


# Parquet


def write_parquet(path: Path, columns: dict[str, Any]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_parquet_types_fit_their_fields(tmp_path: Path) -> None:
    path = write_parquet(
        tmp_path / "ratings.parquet",
        {
            "caption_id": pa.array(["c", "c", "c", "c"]).dictionary_encode(),
            "rater": pa.array(["r"] * 4, pa.large_string()),
            "aspect": ["a"] * 4,
            "value": pa.array([1.0, 5.0, 4.5, None], pa.float32()),
            "more": pa.array([None, 3, None, None], pa.int8()),
            "on": pa.array([0, None, 1, 2], pa.timestamp("ms")),
        },
    )
    rows = read(path)
    assert [row.fields and row.fields.get("value") for row in rows] == [1, 5, 4.5, None]
    assert rows[0].fields == {
        "caption_id": "c", "rater": "r", "aspect": "a", "value": 1, "on": "1970-01-01 00:00:00.000"
    }  # fmt: skip
    assert codes(rows) == [(1, "valid"), (2, "valid"), (3, "wrong_type"), (4, "missing_field")]


def test_nulls_inside_structs_are_absent_fields(tmp_path: Path) -> None:
    segment = pa.struct([("start_s", pa.int32()), ("end_s", pa.float64()), ("text", pa.string())])
    path = write_parquet(
        tmp_path / "captions.parquet",
        {
            "caption_id": ["c", "d"], "video_id": ["v", "v"], "role": ["reference"] * 2, "text": ["t", "t"],
            "segments": pa.array(
                [[{"start_s": 0, "end_s": 1.0, "text": None}], [{"start_s": None, "end_s": 1.0}]], pa.list_(segment)
            ),
        },
    )  # fmt: skip
    rows = read(path, "caption")
    assert rows[0].fields is not None
    assert rows[0].fields["segments"] == [{"start_s": 0, "end_s": 1.0}]
    assert codes(rows) == [(1, "valid"), (2, "missing_field")]


def test_values_that_json_lacks_are_refused_row_by_row(tmp_path: Path) -> None:
    broken = pa.StringArray.from_buffers(2, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"\xffr"))
    columns = {"caption_id": ["c", "c"], "rater": broken, "aspect": ["a", "a"], "value": [5, 5]}
    rows = read(write_parquet(tmp_path / "ratings.parquet", columns))
    assert codes(rows) == [(1, "invalid_utf8"), (2, "valid")]
    columns = {**columns, "rater": ["r", "r"], "more": pa.array([b"bytes", None], pa.binary())}
    assert codes(read(write_parquet(tmp_path / "ratings.parquet", columns))) == [(1, "wrong_type"), (2, "valid")]
    columns = {**columns, "more": [float("nan"), 1.0]}
    assert codes(read(write_parquet(tmp_path / "ratings.parquet", columns))) == [(1, "nan"), (2, "valid")]


def test_rows_are_numbered_across_batches_and_row_groups(tmp_path: Path) -> None:
    n = 2500
    table = pa.table({"caption_id": ["c"] * n, "rater": ["r"] * n, "aspect": ["a"] * n, "value": [5] * n})
    path = tmp_path / "ratings.parquet"
    pq.write_table(table, path, row_group_size=1100)
    assert codes(read(path)) == [(number, "valid") for number in range(1, n + 1)]


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_damaged_parquet_is_refused_by_name(tmp_path: Path, keep: int) -> None:
    path = write_parquet(tmp_path / "ratings.parquet", {"value": list(range(1000))})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ManifestError, match=r"ratings\.parquet"):
        read(path)


def test_a_damaged_page_is_refused_by_name(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "ratings.parquet", {"value": list(range(1000))})
    content = bytearray(path.read_bytes())
    content[4:200] = b"\xff" * 196
    path.write_bytes(content)
    with pytest.raises(ManifestError, match=r"ratings\.parquet"):
        read(path)


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "ratings.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["value", "value"]), path)
    with pytest.raises(ManifestError, match="same name"):
        read(path)


SECOND = 10**6
TIMES = [
    (
        pa.timestamp("ms"),
        -62_135_596_800_000,
        253_402_300_799_999,
        "0001-01-01 00:00:00.000",
        "9999-12-31 23:59:59.999",
    ),
    (
        pa.timestamp("us", "UTC"),
        0,
        253_402_300_799 * SECOND,
        "1970-01-01 00:00:00.000000Z",
        "9999-12-31 23:59:59.000000Z",
    ),
    (pa.date32(), -719_162, 2_932_896, "0001-01-01", "9999-12-31"),
    (pa.time32("ms"), 0, 86_399_999, "00:00:00.000", "23:59:59.999"),
    (pa.time64("us"), 0, 86_400 * SECOND - 1, "00:00:00.000000", "23:59:59.999999"),
]


@pytest.mark.parametrize(("arrow_type", "first", "last", "first_text", "last_text"), TIMES, ids=str)
def test_times_out_of_range_are_refused_and_the_others_kept(
    tmp_path: Path, arrow_type: Any, first: int, last: int, first_text: str, last_text: str
) -> None:
    integers = pa.int32() if arrow_type.bit_width == 32 else pa.int64()
    far = 2 ** (arrow_type.bit_width - 1) - 1
    numbers = [first, last + 10**6, last, -far, far, None]
    on = pa.array(numbers, integers).view(arrow_type)
    columns = {name: [value] * len(numbers) for name, value in RATING.items()}
    rows = read(write_parquet(tmp_path / "ratings.parquet", {**columns, "on": on}))
    refused = "out_of_range"
    assert codes(rows) == list(enumerate(["valid", refused, "valid", refused, refused, "valid"], start=1))
    assert [row.fields.get("on") for row in rows if row.fields] == [first_text, last_text, None]
    assert rows[1].reject is not None
    assert rows[1].reject.reason.startswith("field 'on' is no time of a day, or no date of the years 1 to 9999")
    assert "value out of range" not in "".join(row.raw for row in rows)


@pytest.mark.parametrize("unit", ["ms", "ns"])
def test_times_in_lists_cost_their_row_only(tmp_path: Path, unit: str) -> None:
    on = pa.array([[2**62 + 1], None, [0]], pa.list_(pa.timestamp(unit)))
    columns = {name: [value] * 3 for name, value in RATING.items()}
    rows = read(write_parquet(tmp_path / "ratings.parquet", {**columns, "on": on}))
    assert codes(rows) == [(1, "wrong_type"), (2, "valid"), (3, "wrong_type")]


def rows_of_size(size: int) -> dict[str, list[Any]]:
    """Three ratings, of which the second takes so many bytes as JSON, give or take a hundred."""
    text = "\u8dd1" * 30_000
    long = [text] * (size // (3 * 30_000 + 4)) + ["x" * (size % (3 * 30_000 + 4))]
    return {**{name: [value] * 3 for name, value in RATING.items()}, "more": [["a"], long, ["b"]]}


@pytest.mark.parametrize(("size", "code"), [(MAX_ROW_BYTES - 300, "valid"), (MAX_ROW_BYTES + 300, "too_long")])
def test_a_row_has_one_limit_in_lines_and_in_parquet(tmp_path: Path, size: int, code: str) -> None:
    columns = rows_of_size(size)
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    want = [(1, "valid"), (2, code), (3, "valid")]
    assert codes(read(written(tmp_path, "ratings.jsonl", lines.encode()))) == want
    assert codes(read(write_parquet(tmp_path / "ratings.parquet", columns))) == want


ENDLESS = [
    ("numbers", pa.array([[], [0] * 5_000_000, []], pa.list_(pa.int64()))),
    ("nothing", pa.array([[], [None] * 5_000_000, []], pa.list_(pa.null()))),
    ("structs", pa.array([[], [{"a": 1}] * 3_000_000, []], pa.list_(pa.struct([("a", pa.int8())])))),
    ("texts", pa.array(["x", "x" * 9_000_000, "x"]).dictionary_encode()),
]


@pytest.mark.parametrize(("name", "column"), ENDLESS, ids=[name for name, _ in ENDLESS])
def test_a_long_parquet_row_is_refused_before_it_is_unpacked(tmp_path: Path, name: str, column: Any) -> None:
    columns = {**{name: [value] * 3 for name, value in RATING.items()}, "more": column}
    columns["caption_id"] = ["first", "second", "third"]
    path = write_parquet(tmp_path / "ratings.parquet", columns)
    tracemalloc.start()
    rows = read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [row.reject and row.reject.code for row in rows] == [None, "too_long", None]
    assert "second" in rows[1].raw
    # As Python values these take 40 MB and more.
    assert peak < 2 * 2**20


# The three formats are one


@pytest.mark.parametrize(("zero", "is_same"), [("-0.0", True), ("-0e5", True), ("-0", False)])
def test_zero_has_no_sign(tmp_path: Path, zero: str, is_same: bool) -> None:
    # Whole zero is another JSON than 0.0, with a sign or without.
    fields = '"caption_id": "c", "rater": "r", "aspect": "a", "value": 5, "more"'
    lines = f'{{{fields}: [{zero}, {{"x": {zero}}}]}}\n{{{fields}: [0.0, {{"x": 0.0}}]}}\n'
    signed, plain = (validate_row(row) for row in read(written(tmp_path, "ratings.jsonl", lines.encode())))
    assert not isinstance(signed, Reject)
    assert not isinstance(plain, Reject)
    assert "-" not in json.dumps(signed.content)
    assert (signed.content_sha256 == plain.content_sha256) is is_same
    columns = {name: [value] for name, value in {**RATING, "aspect": "a", "flat": -0.0}.items()}
    nested = pa.array([[-0.0]], pa.list_(pa.float32()))
    (row,) = read(write_parquet(tmp_path / "ratings.parquet", {**columns, "more": nested}))
    assert row.fields is not None
    assert str([row.fields["flat"], row.fields["more"]]) == "[0.0, [0.0]]"


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        for row in rows:
            writer.writerow({k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()})


def in_three_formats(folder: Path, kind: str, rows: list[dict[str, Any]]) -> list[list[ValidRow | Reject]]:
    name = MANIFEST_TABLES[kind].name
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (folder / f"{name}.jsonl").write_bytes(lines.encode())
    write_csv(folder / f"{name}.csv", rows)
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    suffixes = ("jsonl", "csv", "parquet")
    return [[validate_row(row) for row in read_table(folder / f"{name}.{suffix}", kind)] for suffix in suffixes]


def test_the_pack_is_the_same_in_all_formats(shared_data: Path, tmp_path: Path) -> None:
    for kind, path in list_table_files(shared_data / "clips").items():
        rows = [json.loads(line) for line in path.read_bytes().splitlines()]
        from_json, from_csv, from_parquet = in_three_formats(tmp_path, kind, rows)
        assert not any(isinstance(row, Reject) for row in from_json)
        assert from_json == from_csv == from_parquet
        hashes = [[row.content_sha256 for row in found] for found in (from_json, from_csv, from_parquet)]  # type: ignore[union-attr]  # checked above
        assert hashes[0] == hashes[1] == hashes[2]


FILLERS = "\u115f\u1160\u3164\uffa0\u2800"
# Every text shows something: one of marks and spaces alone is refused, see test_ingest_rows.py.
TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('\t\n\r",'), min_size=1, max_size=20
).filter(lambda text: any(unicodedata.category(each)[0] in "LNPS" and each not in FILLERS for each in text))
SEGMENTS = st.lists(
    st.builds(
        lambda start, length, text: {"start_s": start, "end_s": start + length, "text": text},
        st.floats(0, 1000),
        st.floats(0.5, 10),
        TEXT,
    ),
    min_size=1,
    max_size=3,
)
REQUIRED: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "video": {"video_id": TEXT},
    "caption": {"caption_id": TEXT, "video_id": TEXT, "role": st.just("reference"), "text": TEXT},
    "keypoint": {"keypoint_id": TEXT, "video_id": TEXT, "dimension": st.sampled_from(DIMENSIONS), "text": TEXT},
    "keypoint_label": {"keypoint_id": TEXT, "caption_id": TEXT, "covered": st.booleans()},
    "qa": {"qa_id": TEXT, "video_id": TEXT, "question": TEXT, "answer": TEXT},
    "rating": {"caption_id": TEXT, "rater": TEXT, "aspect": TEXT, "value": st.integers(1, 5)},
    "vector": {"video_id": TEXT, "encoder": TEXT, "vector": st.lists(st.floats(0.1, 10), min_size=1, max_size=3)},
}
OPTIONAL: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "video": {"path": TEXT, "note": TEXT, "duration_s": st.floats(1e-3, 1e6)},
    "caption": {"system": TEXT, "segments": SEGMENTS},
    "keypoint": {"segment_index": st.integers(0, 2**31 - 1)},
    "keypoint_label": {},
    "qa": {"system": TEXT, "quality": TEXT},
    "rating": {},
    "vector": {},
}


@given(kind=st.sampled_from(list(MANIFEST_TABLES)), data=st.data())
def test_any_good_rows_are_the_same_in_all_formats(
    tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject
) -> None:
    row = st.fixed_dictionaries(REQUIRED[kind], optional={**OPTIONAL[kind], "anything else": TEXT})
    rows = data.draw(st.lists(row, min_size=1, max_size=4))
    from_json, from_csv, from_parquet = in_three_formats(tmp_path_factory.getbasetemp(), kind, rows)
    assert len(from_json) == len(rows)
    assert not any(isinstance(found, Reject) for found in from_json)
    assert from_json == from_csv
    assert from_json == from_parquet
