"""A dataset of several shards that workers divide among them, and a count of all that they compute."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy.engine import URL

from assets.definitions.steps import MIN_SHARDS
from tests.orchestration.survival import concluded, connect, rows, scored

N_VIDEOS, N_SHARDS = 30, 3 * MIN_SHARDS
SHARDS = [f"d:{number:04d}" for number in range(N_SHARDS)]
SCORE = ("score", "--dataset", "d", "--metric", "vcs", "--metric", "ecs", "--json")
# What is computed once for each row; a text may stand in two shards, and two workers may then both embed it.
COUNTED = {"score": "scorer_id::text || ' ' || sample_id", "verdict_set": "scorer_id::text || ' ' || sample_id"}
State = dict[str, list[tuple[Any, ...]]]


def stored(url: URL) -> State:
    """All that the scoring of both metrics stored, but for the parts of scores."""
    found = scored(url) | concluded(url)
    found["score"] = [(*row[:6], *row[7:]) for row in found["score"]]
    return {table: [tuple(map(_as_float, row)) for row in of_table] for table, of_table in found.items()}


def assert_same_end(url: URL, alone: State) -> None:
    """All is stored that one worker stores; batches of other members round otherwise in the last digits of float32."""
    found = stored(url)
    assert found.keys() == alone.keys()
    for table, expected in alone.items():
        assert found[table] == [tuple(map(_nearly, row)) for row in expected], table


def _nearly(cell: Any) -> Any:
    return pytest.approx(cell, abs=1e-5) if isinstance(cell, float) else cell


def _as_float(cell: Any) -> Any:
    return float(cell) if isinstance(cell, Decimal) else cell


def count_computed(url: URL, table: str, key: str) -> None:
    """Note each row that is about to be inserted and is committed, also where the table has it already."""
    with connect(url) as connection:
        connection.execute(f"CREATE TABLE computed_{table} (key text)".encode())
        connection.execute(
            f"CREATE FUNCTION note_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"INSERT INTO computed_{table} SELECT {key} FROM (SELECT NEW.*) AS new; RETURN NEW; END $$".encode()
        )
        connection.execute(
            f"CREATE TRIGGER note BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION note_{table}()".encode()
        )


def computed(url: URL, table: str) -> Counter[str]:
    """How often each row was computed and committed."""
    return Counter(key for (key,) in rows(url, f"SELECT key FROM computed_{table}"))


def assert_each_once(url: URL, *tables: str) -> None:
    """Every score and every set of verdicts was computed, or every row of the given tables, and none twice."""
    for table in tables or COUNTED:
        found = computed(url, table)
        assert len(found) == rows(url, f"SELECT count(*) FROM {table}")[0][0] > 0, table
        assert set(found.values()) == {1}, table
