"""Values and judgements of samples in batches of whole videos, as arrays: the input of resampling by video."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.engine import Connection

from db.evidence.verdicts import MANIFEST_LABEL_SOURCE

# Bytes before the first row of a binary COPY, and of a batch of rows.
_HEADER = 19
_BATCH = 1 << 18


def count_videos(connection: Connection, kind: str, *, judged: bool) -> int:
    """Return the number of videos that have a sample of a kind in table `reported`. With `judged`, only samples that
    people rated or labelled count. `db.reports.values.create_reported_table` must have run.
    """
    table = "(SELECT * FROM reported r WHERE EXISTS (SELECT 1 FROM random_rating g WHERE g.sample_id = r.sample_id) OR "
    table += "EXISTS (SELECT 1 FROM current_label l WHERE l.sample_id = r.sample_id AND l.source = :source)) AS judged"
    query = f"SELECT count(DISTINCT video_id) FROM {table if judged else 'reported'} WHERE kind = :kind"
    n: int = connection.execute(sa.text(query), {"kind": kind, "source": MANIFEST_LABEL_SOURCE}).scalar_one()
    return n


class SampleBatch(NamedTuple):
    """Samples of some videos as arrays in the same order, with the samples of a video next to one another. `values` has
    shape (number of samples, columns), with NaN for a missing value. `system_places` has the index of every sample's
    system in the list that was asked for, or -1 for a system that is not in it.
    """

    video_ids: npt.NDArray[np.int64]
    system_places: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


def load_values_by_video(
    connection: Connection, kind: str, metrics: Sequence[str], systems: Sequence[str]
) -> Iterator[SampleBatch]:
    """Yield batches of all samples of a kind in table `reported`, with their values by `metrics` as columns, ordered by
    video id. No video is divided over two batches. `systems` is the list in which the batches give the place of a
    sample's system; `db.reports.values.create_reported_table` must have run.
    """
    columns = [sql.Identifier(metric) for metric in metrics]
    query = sql.SQL("SELECT video_id, system, {} FROM reported WHERE kind = {}")
    return _load_batches(connection, query.format(_name_columns(columns), sql.Literal(kind)), len(columns), systems)


def load_judgements_by_video(
    connection: Connection, kind: str, aspects: Sequence[str], labels: str, systems: Sequence[str]
) -> Iterator[SampleBatch]:
    """Yield batches of the samples of a kind in table `reported` that people judged, with their mean ratings by
    `aspects` as columns, ordered by video id. In the column of the aspect named by `labels` the value is the share of
    labelled keypoints that the sample covers. No video is divided over two batches.

    systems: the list in which the batches give the place of a sample's system. Only ratings that statistics may use and
    labels by people count. `db.reports.values.create_reported_table` must have run.
    """
    columns = [sql.SQL("avg(value) FILTER (WHERE aspect = {})").format(sql.Literal(aspect)) for aspect in aspects]
    query = sql.SQL(
        "SELECT video_id, system, {columns} FROM reported JOIN (SELECT sample_id, aspect, value FROM random_rating "
        "UNION ALL SELECT sample_id, {labels}, CASE WHEN covered THEN 1.0 ELSE 0.0 END FROM current_label "
        "WHERE source = {source}) AS judged USING (sample_id) WHERE kind = {kind} GROUP BY sample_id, video_id, system"
    ).format(
        columns=_name_columns(columns),
        labels=sql.Literal(labels),
        source=sql.Literal(MANIFEST_LABEL_SOURCE),
        kind=sql.Literal(kind),
    )
    return _load_batches(connection, query, len(columns), systems)


def _name_columns(columns: Sequence[sql.Composable]) -> sql.Composed:
    """Return the columns under the names value_0, value_1 and so on."""
    return sql.SQL(", ").join(
        sql.SQL("{} AS {}").format(column, sql.Identifier(f"value_{number}")) for number, column in enumerate(columns)
    )


def _load_batches(
    connection: Connection, query: sql.Composed, n_columns: int, systems: Sequence[str]
) -> Iterator[SampleBatch]:
    """Yield batches of the rows (video_id, system, value_0, ...) of a query."""
    values = [sql.SQL("COALESCE({}, 'NaN')").format(sql.Identifier(f"value_{number}")) for number in range(n_columns)]
    statement = sql.SQL(
        "COPY (SELECT video_id, COALESCE(array_position({}, system), 0) - 1, {} FROM ({}) AS sample ORDER BY 1) "
        "TO STDOUT (FORMAT binary)"
    ).format(sql.Literal(list(systems)), sql.SQL(", ").join(values), query)
    # A row of a binary COPY: the number of its fields, then every field behind its length.
    row = np.dtype(
        [
            ("fields", ">i2"),
            *[("video_length", ">i4"), ("video", ">i8"), ("system_length", ">i4"), ("system", ">i4")],
            ("values", [("length", ">i4"), ("value", ">f8")], (n_columns,)),
        ]
    )
    rest = np.empty(0, dtype=row)
    for batch in _load_rows(connection, statement, row):
        rows = np.concatenate([rest, batch])
        n_whole = int(np.searchsorted(rows["video"], rows["video"][-1]))
        if n_whole:
            yield _build_batch(rows[:n_whole])
        rest = rows[n_whole:]
    if rest.size:
        yield _build_batch(rest)


def _build_batch(rows: npt.NDArray[Any]) -> SampleBatch:
    return SampleBatch(
        rows["video"].astype(np.int64), rows["system"].astype(np.int64), rows["values"]["value"].astype(np.float64)
    )


def _load_rows(connection: Connection, statement: sql.Composed, row: np.dtype[Any]) -> Iterator[npt.NDArray[Any]]:
    """Yield arrays of rows of a binary COPY whose fields all have a fixed length."""
    driver: Any = connection.connection.driver_connection
    buffer = bytearray()
    start = _HEADER
    with driver.cursor() as cursor, cursor.copy(statement) as copy:
        for block in copy:
            buffer += block
            if len(buffer) > _BATCH:
                n = (len(buffer) - start) // row.itemsize
                yield np.frombuffer(bytes(buffer[start : start + n * row.itemsize]), dtype=row)
                del buffer[: start + n * row.itemsize]
                start = 0
    n = (len(buffer) - start) // row.itemsize
    if n:
        yield np.frombuffer(bytes(buffer), dtype=row, count=n, offset=start)
