"""Stored thresholds, with what they rest on."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from db.schema import threshold


def store_threshold(
    connection: Connection,
    *,
    scorer_id: int,
    dataset_id: int,
    method: str,
    objective: str,
    value: float,
    n: int,
) -> None:
    """Store a threshold of a whole dataset, replacing the one of the same scorer, method and objective."""
    row: dict[str, Any] = {
        "scorer_id": scorer_id,
        "dataset_id": dataset_id,
        "scope": "dataset",
        "method": method,
        "objective": objective,
    }
    statement = insert(threshold).values(**row, value=value, n=n)
    connection.execute(
        statement.on_conflict_do_update(
            constraint="uq_threshold_scope", set_={"value": value, "n": n, "created_at": sa.func.now()}
        )
    )
