"""The scores of one dataset, side by side for its report: a temporary table, and aggregates that stay small."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.verdicts import MANIFEST_LABELS

_LABELS = {"source": MANIFEST_LABELS}
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
# Rows that a stream holds at a time.
ROWS = 2000


@dataclass(frozen=True, slots=True)
class Spread:
    """A group's n defined values: the quantiles of `QUANTILES`."""

    group: str
    n: int
    quantiles: tuple[float, ...]


def collect_scores(connection: Connection, dataset_id: int, metrics: Sequence[str]) -> None:
    """Make the temporary table `reported`: a row per sample with value, status and rank of every metric.

    A rank lies in (0, 1): the share of the samples of its kind with a lower value, equal ones counted half. The table
    is gone with the transaction. metrics: columns of view sample_scores.
    """
    columns = "".join(
        f", v.{m}, COALESCE(v.{m}_status, 'unscored') AS {m}_status, CASE WHEN v.{m} IS NOT NULL THEN "
        f"(percent_rank() OVER {m}_w + cume_dist() OVER {m}_w) / 2 END AS {m}_rank"
        for m in metrics
    )
    windows = ", ".join(f"{m}_w AS (PARTITION BY s.kind, v.{m} IS NULL ORDER BY v.{m})" for m in metrics)
    connection.exec_driver_sql("SET LOCAL jit = off")
    # `chance` orders samples at random, but alike in every database.
    connection.exec_driver_sql(
        "CREATE TEMPORARY TABLE reported ON COMMIT DROP AS SELECT s.sample_id, s.video_id, s.kind, s.shard, s.system, "
        f"hashtextextended(s.key, 0) AS chance{columns} FROM sample s JOIN sample_scores v USING (sample_id) "
        f"WHERE s.dataset_id = {dataset_id:d} {f'WINDOW {windows}' if windows else ''}"
    )
    connection.exec_driver_sql("CREATE INDEX ON reported (sample_id)")
    connection.exec_driver_sql("ANALYZE reported")


def statuses(connection: Connection, metric: str) -> list[tuple[str, str, int]]:
    """How many samples of each kind have each status of a metric: (kind, status, n), most first."""
    query = f"SELECT kind, {metric}_status, count(*) AS n FROM reported GROUP BY 1, 2 ORDER BY 1, 3 DESC, 2"
    return [(row[0], row[1], row[2]) for row in connection.execute(sa.text(query))]


def reasons(connection: Connection, metric: str, scorer_id: int) -> dict[str, str]:
    """The commonest reason of every status but ok and stale."""
    query = sa.text(
        f"SELECT r.{metric}_status, mode() WITHIN GROUP (ORDER BY c.error) FROM reported r JOIN score c "
        f"ON c.sample_id = r.sample_id AND c.scorer_id = :scorer_id WHERE r.{metric}_status NOT IN ('ok', 'stale') "
        "GROUP BY 1"
    )
    return {row[0]: row[1] for row in connection.execute(query, {"scorer_id": scorer_id}) if row[1]}


def systems_of(connection: Connection) -> list[tuple[str, str, int, int]]:
    """(kind, system, samples, videos) of every system, those with the most samples first in each kind."""
    query = (
        "SELECT kind, system, count(*), count(DISTINCT video_id) FROM reported GROUP BY 1, 2 "
        'ORDER BY 1, 3 DESC, system COLLATE "C"'
    )
    return [(row[0], row[1], row[2], row[3]) for row in connection.execute(sa.text(query))]


def sums_by_video(connection: Connection, kind: str, metrics: Sequence[str]) -> Iterator[tuple[int, str, list[Any]]]:
    """Video, system, and for each metric sum and number of its values; the rows of a video follow each other."""
    columns = ", ".join(f"COALESCE(sum({m}), 0), count({m})" for m in metrics)
    query = f"SELECT video_id, system, {columns} FROM reported WHERE kind = :kind GROUP BY 1, 2 ORDER BY 1"
    for row in _streamed(connection, query, {"kind": kind}):
        yield row[0], row[1], list(row)[2:]


def count_videos(connection: Connection, kind: str, *, judged: bool) -> int:
    """The videos with samples of a kind, or with rated or labelled ones alone."""
    table = "(SELECT * FROM reported r WHERE EXISTS (SELECT 1 FROM rating g WHERE g.sample_id = r.sample_id) OR EXISTS "
    table += "(SELECT 1 FROM keypoint_label l WHERE l.sample_id = r.sample_id AND l.source = :source)) AS judged"
    query = f"SELECT count(DISTINCT video_id) FROM {table if judged else 'reported'} WHERE kind = :kind"
    n: int = connection.execute(sa.text(query), {"kind": kind, **_LABELS}).scalar_one()
    return n


def judgement_sums_by_video(
    connection: Connection, kind: str, aspects: Sequence[str], labels: str
) -> Iterator[tuple[int, str, list[Any]]]:
    """The same for the mean ratings of samples by aspect.

    Aspect `labels` is the share of a sample's keypoints that the manifest labels as covered; a judge's do not count.
    """
    columns = ", ".join(
        f"COALESCE(sum(value) FILTER (WHERE aspect = :a{i}), 0), count(*) FILTER (WHERE aspect = :a{i})"
        for i in range(len(aspects))
    )
    query = (
        "WITH rated AS (SELECT r.video_id, r.system, g.aspect, avg(g.value) AS value FROM reported r "
        "JOIN rating g USING (sample_id) WHERE r.kind = :kind GROUP BY r.sample_id, r.video_id, r.system, g.aspect "
        "UNION ALL SELECT r.video_id, r.system, :labels, avg(CASE WHEN l.covered THEN 1.0 ELSE 0.0 END) "
        "FROM reported r JOIN keypoint_label l USING (sample_id) WHERE r.kind = :kind AND l.source = :source "
        "GROUP BY r.sample_id, r.video_id, r.system) "
        f"SELECT video_id, system, {columns} FROM rated GROUP BY 1, 2 ORDER BY 1"
    )
    named = {f"a{i}": aspect for i, aspect in enumerate(aspects)}
    for row in _streamed(connection, query, {"kind": kind, "labels": labels, **_LABELS, **named}):
        yield row[0], row[1], list(row)[2:]


def spreads(connection: Connection, kind: str, metric: str, by: str) -> list[Spread]:
    """The quantiles of a metric in every group, by column system or shard; groups without a value are left out."""
    query = sa.text(
        f"SELECT CAST({by} AS text), count({metric}), "
        f"percentile_cont(CAST(:quantiles AS float8[])) WITHIN GROUP (ORDER BY {metric}) "
        f"FROM reported WHERE kind = :kind AND {metric} IS NOT NULL GROUP BY {by} ORDER BY {by}"
    )
    rows = connection.execute(query, {"kind": kind, "quantiles": list(QUANTILES)})
    return [Spread(row[0], row[1], tuple(row[2])) for row in rows]


def histogram(connection: Connection, kind: str, metric: str, bins: int) -> tuple[float, float, list[int]] | None:
    """(lowest, highest, counts of equal bins between them) of a metric's values; None without a value."""
    limits = f"SELECT min({metric}), max({metric}) FROM reported WHERE kind = :kind"
    low, high = connection.execute(sa.text(limits), {"kind": kind}).one()
    if low is None:
        return None
    counts = [0] * bins
    if low == high:
        low, high = low - 0.5, high + 0.5
    query = (
        f"SELECT LEAST(width_bucket({metric}, :low, :high, :bins), :bins), count(*) FROM reported "
        f"WHERE kind = :kind AND {metric} IS NOT NULL GROUP BY 1"
    )
    for place, n in connection.execute(sa.text(query), {"kind": kind, "low": low, "high": high, "bins": bins}):
        counts[place - 1] = n
    return low, high, counts


def value_at(connection: Connection, metric: str, place: int) -> float:
    """The value at this place of all samples with one, best first, counted from 1."""
    query = sa.text(f"SELECT {metric} FROM reported WHERE {metric} IS NOT NULL ORDER BY 1 DESC OFFSET :skip LIMIT 1")
    value: float = connection.execute(query, {"skip": place - 1}).scalar_one()
    return value


def left_by(connection: Connection, metric: str, cut: float) -> list[tuple[str, str, int, int]]:
    """(kind, system, samples with a value, those at or above the cut) of every system."""
    query = sa.text(
        f"SELECT kind, system, count(*), count(*) FILTER (WHERE {metric} >= :cut) FROM reported "
        f'WHERE {metric} IS NOT NULL GROUP BY 1, 2 ORDER BY kind, system COLLATE "C"'
    )
    return [(row[0], row[1], row[2], row[3]) for row in connection.execute(query, {"cut": cut})]


def ratings_beside(
    connection: Connection, metric: str, cut: float
) -> list[tuple[str, float | None, float | None, int]]:
    """(aspect, mean rating at or above the cut, mean rating below, ratings of samples with a value)."""
    query = sa.text(
        f"SELECT g.aspect, avg(g.value) FILTER (WHERE {metric} >= :cut), avg(g.value) FILTER (WHERE {metric} < :cut), "
        f"count(*) FROM reported r JOIN rating g USING (sample_id) WHERE {metric} IS NOT NULL "
        'GROUP BY 1 ORDER BY g.aspect COLLATE "C"'
    )
    return [(row[0], row[1], row[2], row[3]) for row in connection.execute(query, {"cut": cut})]


def some_values(connection: Connection, kind: str, metrics: Sequence[str], most: int) -> list[list[float | None]]:
    """The values of the metrics for at most so many samples, drawn at random and the same each time."""
    query = f"SELECT {', '.join(metrics)} FROM reported WHERE kind = :kind ORDER BY chance, sample_id LIMIT :most"
    return [list(row) for row in connection.execute(sa.text(query), {"kind": kind, "most": most})]


def _streamed(connection: Connection, query: str, values: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """The rows of a query through a cursor of the server, so that few are held at a time."""
    options = {"stream_results": True, "yield_per": ROWS}
    for row in connection.execute(sa.text(query), values, execution_options=options):
        yield tuple(row)
