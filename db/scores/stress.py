"""Stored results of stressed metrics: how fixed rewrites of captions change the values of a scorer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection, RowMapping

from db.schema import scorer, stress_result


def store_stress(
    connection: Connection, dataset_id: int, scorer_id: int, result: Mapping[str, Any], stressed_at: datetime
) -> None:
    """Store the result of a stress test, plain data for JSON, in place of this scorer's earlier one on this dataset.
    Raises sqlalchemy.exc.IntegrityError if dataset or scorer are gone.
    """
    values = {"result": result, "stressed_at": stressed_at}
    statement = insert(stress_result).values(dataset_id=dataset_id, scorer_id=scorer_id, **values)
    connection.execute(statement.on_conflict_do_update(constraint="pk_stress_result", set_=values))


def load_stress_results(connection: Connection, dataset_id: int) -> Sequence[RowMapping]:
    """Load metric, scorer_id, result and stressed_at of a dataset's stress tests of active scorers, in the order of the
    metrics' names. Results of other scorers are left out.
    """
    stored = stress_result.c
    query = sa.select(scorer.c.metric, stored.scorer_id, stored.result, stored.stressed_at).join(scorer)
    is_shown = sa.and_(stored.dataset_id == dataset_id, scorer.c.status == "active")
    return connection.execute(query.where(is_shown).order_by(scorer.c.metric)).mappings().all()
