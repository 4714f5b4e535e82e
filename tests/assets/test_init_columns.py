"""Every column of a table has a role, becomes an own field of the manifest, or is named as left out with the reason."""

from __future__ import annotations

import csv
import io
import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.ingest.run import ingest_folder
from assets.new_manifest.columns import ColumnNames, parse_ratings
from assets.new_manifest.findings import NoManifest
from assets.new_manifest.make import NewManifest, create_manifest
from assets.new_manifest.rating_offers import list_rating_offers
from db import schema
from lab.adapters.vatex_eval import convert
from tests.assets.init_sources import Row, left_out, put, rows, texts

VATEX: Row = {
    "video_id": "v1",
    "references": ["A ball rolls.", "A ball."],
    "candidates": [{"text": "A red ball.", "ratings": [5.0, 4.0, 5.0]}, {"text": "A dog.", "ratings": [1.0, 1.0, 2.0]}],
}


def of_lines(folder: Path, *lines: Row, ratings: tuple[str, ...] = ()) -> NewManifest:
    """The manifest of a table of JSON Lines."""
    put(folder, {"t.jsonl": "".join(json.dumps(line) + "\n" for line in lines)})
    return create_manifest(folder, column_names=ColumnNames(ratings=ratings))


def of_cells(folder: Path, *cells: list[str], separator: str = ",", ratings: tuple[str, ...] = ()) -> NewManifest:
    """The manifest of a CSV."""
    text = io.StringIO()
    csv.writer(text, delimiter=separator).writerows(cells)
    put(folder, {"t.csv": text.getvalue()})
    return create_manifest(folder, column_names=ColumnNames(ratings=ratings))


def offers(made: NewManifest) -> list[str]:
    return [offer.sentence for offer in list_rating_offers(made.findings)]


def test_lists_of_candidates_become_samples_with_their_ratings(tmp_path: Path, engine: Engine) -> None:
    made = of_lines(tmp_path / "own", VATEX, ratings=("ratings",))
    assert (made.holdings.captions, made.holdings.references, made.holdings.ratings) == (2, 2, 6)
    assert left_out(made) == {}
    assert rows(made, "ratings")[3] == {
        "caption_id": "v1__candidate_2", "rater": "rater_1", "aspect": "overall", "value": 1
    }  # fmt: skip
    report = ingest_folder(engine, made.folder, "mine")
    assert (report.accepted["captions"], report.accepted["ratings"], report.rejected) == (4, 6, 0)
    offered = of_lines(tmp_path / "offered", VATEX)
    assert rows(offered, "captions")[0]["ratings"] == [5.0, 4.0, 5.0]
    assert offers(offered) == [
        "column 'ratings' holds numbers from 1 to 5: --rating ratings makes them ratings of people, of aspect "
        "'overall' on the scale from 1 to 5"
    ]
    assert not (offered.folder / "ratings.jsonl").exists()


def test_columns_that_nothing_is_known_of_are_named(tmp_path: Path) -> None:
    made = of_lines(tmp_path / "few", {"clip": "v1", "text": "A dog.", "ref": "A cat.", "Ort": "x", "mos": 4.5})
    assert made.findings.guesses[:2] == [
        "video in column 'clip', caption in column 'text', reference in column 'ref'",
        "nothing about 'Ort': --column FIELD=COLUMN gives one a meaning",
    ]
    many = of_lines(tmp_path / "many", {"clip": "v1", "text": "A dog."} | {f"c{place}": 1 for place in range(1, 11)})
    assert many.findings.guesses[1].startswith(
        "nothing about 'c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7', 'c8' and 2 more"
    )
    plain = of_lines(tmp_path / "plain", {"clip": "v1", "text": "A dog.", "licence": "CC0"})
    assert not any(guess.startswith("nothing about") for guess in plain.findings.guesses)


def test_vatex_eval_is_what_its_own_adapter_makes_of_it(tmp_path: Path, shared_data: Path) -> None:
    lines = (shared_data / "vatex_eval" / "vatex_eval.jsonl").read_text().splitlines(keepends=True)[:50]
    source = put(tmp_path, {"vatex.jsonl": "".join(lines)}) / "vatex.jsonl"
    counts = convert(source, tmp_path / "adapter")
    made = create_manifest(source, tmp_path / "init", column_names=ColumnNames(ratings=("ratings",)))
    assert left_out(made) == {}
    assert (made.holdings.captions + made.holdings.references, made.holdings.ratings) == (
        counts["captions"], counts["ratings"]
    )  # fmt: skip

    def rated(folder: Path) -> dict[str, list[int]]:
        read = {
            table: list(map(json.loads, (folder / f"{table}.jsonl").read_text().splitlines()))
            for table in ("captions", "ratings")
        }
        return {
            row["video_id"] + row["text"]: [
                rating["value"] for rating in read["ratings"] if rating["caption_id"] == row["caption_id"]
            ]
            for row in read["captions"]
        }

    assert rated(tmp_path / "init") == rated(tmp_path / "adapter")


def test_a_csv_loses_no_column(tmp_path: Path) -> None:
    made = of_cells(
        tmp_path,
        ["video", "reference", "score", "candidates", "fps", "code", "note", "", "segments"],
        ["v1", "A ball rolls.", "4", "A red ball.", "29.97", "007", "1.5", "0", '[{"start_s": 0, "end_s": 1}]'],
        ["v2", '["A box.", "One box."]', "2.5", '["A blue box.", "A box"]', "30", "012", "dim", "1", ""],
    )
    captions = rows(made, "captions")
    assert [(row["role"], row["text"]) for row in captions] == [
        ("candidate", "A red ball."),
        ("reference", "A ball rolls."),
        ("candidate", "A blue box."),
        ("candidate", "A box"),
        ("reference", "A box."),
        ("reference", "One box."),
    ]
    own = [{name: row.get(name) for name in ("score", "fps", "code", "note")} for row in captions[:3]]
    assert own[0] == {"score": 4, "fps": 29.97, "code": "007", "note": "1.5"}
    assert own[1] == dict.fromkeys(own[0])
    assert own[2] == {"score": 2.5, "fps": 30, "code": "012", "note": "dim"}
    assert captions[0]["segments"] == [{"start_s": 0, "end_s": 1}]
    assert left_out(made) == {"a column without a name": 1}
    assert offers(made) == [
        "column 'score' holds numbers from 2.5 to 4: --rating 'score=1-5, mean of 3' makes them mean ratings of "
        "people; name the number of raters in place of 3"
    ]


@pytest.mark.parametrize(
    ("cells", "option", "explained"),
    [
        (["1", "5"], "score", "of aspect 'overall' on the scale from 1 to 5"),
        (["1", "1"], "score", "of aspect 'overall' on the scale from 1 to 5"),
        (["2", "6"], "score=1-7", "if their scale was another one, name it in place of 1-7"),
        (["0", "4"], "score=0-5", "in place of 0-5"),
        (["1", "9"], "score=1-10", "in place of 1-10"),
        (["0", "10"], "score=0-10", "in place of 0-10"),
        (["0", "87"], "score=0-100", "in place of 0-100"),
        (["0", "1"], "score=yes-no", "in place of yes-no"),
        (["yes", "No"], "score=yes-no", "in place of yes-no"),
        (["TRUE", "TRUE"], "score=yes-no", "in place of yes-no"),
        (["3.5", "4"], "score=1-5, mean of 3", "name the number of raters in place of 3"),
        (["66.7", "4"], "score=0-100, mean of 3", "name the number of raters in place of 3"),
        (["0.25", "1"], None, "--rating score=real makes them ratings of people"),
        (["-1", "1"], None, "name it in place of real"),
        (["4", "101"], None, "name it in place of real"),
        (["good", "bad"], None, None),
    ],
)
def test_a_scale_is_guessed_for_a_column_that_may_hold_ratings(
    tmp_path: Path, cells: list[str], option: str | None, explained: str | None
) -> None:
    source = put(
        tmp_path,
        {
            "t.csv": "".join(
                f"{row}\n" for row in ("video,caption,score", *(f"v,A dog {cell}.,{cell}" for cell in cells))
            )
        },
    )
    offered = list_rating_offers(create_manifest(source, is_trial=True).findings)
    assert [offer.options for offer in offered if offer.question] == ([] if option is None else [(option,)])
    assert [explained in offer.sentence for offer in offered] == [True] * bool(explained)
    if option is None:
        return
    made = create_manifest(source, column_names=ColumnNames(ratings=(option,)))
    assert made.holdings.ratings == len(cells), "the option that is offered reads the column"
    has_scale = "=" in option
    assert (made.folder / "scales.json").exists() == has_scale
    if has_scale:
        assert json.loads((made.folder / "scales.json").read_text()) == {"overall": option[6:].partition(",")[0]}


def test_means_and_other_scales_become_ratings_as_they_are(tmp_path: Path, engine: Engine) -> None:
    source = put(
        tmp_path, {"t.csv": "video,caption,mos,Slips,old\nv1,A dog runs.,4.5,12,3\nv2,A cat sleeps.,6,21,3.5\n"}
    )
    assert offers(create_manifest(source, is_trial=True)) == [
        "column 'mos' holds numbers from 4.5 to 6: --rating 'mos=1-7, mean of 3' makes them mean ratings of people; "
        "name the number of raters in place of 3"
    ]
    ratings = ("quality=mos=1-5, mean of 3", "slips=0-20, lowest is best", "old")
    made = create_manifest(source, column_names=ColumnNames(ratings=ratings))
    assert json.loads((made.folder / "scales.json").read_text()) == {
        "quality": "1-5",
        "Slips": "0-20, lowest is best",
    }
    assert [{**row, "caption_id": ""} for row in rows(made, "ratings")] == [
        {"caption_id": "", "rater": "mean of 3", "aspect": "quality", "value": 4.5, "mean_of": 3},
        {"caption_id": "", "rater": "rater_1", "aspect": "Slips", "value": 12},
        {"caption_id": "", "rater": "rater_1", "aspect": "old", "value": 3},
    ]
    # 6 is no mean of 1 to 5, 21 is past 20, and 3.5 is no whole number.
    assert sum(left_out(made).values()) == 3
    report = ingest_folder(engine, made.folder, "mine")
    assert (report.accepted["ratings"], report.rejected) == (3, 0)


@pytest.mark.parametrize("text", ["mos=", "mos=5-1", "mos=mean of 3", "mos=1-5, mean of 1", "mos=1-5 mean of 3"])
def test_a_rule_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(NoManifest, match="is not a scale: write COLUMN, COLUMN=0-100"):
        parse_ratings(["score", text])


def test_own_fields_of_a_row_without_a_caption_go_to_its_references(tmp_path: Path) -> None:
    made = of_lines(tmp_path, {"video": "v", "reference": ["One.", {"text": "Two.", "annotator": "ann"}], "fps": 30})
    assert [(row["text"], row["fps"], row.get("annotator")) for row in rows(made, "captions")] == [
        ("One.", 30, None), ("Two.", 30, "ann")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("separator", "cells", "values", "guess"),
    [
        (";", ["0,5", "1,25", "3"], [0.5, 1.25, 3], "numbers of column 'score' have a decimal comma"),
        (
            ";",
            ["1,500", "2,250"],
            ["1,500", "2,250"],
            "column 'score' stays text, since its commas may mark",
        ),
        (";", ["1,5", "2.5"], ["1,5", "2.5"], None),
        (",", ["1", "-2.5e3", "0"], [1, -2500.0, 0], None),
        (",", ["1", "nan", "2"], [1, None, 2], None),
        (",", ["12345678901234567890", "1"], [12345678901234567890, 1], None),
        (",", ["1", "one"], ["1", "one"], None),
        (",", ["01", "2"], ["01", "2"], None),
        (",", ["", "2"], [None, 2], None),
    ],
)
def test_numbers_stay_numbers(
    tmp_path: Path, separator: str, cells: list[str], values: list[Any], guess: str | None
) -> None:
    named = [[f"v{n}", "A ball.", cell] for n, cell in enumerate(cells)]
    made = of_cells(tmp_path, ["video", "caption", "score"], *named, separator=separator)
    found = [row.get("score") for row in rows(made, "captions")]
    assert found == values
    assert list(map(type, found)) == list(map(type, values))
    said = [sentence for sentence in made.findings.guesses if "'score'" in sentence]
    assert [sentence.startswith(guess or "") for sentence in said] == ([True] if guess else [])
    assert left_out(made) == ({"a cell with nan in a column of numbers": 1} if "nan" in cells else {})


def test_ratings_belong_to_one_candidate_or_to_each(tmp_path: Path) -> None:
    made = of_lines(
        tmp_path,
        {"video": "v", "caption": "One.", "mos": 4},
        {"video": "v", "caption": ["Two.", "Three."], "mos": [3, 2]},
        {"video": "v", "caption": ["Four.", "Five."], "mos": 1},
        {"video": "v", "reference": "Six.", "mos": 1},
        {"video": "v", "caption": "Seven.", "mos": 3.7},
        {"video": "v", "caption": "Eight.", "mos": [2, None, 3], "stars": 5},
        ratings=("MOS", "stars"),
    )
    by_id = texts(made)
    rated = [(by_id[row["caption_id"]], row["rater"], row["aspect"], row["value"]) for row in rows(made, "ratings")]
    assert rated == [
        ("One.", "rater_1", "mos", 4),
        ("Two.", "rater_1", "mos", 3),
        ("Three.", "rater_1", "mos", 2),
        ("Eight.", "rater_1", "mos", 2),
        ("Eight.", "rater_3", "mos", 3),
        ("Eight.", "rater_1", "stars", 5),
    ]
    assert left_out(made) == {
        "ratings in column 'mos' of a row with 2 candidates: give a list with one rating for each candidate": 1,
        "ratings in column 'mos' of a row with 0 candidates": 1,
        "a rating that is empty or no answer, such as N/A or skip": 5,
        "a rating that ingest would refuse (wrong_type): A field has another type than the manifest asks for.": 1,
    }
    with pytest.raises(NoManifest, match="no row with a caption has the column 'likes' that --rating names"):
        create_manifest(tmp_path / "t.jsonl", tmp_path / "other", column_names=ColumnNames(ratings=("likes",)))
    assert not (tmp_path / "other").exists()


def test_what_has_no_place_is_named(tmp_path: Path) -> None:
    pictures = pa.array([b"\x89PNG", b"\x89PNG"], pa.binary())
    table = {"video": ["v", "w"], "caption": ["One.", "Two."], "picture": pictures, "parse_error": ["x", None]}
    pq.write_table(pa.table({**table, "weight": [float("nan"), 1.5]}), tmp_path / "t.parquet")
    made = create_manifest(tmp_path)
    assert [row.get("weight") for row in rows(made, "captions")] == [None, 1.5]
    assert left_out(made) == {
        "column 'picture', since its cells hold files, which a manifest's tables cannot hold": 2,
        "column 'parse_error', since a manifest has a field of this name with another meaning: rename the column": 1,
        "a value that ingest would refuse (nan): A number is NaN, or the JSON contains the word NaN or Infinity.": 1,
    }


def test_lists_hold_captions_and_whatever_is_none_is_named(tmp_path: Path) -> None:
    made = of_lines(
        tmp_path,
        {"video": "v", "caption": ["One.", " ", None, 5, {"no": "text"}, {"caption": "Two.", "model": "m", "n": 1}]},
        {"video": "w", "caption": "Three.", "candidates": {"m": "Four.", "k": {"text": "Five.", "label": 1}}},
        {"video": "x", "caption": "['Six.' 'Seven.']"},
        {"video": "y", "caption": "Eight.", "role": "human", "segments": 5, "system": ["m"]},
    )
    assert {(row["text"], row["system"], row.get("n"), row.get("label")) for row in rows(made, "captions")} == {
        ("One.", "captions", None, None),
        ("Two.", "m", 1, None),
        ("Three.", "captions", None, None),
        ("Four.", "m", None, None),
        ("Five.", "k", None, 1),
        ("Eight.", "captions", None, None),
    }
    assert left_out(made) == {
        "a caption without text in a list": 2,
        "a caption that is not text": 2,
        "a cell with a list that is not valid JSON: write it as JSON": 1,
        "a row whose caption has no text": 1,
        "a role that is neither 'reference' nor 'candidate': the caption counts as a candidate": 1,
        "segments that are not a list: the caption is kept without them": 1,
        "a value of column 'system' that is neither text nor a whole number: the caption is kept without it": 1,
    }


def test_a_caption_is_stored_as_it_was_written(tmp_path: Path, engine: Engine) -> None:
    made = of_lines(
        tmp_path, {"video": "v", "caption": "  A ball.\n"}, {"video": "v", "caption": "[music] \u200bA box."}
    )
    assert ingest_folder(engine, made.folder, "mine").rejected == 0
    with engine.connect() as connection:
        stored = set(connection.scalars(sa.select(schema.sample.c.text)))
    assert stored == {"  A ball.\n", "[music] \u200bA box."}


def _maps(*rows: list[tuple[Any, Any]] | None, key: pa.DataType | None = None) -> pa.Array:
    return pa.array(rows, pa.map_(key or pa.string(), pa.string()))


@pytest.mark.parametrize(
    ("column", "kept"),
    [
        (_maps([("a", "x"), ("b", None)], None), [{"a": "x"}, None]),
        (_maps([(1, "x")], [], key=pa.int32()), [[{"key": 1, "value": "x"}], []]),
        (_maps([("a", "x"), ("a", "y")], None), [[{"key": "a", "value": "x"}, {"key": "a", "value": "y"}], None]),
        (_maps([(date(2026, 1, 1), "x")], None, key=pa.date32()), [None, None]),
        (pa.array([[[("a", 1)]], [[]]], pa.list_(pa.map_(pa.string(), pa.int32()))), [[{"a": 1}], [[]]]),
        (
            pa.array([{"m": [("a", 1)]}, None], pa.struct([("m", pa.map_(pa.string(), pa.int32()))])),
            [{"m": {"a": 1}}, None],
        ),
        (pa.array([[{"n": 1, "t": None}], None]), [[{"n": 1}], None]),
        (pa.array(["x", "y"]).dictionary_encode(), ["x", "y"]),
        (pa.array([Decimal("1.50"), None]), ["1.50", None]),
        (pa.array([[Decimal("1.5")], None]), [None, None]),
        (pa.array([b"\xff", None]), [None, None]),
        (pa.array([b"abcd", None], pa.binary(4)), [None, None]),
        (pa.array([[b"ab"], None]), [None, None]),
        (pa.array([timedelta(seconds=5), None]), [None, None]),
        (pa.array([(1, 2, 3), None], pa.month_day_nano_interval()), [None, None]),
        (pa.array([[(1, 2, 3)], None], pa.list_(pa.month_day_nano_interval())), [None, None]),
        (pa.array([time(1, 2), None], pa.time32("s")), ["01:02:00", None]),
        (pa.array([datetime(2026, 1, 1), None], pa.timestamp("s")), ["2026-01-01 00:00:00", None]),
        (pa.array([[date(2026, 1, 1)], None]), [None, None]),
        (pa.nulls(2), [None, None]),
        (pa.array(["x", None], pa.large_string()), ["x", None]),
        (pa.array(["x", None], pa.string_view()), ["x", None]),
        (pa.array([["x"], None], pa.large_list(pa.string())), [["x"], None]),
        (pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)), [[1.0, 2.0], None]),
        (pa.array([["x"], None], pa.list_view(pa.string())), [["x"], None]),
        (pa.array([1.5, None], pa.float16()), [1.5, None]),
        (pa.array([2**63, None], pa.uint64()), [2**63, None]),
        (pa.array([float("nan"), 1.0]), [None, 1.0]),
        (pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["x", "y"])]), [1, "y"]),
        (pa.array([b"0123456789abcdef", None], pa.uuid()), [None, None]),
        (pa.array(['{"a":1}', None], pa.json_()), ['{"a":1}', None]),
        (pa.ExtensionArray.from_storage(pa.opaque(pa.string(), "x", "y"), pa.array(["x", None])), ["x", None]),
        (pa.array([1, 1], pa.run_end_encoded(pa.int32(), pa.int64())), [1, 1]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_a_column_of_any_arrow_type_costs_no_row(tmp_path: Path, column: pa.Array, kept: list[Any]) -> None:
    """A value is kept as JSON, or counted as left out."""
    table = pa.table({"video": ["v1", "v2"], "caption": ["A dog.", "A cat."], "meta": column})
    with pa.ipc.new_stream(str(tmp_path / "t.arrow"), table.schema) as writer:
        writer.write_table(table)
    made = create_manifest(tmp_path)
    assert [row.get("meta") for row in rows(made, "captions")] == kept
    n_empty = sum(value in (None, b"") for value in column.to_pylist())
    assert sum(left_out(made).values()) == kept.count(None) - n_empty
