"""The samples of a dataset with their scores, as arrays from which thresholds and the report are computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.schema import sample, score
from db.scores.sample_scores import prepare_for_joins
from db.server.arrays import pack_column, unpack_column


class ScoreArrays(NamedTuple):
    """All samples of one kind of a dataset as arrays (n,), ordered by sample id. systems: names of the systems, the one
    with the most samples first; system_places: index of the sample's system in this list. chances: random numbers that
    depend on the samples' keys only. values: by scorer, NaN for a sample without a value.
    """

    sample_ids: npt.NDArray[np.int64]
    video_ids: npt.NDArray[np.int64]
    shards: npt.NDArray[np.int16]
    systems: tuple[str, ...]
    system_places: npt.NDArray[np.int64]
    chances: npt.NDArray[np.int64]
    values: Mapping[str, npt.NDArray[np.float64]]


def load_score_arrays(connection: Connection, dataset: Dataset, scorers: Mapping[str, int]) -> dict[str, ScoreArrays]:
    """Load all samples of a dataset with their values by scorers, by kind of samples ("caption", "qa"), sorted by kind.
    A stale score has no value. scorers: ids by the names under which the result has their values.

    It also changes settings of Postgres's planner until the transaction ends, see `prepare_for_joins`. A million
    samples with six scorers take 80 MB of memory, and twice as much while they are read.
    """
    prepare_for_joins(connection)
    tables: sa.FromClause = sample
    columns: list[sa.ColumnElement[Any]] = [sample.c.sample_id, sample.c.video_id]
    columns += [sa.func.hashtextextended(sample.c.key, sa.literal_column("0"))]
    for number, scorer_id in enumerate(scorers.values()):
        scored = score.alias(f"score_{number}")
        is_same = sa.and_(scored.c.scorer_id == scorer_id, scored.c.sample_id == sample.c.sample_id)
        tables = tables.outerjoin(scored, is_same)
        columns.append(sa.func.coalesce(sa.case((~scored.c.is_stale, scored.c.value)), sa.literal_column("'NaN'")))
    # A row per shard, so that no array comes near the gigabyte which is the most that Postgres sends as one value.
    groups = (sample.c.kind, sample.c.system, sample.c.shard)
    query = (
        sa.select(*groups, *map(pack_column, columns))
        .select_from(tables)
        .where(sample.c.dataset_id == dataset.dataset_id)
        .group_by(*groups)
        .order_by(sample.c.kind)
    )
    by_kind = groupby(connection.execute(query), key=lambda row: row.kind)
    return {kind: _build_arrays(list(rows), list(scorers)) for kind, rows in by_kind}


def _build_arrays(rows: Sequence[sa.Row[Any]], names: Sequence[str]) -> ScoreArrays:
    """Build the arrays of one kind of samples from rows (kind, system, shard, packed columns)."""
    packed = zip(*(tuple(row)[3:] for row in rows), strict=True)
    kinds = [*["i8"] * 3, *["f8"] * len(names)]
    parts = [[unpack_column(part, kind) for part in column] for kind, column in zip(kinds, packed, strict=True)]
    sizes = [part.size for part in parts[0]]
    n_by_system: Counter[str] = Counter()
    for row, size in zip(rows, sizes, strict=True):
        n_by_system[row.system] += size
    systems = sorted(n_by_system, key=lambda system: (-n_by_system[system], system))
    places = {system: place for place, system in enumerate(systems)}
    groups = np.array([(row.shard, places[row.system]) for row in rows]).T
    sample_ids, *columns = [np.concatenate(column) for column in parts]
    order = np.argsort(sample_ids)
    shards, system_places = (np.repeat(group, sizes)[order] for group in groups)
    video_ids, chances, *values = (column[order] for column in columns)
    return ScoreArrays(
        *(sample_ids[order], video_ids, shards.astype(np.int16), tuple(systems), system_places, chances),
        dict(zip(names, values, strict=True)),
    )
