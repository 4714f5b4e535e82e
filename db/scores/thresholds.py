"""Stored thresholds on scores and on keypoint probabilities, as rows of tables `score_threshold` and
`keypoint_threshold`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.schema import scorer

METHOD_QUANTILE, METHOD_RATINGS = "quantile", "ratings"
"""Column `method` of thresholds in table `score_threshold`: by shares of the scores, and by ratings."""


def store_thresholds(
    connection: Connection,
    table: sa.Table,
    scorer_id: int,
    dataset_id: int,
    method: str,
    rows: Sequence[Mapping[str, Any]],
) -> None:
    """Store rows of a table of thresholds, in place of all earlier ones by the same method for this scorer and dataset.
    method: column `method`, which names how they were chosen. rows: the other columns by name, all with the same names.
    Does not commit.
    """
    common = {"scorer_id": scorer_id, "dataset_id": dataset_id, "method": method}
    # Two runs may replace at once: the later one waits here, then replaces what the earlier one stored.
    is_this = scorer.c.scorer_id == scorer_id
    connection.execute(sa.select(scorer.c.scorer_id).where(is_this).with_for_update(key_share=True))
    connection.execute(sa.delete(table).where(*(table.c[name] == value for name, value in common.items())))
    if rows:
        connection.execute(sa.insert(table), [{**common, **row} for row in rows])


def list_thresholds(connection: Connection, table: sa.Table, dataset_id: int, method: str) -> list[dict[str, Any]]:
    """List the rows of a table of thresholds by one method on the active scorers' scores of a whole dataset, with
    column `metric`, ordered by it and in the order in which they were stored. Thresholds within a shard are left out.
    """
    query = (
        sa.select(scorer.c.metric, table)
        .join(scorer, scorer.c.scorer_id == table.c.scorer_id)
        .where(table.c.dataset_id == dataset_id, table.c.shard.is_(None), table.c.method == method)
        .where(scorer.c.status == "active")
        .order_by(scorer.c.metric, table.primary_key.columns[0])
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def list_stored_objectives(connection: Connection, dataset_id: int) -> set[tuple[str, str]]:
    """Return (metric, objective) of all thresholds that are stored on the active scorers' scores of the whole dataset;
    thresholds within a shard do not count.
    """
    query = sa.text("SELECT metric, objective FROM dataset_thresholds WHERE dataset_id = :dataset_id")
    return {(row[0], row[1]) for row in connection.execute(query, {"dataset_id": dataset_id})}


def load_label_thresholds(connection: Connection, scorer_id: int, dataset_id: int) -> dict[str, float]:
    """Load the keypoint thresholds in force for a scorer on a dataset as {dimension: probability}, sorted by dimension;
    {} if none was chosen on labels.
    """
    query = sa.text(
        "SELECT dimension, threshold FROM threshold_in_force WHERE scorer_id = :scorer_id AND dataset_id = :dataset_id "
        'ORDER BY dimension COLLATE "C"'
    )
    rows = connection.execute(query, {"scorer_id": scorer_id, "dataset_id": dataset_id})
    return {row.dimension: row.threshold for row in rows}
