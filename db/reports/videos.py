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
from db.server.arrays import unpack_column

# Videos of a batch, by their ids.
_VIDEOS = 4096


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
    names = [sql.Identifier(f"value_{number}") for number in range(n_columns)]
    statement = sql.SQL(
        "SELECT array_send(array_agg(video_id)), array_send(array_agg(place)), {packed} FROM (SELECT video_id, "
        "COALESCE(array_position({systems}, system), 0) - 1 AS place, {values} FROM ({query}) AS sample) AS placed "
        "GROUP BY video_id / {n} ORDER BY video_id / {n}"
    ).format(
        packed=sql.SQL(", ").join(sql.SQL("array_send(array_agg({}))").format(name) for name in names),
        systems=sql.Literal(list(systems)),
        values=sql.SQL(", ").join(sql.SQL("COALESCE({0}, 'NaN') AS {0}").format(name) for name in names),
        query=query,
        n=sql.Literal(_VIDEOS),
    )
    driver: Any = connection.connection.driver_connection
    rows = connection.exec_driver_sql(
        statement.as_string(driver), execution_options={"no_parameters": True, "yield_per": 1}
    )
    for videos, places, *values in rows:
        video_ids = unpack_column(videos, "i8")
        order = np.argsort(video_ids, kind="stable")
        columns = np.stack([unpack_column(column, "f8") for column in values], axis=1)
        yield SampleBatch(video_ids[order], unpack_column(places, "i4").astype(np.int64)[order], columns[order])
