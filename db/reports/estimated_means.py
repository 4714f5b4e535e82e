"""Estimated means as they are stored (table `estimated_mean`), and the selections that they are estimated for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.schema import dataset as dataset_table
from db.schema import estimated_mean, scorer, selection


def replace_estimated_means(connection: Connection, dataset: Dataset, rows: Sequence[Mapping[str, Any]]) -> None:
    """Replace all rows of a dataset in table `estimated_mean` by the given ones, dicts of values by column without
    `dataset_id`. Waits while another process replaces them.
    """
    # Two runs may replace at once: the later one waits here, then removes what the earlier one stored.
    is_this = dataset_table.c.dataset_id == dataset.dataset_id
    connection.execute(sa.select(dataset_table.c.dataset_id).where(is_this).with_for_update(key_share=True))
    connection.execute(sa.delete(estimated_mean).where(estimated_mean.c.dataset_id == dataset.dataset_id))
    if rows:
        connection.execute(sa.insert(estimated_mean), [{"dataset_id": dataset.dataset_id, **row} for row in rows])


def list_estimated_means(connection: Connection, dataset: Dataset) -> list[Mapping[str, Any]]:
    """List the rows of a dataset in table `estimated_mean` as dicts, in the order in which they were stored.
    `helper` is the metric of the scorer that corrects the mean; None without one.
    """
    helper = scorer.alias()
    query = (
        sa.select(estimated_mean, helper.c.metric.label("helper"))
        .join(helper, helper.c.scorer_id == estimated_mean.c.helper_scorer_id, isouter=True)
        .where(estimated_mean.c.dataset_id == dataset.dataset_id)
        .order_by(estimated_mean.c.estimated_mean_id)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def list_newest_selections(connection: Connection, dataset: Dataset, n: int) -> list[sa.RowMapping]:
    """List the n newest selections of a dataset as rows of table `selection`, the newest first."""
    query = sa.select(selection).where(selection.c.dataset_id == dataset.dataset_id)
    return list(connection.execute(query.order_by(selection.c.selection_id.desc()).limit(n)).mappings())
