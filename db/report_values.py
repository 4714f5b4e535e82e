"""The scores of one dataset, side by side for its report: a temporary table, and aggregates that stay small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest import Dataset
from db.present import active_scorers, prepare_for_stored_scores

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, slots=True)
class Spread:
    """A group's n defined values: the quantiles of `QUANTILES`."""

    group: str
    n: int
    quantiles: tuple[float, ...]


def collect_scores(connection: Connection, dataset: Dataset, metrics: Sequence[str]) -> None:
    """Make the temporary table `reported`: a row per sample with value and status of every metric.

    The table is gone with the transaction. metrics: columns of view sample_scores.
    """
    scorers = active_scorers(connection, dataset)
    fresh = {metric: scorers[metric].scorer_id for metric in metrics if metric in scorers and scorers[metric].is_fresh}
    columns = "".join(f", {value} AS {m}, {status} AS {m}_status" for m in metrics for value, status in [_of(m, fresh)])
    joins = "".join(
        f" LEFT JOIN score {m} ON {m}.sample_id = s.sample_id AND {m}.scorer_id = {scorer_id:d}"
        for m, scorer_id in fresh.items()
    )
    view = "" if fresh.keys() >= set(metrics) else " JOIN sample_scores v USING (sample_id)"
    connection.exec_driver_sql("SET LOCAL jit = off")
    if not view:
        prepare_for_stored_scores(connection)
    # `chance` orders samples at random, but alike in every database.
    connection.exec_driver_sql(
        "CREATE TEMPORARY TABLE reported ON COMMIT DROP AS SELECT s.sample_id, s.video_id, s.kind, s.shard, s.system, "
        f"hashtextextended(s.key, 0) AS chance{columns} FROM sample s{view}{joins} "
        f"WHERE s.dataset_id = {dataset.dataset_id:d}"
    )
    connection.exec_driver_sql("ANALYZE reported")
    connection.exec_driver_sql("SET LOCAL enable_hashjoin TO DEFAULT")
    connection.exec_driver_sql("SET LOCAL work_mem = '64MB'")


def _of(metric: str, fresh: Mapping[str, int]) -> tuple[str, str]:
    """The columns with a metric's value and status.

    Where no score is stale an index has the values, and the table is read for samples without a value alone.
    """
    if metric not in fresh:
        return f"v.{metric}", f"COALESCE(v.{metric}_status, 'unscored')"
    of_sample = f"SELECT c.status FROM score c WHERE c.scorer_id = {fresh[metric]:d} AND c.sample_id = s.sample_id"
    return f"{metric}.value", f"CASE WHEN {metric}.value IS NULL THEN COALESCE(({of_sample}), 'unscored') ELSE 'ok' END"


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
        "SELECT kind, system, CAST(sum(n) AS bigint), count(*) "
        "FROM (SELECT kind, system, video_id, count(*) AS n FROM reported "
        'GROUP BY 1, 2, 3) AS of_video GROUP BY 1, 2 ORDER BY 1, 3 DESC, system COLLATE "C"'
    )
    return [(row[0], row[1], row[2], row[3]) for row in connection.execute(sa.text(query))]


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


def lowest_kept(connection: Connection, metric: str, places: Sequence[int]) -> list[float]:
    """The values at these places of all n samples with one, best first, counted from 1."""
    # The k-th best of n values is their discrete quantile at (k - 1/2) / n from above: no rounding moves it.
    query = sa.text(
        f"SELECT percentile_disc((SELECT array_agg((place - 0.5) / (SELECT count({metric}) FROM reported) "
        "ORDER BY number) FROM unnest(CAST(:places AS integer[])) WITH ORDINALITY AS wanted (place, number))) "
        f"WITHIN GROUP (ORDER BY {metric} DESC) FROM reported"
    )
    values: list[float] = connection.execute(query, {"places": list(places)}).scalar_one()
    return values


def left_by(connection: Connection, metric: str, cuts: Sequence[float]) -> list[tuple[str, str, int, list[int]]]:
    """(kind, system, samples with a value, for each cut those at or above it) of every system."""
    left = ", ".join(f"count(*) FILTER (WHERE {metric} >= :cut{i})" for i in range(len(cuts)))
    query = sa.text(
        f"SELECT kind, system, count(*), {left} FROM reported "
        f'WHERE {metric} IS NOT NULL GROUP BY 1, 2 ORDER BY kind, system COLLATE "C"'
    )
    rows = connection.execute(query, {f"cut{i}": cut for i, cut in enumerate(cuts)})
    return [(row[0], row[1], row[2], list(row[3:])) for row in rows]


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


def drawn_values(
    connection: Connection, kind: str, metrics: Sequence[str], most: int
) -> list[tuple[int, list[float | None]]]:
    """Id and values of at most so many samples, drawn at random and the same each time, in the order of the draw."""
    columns = "".join(f", {metric}" for metric in metrics)
    query = f"SELECT sample_id{columns} FROM reported WHERE kind = :kind ORDER BY chance, sample_id LIMIT :most"
    rows = connection.execute(sa.text(query), {"kind": kind, "most": most})
    return [(row[0], list(row[1:])) for row in rows]
