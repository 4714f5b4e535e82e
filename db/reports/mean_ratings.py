"""The mean ratings of captions, as arrays."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.server.arrays import read_arrays


def list_rated_aspects(connection: Connection, dataset: Dataset) -> list[str]:
    """List the aspects that captions of a dataset are rated for, on their present texts, sorted."""
    query = (
        "SELECT DISTINCT aspect FROM current_rating JOIN sample USING (sample_id) "
        "WHERE dataset_id = :dataset_id AND kind = 'caption'"
    )
    return sorted(connection.scalars(sa.text(query), {"dataset_id": dataset.dataset_id}))


def load_mean_ratings(connection: Connection, dataset: Dataset, aspect: str) -> list[npt.NDArray[Any]]:
    """Load two arrays (n,) in the same order: ids of the captions of a dataset that are rated for an aspect, and the
    means of their ratings over all raters, on their present texts.
    """
    query = (
        "SELECT sample_id, avg(value) AS value FROM current_rating JOIN sample USING (sample_id) "
        "WHERE dataset_id = :dataset_id AND kind = 'caption' AND aspect = :aspect GROUP BY sample_id"
    )
    values = {"dataset_id": dataset.dataset_id, "aspect": aspect}
    return read_arrays(connection, {"sample_id": "i8", "value": "f8"}, query, values)
