"""Manifests whose columns have other names than their fields: the user names them, in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.ingest.manifest_tables import list_field_names
from assets.ingest.run import ingest_folder, try_ingest
from db import schema

COLUMNS = {"text": "Satz", "value": "Note", "caption_id": "Nr", "mean_of": "Zahl"}
VIDEOS = [{"video_id": "v"}]
CAPTIONS = [{"Nr": "c", "video_id": "v", "role": "candidate", "system": "s", "Satz": "Ein Hund."}]
RATINGS = [{"Nr": "c", "rater": "ann", "aspect": "overall", "Note": 4.5, "Zahl": 2}]


def write_manifest(folder: Path, suffix: str) -> Path:
    for name, rows in (("videos", VIDEOS), ("captions", CAPTIONS), ("ratings", RATINGS)):
        path = folder / f"{name}.{suffix}"
        if suffix == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        elif suffix == "csv":
            lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
            path.write_text("\n".join(lines) + "\n")
        else:
            pq.write_table(pa.Table.from_pylist(rows), path)
    return folder


def stored(engine: Engine) -> list[tuple[Any, ...]]:
    query = sa.select(schema.sample.c.key, schema.sample.c.text, schema.rating.c.value)
    with engine.connect() as connection:
        rows = connection.execute(query.join_from(schema.sample, schema.rating))
        return [(key, text, float(value)) for key, text, value in rows]


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_named_columns_are_read_as_fields(tmp_path: Path, engine: Engine, suffix: str) -> None:
    folder = write_manifest(tmp_path, suffix)
    refused = ingest_folder(engine, folder, "mine")
    assert (refused.accepted["captions"], refused.accepted["ratings"], refused.rejected) == (0, 0, 2)
    tried, _ = try_ingest(engine, folder, "mine", columns=COLUMNS)
    report = ingest_folder(engine, folder, "mine", columns=COLUMNS)
    assert report == tried
    # The same files with other columns are no known tables, whose rows would be skipped.
    assert (report.accepted["captions"], report.accepted["ratings"], report.rejected) == (1, 1, 0)
    assert stored(engine) == [("c", "Ein Hund.", 4.5)]
    assert set(COLUMNS) <= set(list_field_names())
    again = ingest_folder(engine, folder, "mine", columns=COLUMNS)
    assert (again.accepted.total(), again.unchanged.total()) == (0, 3)


def test_a_row_with_two_columns_of_a_field_is_refused(tmp_path: Path, engine: Engine) -> None:
    folder = write_manifest(tmp_path, "jsonl")
    (folder / "captions.jsonl").write_text(json.dumps({**CAPTIONS[0], "text": "Another."}) + "\n")
    _, refused = try_ingest(engine, folder, "mine", columns=COLUMNS)
    assert [(row["code"], row["reason"]) for row in refused if row["source"] == "captions.jsonl"] == [
        ("duplicate_key", "field 'text' is in columns 'text' and 'Satz': rename one of them")
    ]


def test_a_column_that_no_table_has_and_another_encoding_are_named(tmp_path: Path, engine: Engine) -> None:
    folder = write_manifest(tmp_path, "csv")
    captions = (folder / "captions.csv").read_text().replace("Hund", "Hündchen")
    (folder / "captions.csv").write_bytes(captions.encode("cp1252"))
    wrong = COLUMNS | {"segments": "Teile"}
    assert ingest_folder(engine, folder, "mine", columns=wrong).notes == [
        "captions.csv is not UTF-8, and is read as cp1252",
        "warning: no table has the column 'Teile' that --column names: check its name",
    ]
    assert ingest_folder(engine, folder, "mine", columns=wrong).notes == [], "nothing is read again"
    mixed = tmp_path / "mixed.jsonl"
    mixed.touch()
    notes = ingest_folder(engine, folder, "mine", mixed_rows=mixed).notes
    assert notes == ["captions.csv is not UTF-8, and is read as cp1252"]
    write_manifest(tmp_path, "csv")
    assert ingest_folder(engine, folder, "mine", columns=COLUMNS).notes == []
