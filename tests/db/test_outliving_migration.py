"""Selections that were frozen before revision 0016: they get their dataset's name, and outlive it from then on."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine

from assets.scores.registry import METRIC_INPUTS
from db.schema.migrate import check_schema, downgrade, migrate
from tests.db.old_rows import insert_old

OF_SELECTION = sa.text("SELECT dataset_name, dataset_id IS NULL FROM selection ORDER BY selection_id")


def test_selections_outlive_their_dataset(database: URL, engine: Engine) -> None:
    downgrade(database, "0013")
    for name in ("first", "second"):
        dataset_id = insert_old(engine, "dataset", name=name, n_shards=1)
        values = {"dataset_id": dataset_id, "spec": {}, "score_hash": "hash", "n": 1, "metrics": [], "models": []}
        insert_old(engine, "selection", **values)
    migrate(database, METRIC_INPUTS)
    with engine.connect() as connection:
        check_schema(connection)
        assert connection.execute(OF_SELECTION).all() == [("first", False), ("second", False)]
    with engine.begin() as connection:
        # As anyone may do it, with SQL of their own.
        connection.execute(sa.text("UPDATE dataset SET name = 'renamed' WHERE name = 'first'"))
        connection.execute(sa.text("DELETE FROM dataset WHERE name = 'second'"))
        assert connection.execute(OF_SELECTION).all() == [("renamed", False), ("second", True)]
    downgrade(database, "0013")
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM selection")) == 1
