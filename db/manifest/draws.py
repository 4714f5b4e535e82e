"""The permanent random numbers of samples, by which a part of a dataset is drawn to be answered by people or models.

Every sample has a number in [0, 1) by a seed. Of any set of samples, those n with the lowest numbers are a simple
random sample, so answers on one part serve many sets, and samples that arrive later have numbers of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.schema import sample
from db.server.arrays import read_arrays


class DrawableCaptions(NamedTuple):
    """All captions of a dataset as arrays (n,) in the same order. system_places: index of the caption's system in the
    list that the caller gave, -1 for another system. numbers: random numbers, see `build_draw_number`.
    """

    sample_ids: npt.NDArray[np.int64]
    system_places: npt.NDArray[np.int32]
    numbers: npt.NDArray[np.float64]


def build_draw_number(seed: int, key: sa.ColumnElement[str] | None = None) -> sa.ColumnElement[float]:
    """Build the SQL expression for the random number of the row's sample, in [0, 1), for queries of table sample. With
    `key`, it is the number of a caption with this key. It calls the function `draw_number(kind, key, seed)` of the
    database, which views and SQL may call too.
    """
    kind, key = (sample.c.kind, sample.c.key) if key is None else (sa.literal("caption", sa.Text), key)
    return sa.func.draw_number(kind, key, sa.literal(seed, sa.BigInteger), type_=sa.Double)


def build_draw_order(seed: int) -> tuple[sa.ColumnElement[Any], ...]:
    """Build the SQL expressions that sort samples by their random numbers; equal numbers by kind and key."""
    return build_draw_number(seed), sample.c.kind, sa.collate(sample.c.key, "C")


def load_drawable_captions(
    connection: Connection, dataset: Dataset, seed: int, systems: Sequence[str]
) -> DrawableCaptions:
    """Load all captions of a dataset as arrays ordered by sample id, with their random numbers by `seed`. systems: the
    names that `system_places` of the result refers to.
    """
    query = (
        "SELECT sample_id, COALESCE(array_position(CAST(:systems AS text[]), system), 0) - 1 AS place, "
        "draw_number(kind, key, CAST(:seed AS bigint)) AS number FROM sample "
        "WHERE dataset_id = :dataset_id AND kind = 'caption' ORDER BY sample_id"
    )
    kinds = {"sample_id": "i8", "place": "i4", "number": "f8"}
    values = {"systems": list(systems), "seed": seed, "dataset_id": dataset.dataset_id}
    return DrawableCaptions(*read_arrays(connection, kinds, query, values))


def load_caption_systems(connection: Connection, dataset: Dataset) -> set[str]:
    """Return the set of systems that wrote captions of a dataset; question-answer pairs do not count."""
    in_dataset = (sample.c.dataset_id == dataset.dataset_id, sample.c.kind == "caption")
    return set(connection.scalars(sa.select(sample.c.system).where(*in_dataset).distinct()))
