"""Selections of revision 0012, whose rows were objects of JSON: what the upgrade keeps, and the way back."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine

from assets.scores.registry import METRIC_INPUTS
from db.schema.migrate import check_schema, downgrade, migrate
from db.selections.frozen import selection_rows
from tests.db.old_rows import insert_old

COMMON = {
    "dataset": "clips",
    "video": "v",
    "kind": "caption",
    "system": "brief",
    "text": 'Ein "Hund" — 犬',
    "uri": None,
}
ROWS: list[dict[str, Any]] = [
    {
        **COMMON,
        "sample": "a",
        "question": None,
        "answer": None,
        "content_sha256": "00ff",
        "uri": "/a.mp4",
        "vcs": 0.1234567890123456789,
        "vcs_models": "tiny",
        "evqa": None,
        "evqa_models": None,
    },
    {
        **COMMON,
        "sample": "b",
        "kind": "qa",
        "question": "Wer?",
        "answer": "\\x",
        "content_sha256": None,
        "vcs": -1e-300,
        "vcs_models": "tiny",
        "evqa": 0.5,
        "evqa_models": "one, two",
    },
]


def stored(engine: Engine) -> list[dict[str, Any]]:
    with engine.connect() as connection:
        return list(connection.scalars(sa.text("SELECT row FROM selection_item ORDER BY selection_id, rank")))


def test_frozen_rows_stay_as_they_were(database: URL, engine: Engine) -> None:
    downgrade(database, "0012")
    dataset_id = insert_old(engine, "dataset", name="clips", n_shards=1)
    of_dataset = {"dataset_id": dataset_id, "spec": {"by": "vcs"}, "score_hash": "hash"}
    first = insert_old(engine, "selection", **of_dataset, n=2)
    second = insert_old(engine, "selection", **of_dataset, n=1)
    other = {name: value for name, value in ROWS[0].items() if not name.startswith("evqa")}
    items = [(first, 1, ROWS[0]), (first, 2, ROWS[1]), (second, 1, other)]
    with engine.begin() as connection:
        table = sa.Table("selection_item", sa.MetaData(), autoload_with=connection)
        for selection_id, rank, row in items:
            values = {"selection_id": selection_id, "rank": rank, "sample_id": 1, "value": row["vcs"], "row": row}
            connection.execute(sa.insert(table).values(values))
    migrate(database, METRIC_INPUTS)
    with engine.connect() as connection:
        check_schema(connection)
    for selection_id, rows in ((first, ROWS), (second, [other])):
        found = [row for part in selection_rows(engine, selection_id) for row in part]
        assert found == [{"rank": i + 1, "value": row["vcs"], **row} for i, row in enumerate(rows)]
    downgrade(database, "0012")
    assert stored(engine) == [row for _, _, row in items]
