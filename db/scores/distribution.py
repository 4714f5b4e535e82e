"""The defined scores of a dataset as arrays, from which thresholds are computed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.schema import sample, score
from db.scores.sample_scores import prepare_for_joins
from db.server.arrays import pack_column, unpack_column


class DefinedScores(NamedTuple):
    """The defined scores of samples of one kind, as three arrays (n,) in the same, arbitrary order: the value of every
    sample, its shard, and the id of its video.
    """

    values: npt.NDArray[np.float64]
    shards: npt.NDArray[np.int32]
    video_ids: npt.NDArray[np.int64]


_KINDS = {"values": "f8", "shards": "i4", "video_ids": "i8"}


def load_defined_scores(connection: Connection, dataset: Dataset, scorer_id: int) -> dict[str, DefinedScores]:
    """Load a scorer's defined scores on a dataset by kind of samples ("caption", "qa"), sorted by kind; a kind without
    such a score is left out. A stale score is not defined.

    It also changes settings of Postgres's planner until the transaction ends, see `prepare_for_joins`.
    """
    prepare_for_joins(connection)
    packed = [pack_column(column) for column in (score.c.value, sample.c.shard, sample.c.video_id)]
    query = (
        sa.select(sample.c.kind, *packed)
        .join(sample, sample.c.sample_id == score.c.sample_id)
        .where(score.c.scorer_id == scorer_id, score.c.value.is_not(None), sa.not_(score.c.is_stale))
        .where(sample.c.dataset_id == dataset.dataset_id)
        .group_by(sample.c.kind)
        .order_by(sample.c.kind)
    )
    return {
        kind: DefinedScores(
            *(unpack_column(column, dtype) for column, dtype in zip(columns, _KINDS.values(), strict=True))
        )
        for kind, *columns in connection.execute(query)
    }
