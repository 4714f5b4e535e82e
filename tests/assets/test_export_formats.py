"""Every format is loaded with the library that its users use, and says the same as the rows of the database."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from pathlib import Path
from typing import Any

import pandas
import pyarrow.parquet as pq
import pytest
import webdataset
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from assets.selection.export import export_selection
from assets.selection.export_input import load_export_input, require_all_rows
from assets.selection.export_target import ExportFormat
from assets.selection.formats.hugging_face import write_hugging_face
from assets.selection.formats.json_lines import write_json_lines
from assets.selection.formats.parquet import write_parquet
from assets.selection.formats.spreadsheet import escape_formulas, unescape_formulas, write_csv
from db.selection.exports import ExportColumn, load_export_batches
from tests.assets.exporting import ORDER, TEXTS, Clips, from_cell, from_table, make_clips, media_bytes, origin, sha256


@pytest.fixture(scope="module")
def clips(module_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Clips:
    return make_clips(module_engine, tmp_path_factory.mktemp("media"))


def expected(number: int) -> dict[str, Any]:
    """A row as `make_clips` meant it, the metrics aside."""
    text = TEXTS[number]
    is_qa, annotators = number == 2, ("b", "a")[: number % 3]
    return {
        "rank": number + 1,
        "value": 1 - number / 10,
        "dataset": "clips",
        "kind": "qa" if is_qa else "caption",
        "sample": f"s.{number}/x",
        "system": "brief",
        "video": f"v{number}",
        "media": f"{'odd' if number % 2 else 'even'}/clip {number}.MP4",
        "duration_s": number + 0.1,
        "content_sha256": sha256(number),
        **origin(number),
        "text": text,
        "question": "+why?" if is_qa else None,
        "answer": "-because" if is_qa else None,
        "segments": [{"start_s": 0.5, "end_s": 2, "text": "=a"}] if number == 3 else None,
        "references": [f"={annotator} says {text!r}" for annotator in sorted(annotators)] or None,
        "tags": ["=good", "in two\nlines"] if number == 1 else None,
        "extra": {"source": "=web", "tags": ["a", None, 1.5]} if number == 1 else None,
        "video_extra": {"camera": number} if number % 3 == 0 else None,
    }


def check(rows: list[dict[str, Any]]) -> None:
    """The rows are those of `make_clips`, in order, their columns too, with times and own fields as objects."""
    assert len(rows) == len(TEXTS)
    for number, row in enumerate(rows):
        assert list(row)[: len(ORDER)] == ORDER
        assert {name: row[name] for name in ORDER} == expected(number)
        assert (row["vcs"], row["vcs_models"]) == (1 - number / 10, "tiny")
        assert (row["evqa"], row["evqa_models"]) == (None, "tiny" if number < 3 else None)


def test_parquet_by_pyarrow_and_pandas(module_engine: Engine, clips: Clips, tmp_path: Path) -> None:
    path = export_selection(module_engine, clips.selection_id, tmp_path / "best.parquet").path
    check(from_table(pq.read_table(path).to_pylist()))
    frame = pandas.read_parquet(path)
    assert list(frame.columns)[: len(ORDER)] == ORDER
    assert frame["text"].tolist() == list(TEXTS)
    assert frame["value"].dtype == "float64"
    assert frame["evqa"].isna().all()


def test_json_lines_by_json_and_pandas(module_engine: Engine, clips: Clips, tmp_path: Path) -> None:
    path = export_selection(module_engine, clips.selection_id, tmp_path / "best.jsonl").path
    with path.open(encoding="utf-8", newline="\n") as file:
        check([json.loads(line) for line in file])
    frame = pandas.read_json(path, lines=True, dtype=False)
    assert frame["text"].tolist() == list(TEXTS)
    assert frame["references"][2] == expected(2)["references"]


def test_csv_by_the_standard_library_and_pandas(module_engine: Engine, clips: Clips, tmp_path: Path) -> None:
    path = export_selection(module_engine, clips.selection_id, tmp_path / "best.csv").path
    with path.open(encoding="utf-8-sig", newline="") as file:
        cells = list(csv.DictReader(file))
    check([{name: from_cell(name, cell) for name, cell in row.items()} for row in cells])
    frame = pandas.read_csv(path, keep_default_na=False, dtype=str)
    assert list(frame.columns)[: len(ORDER)] == ORDER
    assert [from_cell("text", cell) for cell in frame["text"]] == list(TEXTS)


def test_no_cell_of_a_spreadsheet_begins_a_formula(module_engine: Engine, clips: Clips, tmp_path: Path) -> None:
    """Read with a comma, a semicolon or a tab between cells, as spreadsheets of several countries read it."""
    path = export_selection(module_engine, clips.selection_id, tmp_path / "best.csv").path
    for separator in (",", ";", "\t"):
        with path.open(encoding="utf-8-sig", newline="") as file:
            cells = [cell for row in csv.reader(file, delimiter=separator) for cell in row]
        begun = [cell for cell in cells if re.match(r"\s*[=+\-@＝＋－＠]", cell)]
        # The last value and score are below zero; a number is no text of the dataset.
        assert set(begun) <= {"-0.10000000000000009"}


formulas = st.text(st.sampled_from("=+-@'; \t\r\n\"a,＝"), max_size=12)


@given(formulas | st.text(max_size=30))
@example(";';=")
@example("'\t\t=")
@example("; '=")
def test_a_guarded_text_comes_back_and_begins_no_formula(text: str) -> None:
    cell = escape_formulas(text)
    assert unescape_formulas(cell) == text
    for part in re.split(r"[;\t\r\n]", cell):
        assert not re.match(r"[ \u00a0\u3000]*[=+\-@＝＋－＠]", part)


@given(formulas)
@example('\n"=1"')
@example('a;"@a"')
@example(',\t" \t"-1')
def test_no_cell_begins_a_formula_whatever_stands_between_cells(text: str) -> None:
    """A text with commas or quotation marks stands in quotes, which a reader of other separators takes for its own."""
    file = io.BytesIO()
    write_csv(file, [ExportColumn("sample", "text", ""), ExportColumn("text", "text", "")], [[("s", text)]])
    written = file.getvalue().decode("utf-8-sig")
    for separator in ",;\t":
        for row in csv.reader(io.StringIO(written, newline=""), delimiter=separator):
            assert not [cell for cell in row if re.match(r"[ \u00a0\u3000]*[=+\-@＝＋－＠]", cell)]


COLUMNS = (
    ExportColumn("rank", "integer", ""),
    ExportColumn("value", "number", ""),
    ExportColumn("text", "text", ""),
    ExportColumn("question", "text", ""),
    ExportColumn("references", "texts", ""),
    ExportColumn("extra", "json", ""),
)
# What Postgres can hold: neither halves of surrogate pairs nor the character zero.
texts = formulas | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
rows = st.tuples(
    st.integers(1, 2**62),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
    st.none() | texts.filter(bool),
    st.none() | st.lists(texts, min_size=1, max_size=3),
    st.none() | st.dictionaries(texts, texts | st.integers() | st.none(), max_size=3),
)


@given(st.lists(rows, min_size=1, max_size=4))
def test_whatever_stands_in_a_row_is_read_back(made: list[tuple[Any, ...]]) -> None:
    names = [column.name for column in COLUMNS]
    expected_rows = [dict(zip(names, row, strict=True)) for row in made]
    batch = [(*row[:5], None if row[5] is None else json.dumps(row[5])) for row in made]
    lines, cells, table = io.BytesIO(), io.BytesIO(), io.BytesIO()
    write_json_lines(lines, COLUMNS, [batch])
    write_csv(cells, COLUMNS, [batch])
    write_parquet(table, COLUMNS, {"recipe": made[0][2]}, [batch[:1], batch[1:]] if len(batch) > 1 else [batch])
    assert [json.loads(line) for line in lines.getvalue().decode().split("\n")[:-1]] == expected_rows
    read = csv.DictReader(io.TextIOWrapper(io.BytesIO(cells.getvalue()), encoding="utf-8-sig", newline=""))
    assert [{name: from_cell(name, cell) for name, cell in row.items()} for row in read] == expected_rows
    loaded = pq.read_table(io.BytesIO(table.getvalue()))
    assert [
        row | {"extra": None if row["extra"] is None else json.loads(row["extra"])} for row in loaded.to_pylist()
    ] == expected_rows
    assert json.loads(loaded.schema.metadata[b"reelsieve"]) == {"recipe": made[0][2]}


def test_the_folder_by_load_dataset(
    module_engine: Engine, clips: Clips, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    path = export_selection(module_engine, clips.selection_id, tmp_path / "hf", ExportFormat.HUGGING_FACE).path
    loaded = datasets.load_dataset(str(path), cache_dir=str(tmp_path / "cache"))
    assert list(loaded) == ["train"]
    check(from_table(list(loaded["train"])))
    assert loaded["train"].features["references"].feature.dtype == "string"
    streamed = datasets.load_dataset(str(path), split="train", streaming=True)
    assert [row["text"] for row in streamed] == list(TEXTS)


def test_a_folder_of_several_files_is_one_dataset(module_engine: Engine, clips: Clips, tmp_path: Path) -> None:
    import datasets

    with module_engine.connect() as connection:
        reading = load_export_input(connection, clips.selection_id, "hf")
        (batch,) = require_all_rows(reading.frozen, load_export_batches(connection, reading.query), lambda line: None)
    parts = [batch[start : start + 2] for start in range(0, len(batch), 2)]
    write_hugging_face(tmp_path, reading, iter(parts), rows_of_a_file=4)
    assert len(list((tmp_path / "data").iterdir())) == math.ceil(len(TEXTS) / 4)
    loaded = datasets.load_dataset(str(tmp_path), split="train", cache_dir=str(tmp_path / "cache"))
    check(from_table(list(loaded)))


def test_the_shards_by_the_webdataset_package(module_engine: Engine, clips: Clips, tmp_path: Path) -> None:
    path = export_selection(module_engine, clips.selection_id, tmp_path / "wds", ExportFormat.WEB_DATASET).path
    shards = sorted(str(shard) for shard in path.glob("*.tar"))
    samples = list(webdataset.WebDataset(shards, shardshuffle=False).decode())
    check([sample["json"] for sample in samples])
    assert [sample["mp4"] for sample in samples] == [media_bytes(number) for number in range(len(TEXTS))]
    assert [sample["txt"] for sample in samples] == list(TEXTS)
    assert sorted(found.name for found in path.iterdir()) == ["passport.json", "shard-000000.tar"]


def test_the_shards_by_load_dataset(module_engine: Engine, clips: Clips, tmp_path: Path) -> None:
    import datasets

    path = export_selection(module_engine, clips.selection_id, tmp_path / "wds", ExportFormat.WEB_DATASET).path
    shards = [str(shard) for shard in path.glob("*.tar")]
    features = datasets.Features(
        {"__key__": datasets.Value("string"), "txt": datasets.Value("string"), "mp4": datasets.Value("binary")}
    )
    loaded = datasets.load_dataset(
        "webdataset", data_files={"train": shards}, split="train", streaming=True, features=features
    )
    assert [row["txt"] for row in loaded] == list(TEXTS)
