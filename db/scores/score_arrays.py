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
from db.manifest.draws import build_draw_number
from db.schema import sample
from db.scores.sample_scores import prepare_for_joins
from db.server.arrays import pack_column, read_arrays, unpack_column

# Postgres sends at most a gigabyte as one array.
SAMPLES_AT_ONCE = 4_000_000
# Ids of other samples between two ids that are read, too: to look for the next id would take longer.
_GAP = 8


class ScoreArrays(NamedTuple):
    """All samples of one kind of a dataset as arrays (n,), ordered by sample id. systems: names of the systems, the one
    with the most samples first; system_places: index of the sample's system in this list. chances: the random numbers
    of the samples by seed 0. values: by scorer, NaN for a sample without a value.
    """

    sample_ids: npt.NDArray[np.int64]
    video_ids: npt.NDArray[np.int64]
    shards: npt.NDArray[np.int16]
    systems: tuple[str, ...]
    system_places: npt.NDArray[np.int64]
    chances: npt.NDArray[np.float64]
    values: Mapping[str, npt.NDArray[np.float64]]


def load_score_arrays(connection: Connection, dataset: Dataset, scorers: Mapping[str, int]) -> dict[str, ScoreArrays]:
    """Load all samples of a dataset with their values by scorers, by kind of samples ("caption", "qa"), sorted by kind.
    A stale score has no value. scorers: ids by the names under which the result has their values. A million samples
    take 40 MB of memory, and 8 MB for each scorer.

    It also changes settings of Postgres's planner until the transaction ends, see `prepare_for_joins`.
    """
    prepare_for_joins(connection)
    columns = (sample.c.sample_id, sample.c.video_id, build_draw_number(0))
    groups = (sample.c.kind, sample.c.system, sample.c.shard)
    query = (
        sa.select(*groups, *map(pack_column, columns))
        .where(sample.c.dataset_id == dataset.dataset_id)
        .group_by(*groups)
        .order_by(sample.c.kind)
    )
    by_kind = groupby(connection.execute(query), key=lambda row: row.kind)
    samples = {kind: _build_arrays(list(rows)) for kind, rows in by_kind}
    return {
        kind: arrays._replace(
            values={name: load_values(connection, scorer_id, arrays.sample_ids) for name, scorer_id in scorers.items()}
        )
        for kind, arrays in samples.items()
    }


def load_values(
    connection: Connection, scorer_id: int, sample_ids: npt.NDArray[np.int64], at_once: int = SAMPLES_AT_ONCE
) -> npt.NDArray[np.float64]:
    """Load the values (n,) that a scorer gave to samples, NaN for a sample without a value. sample_ids: in ascending
    order. at_once: how many samples one statement reads. A stale score has no value.

    Only the index of scores is read: a join with the samples would take four times as long.
    """
    query = (
        "SELECT c.sample_id, c.value FROM unnest(CAST(:lows AS bigint[]), CAST(:highs AS bigint[])) r (low, high) "
        "JOIN score c ON c.scorer_id = :scorer_id AND c.sample_id BETWEEN r.low AND r.high "
        "WHERE c.value IS NOT NULL AND NOT c.is_stale"
    )
    values = np.full(sample_ids.size, np.nan)
    for start in range(0, sample_ids.size, at_once):
        ids = sample_ids[start : start + at_once]
        cuts = np.flatnonzero(np.diff(ids) > _GAP)
        limits = {"lows": ids[[0, *(cuts + 1)]].tolist(), "highs": ids[[*cuts, -1]].tolist()}
        kinds = {"sample_id": "i8", "value": "f8"}
        scored, given = read_arrays(connection, kinds, query, {"scorer_id": scorer_id, **limits})
        places = np.searchsorted(ids, scored)
        is_asked = ids[places] == scored
        values[start + places[is_asked]] = given[is_asked]
    return values


def _build_arrays(rows: Sequence[sa.Row[Any]]) -> ScoreArrays:
    """Build the arrays of one kind of samples, without values, from rows (kind, system, shard, packed columns)."""
    packed = zip(*(tuple(row)[3:] for row in rows), strict=True)
    kinds = ("i8", "i8", "f8")
    parts = [[unpack_column(part, kind) for part in column] for kind, column in zip(kinds, packed, strict=True)]
    sizes = [part.size for part in parts[0]]
    n_by_system: Counter[str] = Counter()
    for row, size in zip(rows, sizes, strict=True):
        n_by_system[row.system] += size
    systems = sorted(n_by_system, key=lambda system: (-n_by_system[system], system))
    places = {system: place for place, system in enumerate(systems)}
    groups = np.array([(row.shard, places[row.system]) for row in rows]).T
    sample_ids, video_ids, chances = (np.concatenate(column) for column in parts)
    order = np.argsort(sample_ids)
    shards, system_places = (np.repeat(group, sizes)[order] for group in groups)
    return ScoreArrays(
        *(sample_ids[order], video_ids[order], shards.astype(np.int16), tuple(systems), system_places, chances[order]),
        values={},
    )
