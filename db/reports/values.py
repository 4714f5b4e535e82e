"""The scores of one dataset, side by side for its report: a temporary table, and aggregates that stay small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.scores.sample_scores import load_active_scorers, prepare_for_joins

# System, samples with a value, and for each cut those at or above it.
SystemKept = tuple[str, int, list[int]]
# Aspect, mean rating at or above a cut, mean rating below, ratings of samples with a value.
RatingsByThreshold = tuple[str, float | None, float | None, int]
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, slots=True)
class Spread:
    """A group's n defined values: the quantiles of `QUANTILES`."""

    group: str
    n: int
    quantiles: tuple[float, ...]


class StatusTally(NamedTuple):
    """How many samples of a kind have a status; low, high: the extremes of their values, None without a value."""

    kind: str
    status: str
    n: int
    low: float | None
    high: float | None

    def merge(self, other: StatusTally) -> StatusTally:
        """The tally of both."""
        low, high = (
            [each for each in pair if each is not None] for pair in ((self.low, other.low), (self.high, other.high))
        )
        return self._replace(n=self.n + other.n, low=min(low, default=None), high=max(high, default=None))


def create_reported_table(connection: Connection, dataset: Dataset, metrics: Sequence[str]) -> None:
    """Make the temporary table `reported`: a row per sample with value and status of every metric.

    The table is gone with the transaction. metrics: columns of view sample_scores.
    """
    scorers = {metric: found.scorer_id for metric, found in load_active_scorers(connection, dataset).items()}
    columns = joins = ""
    for metric in metrics:
        if metric not in scorers:
            columns += f", CAST(NULL AS float8) AS {metric}, 'unscored' AS {metric}_status"
            continue
        scored = f"scorer_id = {scorers[metric]:d} AND {{}}.sample_id = s.sample_id"
        # An index has the values and the marks; the rows themselves are read of samples without a value alone.
        status = f"SELECT c.status FROM score c WHERE c.{scored.format('c')}"
        joins += f" LEFT JOIN score {metric} ON {metric}.{scored.format(metric)}"
        columns += (
            f", CASE WHEN NOT {metric}.is_stale THEN {metric}.value END AS {metric}"
            f", CASE WHEN {metric}.is_stale THEN 'stale' WHEN {metric}.value IS NOT NULL THEN 'ok' "
            f"ELSE COALESCE(({status}), 'unscored') END AS {metric}_status"
        )
    prepare_for_joins(connection)
    # `chance` orders samples at random, but alike in every database. No bound parameters: CREATE TABLE takes none.
    connection.exec_driver_sql(
        "CREATE TEMPORARY TABLE reported ON COMMIT DROP AS SELECT s.sample_id, s.video_id, s.kind, s.shard, s.system, "
        f"hashtextextended(s.key, 0) AS chance{columns} FROM sample s{joins} "
        f"WHERE s.dataset_id = {dataset.dataset_id:d}"
    )
    connection.exec_driver_sql("ANALYZE reported")


def tally_statuses(connection: Connection, metrics: Sequence[str]) -> dict[str, list[StatusTally]]:
    """The samples of each kind by their status, for every metric; the commonest status of a kind first."""
    columns = "".join(f", {m}_status, min({m}), max({m})" for m in metrics)
    groups = ", ".join(["kind", *(f"{m}_status" for m in metrics)])
    rows = connection.execute(sa.text(f"SELECT kind, count(*){columns} FROM reported GROUP BY {groups}")).all()
    found: dict[str, list[StatusTally]] = {}
    for number, metric in enumerate(metrics):
        by_status: dict[tuple[str, str], StatusTally] = {}
        for kind, n, *others in rows:
            status, low, high = others[3 * number : 3 * number + 3]
            more = StatusTally(kind, status, n, low, high)
            known = by_status.get((kind, status))
            by_status[kind, status] = more if known is None else known.merge(more)
        found[metric] = sorted(by_status.values(), key=lambda each: (each.kind, -each.n, each.status))
    return found


def load_commonest_reasons(connection: Connection, metric: str, scorer_id: int) -> dict[str, str]:
    """The commonest reason of every status but ok and stale."""
    query = sa.text(
        f"SELECT r.{metric}_status, mode() WITHIN GROUP (ORDER BY c.error) FROM reported r JOIN score c "
        f"ON c.sample_id = r.sample_id AND c.scorer_id = :scorer_id WHERE r.{metric}_status NOT IN ('ok', 'stale') "
        "GROUP BY 1"
    )
    return {row[0]: row[1] for row in connection.execute(query, {"scorer_id": scorer_id}) if row[1]}


def list_systems(connection: Connection) -> list[tuple[str, str, int, int]]:
    """(kind, system, samples, videos) of every system, those with the most samples first in each kind."""
    query = (
        "SELECT kind, system, CAST(sum(n) AS bigint), count(*) "
        "FROM (SELECT kind, system, video_id, count(*) AS n FROM reported "
        'GROUP BY 1, 2, 3) AS of_video GROUP BY 1, 2 ORDER BY 1, 3 DESC, system COLLATE "C"'
    )
    return [(row[0], row[1], row[2], row[3]) for row in connection.execute(sa.text(query))]


def compute_spreads(connection: Connection, kind: str, metric: str, by: str) -> list[Spread]:
    """The quantiles of a metric in every group, by column system or shard; groups without a value are left out."""
    query = sa.text(
        f"SELECT CAST({by} AS text), count({metric}), "
        f"percentile_cont(CAST(:quantiles AS float8[])) WITHIN GROUP (ORDER BY {metric}) "
        f"FROM reported WHERE kind = :kind AND {metric} IS NOT NULL GROUP BY {by} ORDER BY {by}"
    )
    rows = connection.execute(query, {"kind": kind, "quantiles": list(QUANTILES)})
    return [Spread(row[0], row[1], tuple(row[2])) for row in rows]


def count_values_in_bins(
    connection: Connection, kind: str, metric: str, low: float, high: float, bins: int
) -> list[int]:
    """How many values of a metric lie in each of so many equal bins from low to high, which holds all of them."""
    counts = [0] * bins
    query = (
        f"SELECT LEAST(width_bucket({metric}, :low, :high, :bins), :bins), count(*) FROM reported "
        f"WHERE kind = :kind AND {metric} IS NOT NULL GROUP BY 1"
    )
    for place, n in connection.execute(sa.text(query), {"kind": kind, "low": low, "high": high, "bins": bins}):
        counts[place - 1] = n
    return counts


def load_values_at_ranks(connection: Connection, kind: str, metric: str, ranks: Sequence[int], n: int) -> list[float]:
    """The values at these places of all n samples of a kind with one, best first, counted from 1."""
    # The k-th best of n values is their discrete quantile at (k - 1/2) / n from above: no rounding moves it.
    query = sa.text(
        f"SELECT percentile_disc(CAST(:fractions AS float8[])) WITHIN GROUP (ORDER BY {metric} DESC) FROM reported "
        "WHERE kind = :kind"
    )
    fractions = [(place - 0.5) / n for place in ranks]
    values: list[float] = connection.execute(query, {"kind": kind, "fractions": fractions}).scalar_one()
    return values


def count_equal(connection: Connection, kind: str, metric: str, values: Sequence[float]) -> list[int]:
    """How many samples of a kind have exactly each of these values of a metric, in their order."""
    names = {f"value_{place}": value for place, value in enumerate(values)}
    counts = ", ".join(f"count(*) FILTER (WHERE {metric} = :{name})" for name in names)
    query = sa.text(f"SELECT {counts} FROM reported WHERE kind = :kind")
    return list(connection.execute(query, {"kind": kind, **names}).one())


def count_kept_by_system(
    connection: Connection, kind: str, thresholds: Mapping[str, Sequence[float]]
) -> dict[str, list[SystemKept]]:
    """What cuts on metrics leave of every system's samples of a kind, by metric."""
    values: dict[str, float | str] = {"kind": kind}
    columns = ""
    for metric, own in thresholds.items():
        names = [f"{metric}_{number}" for number in range(len(own))]
        values |= dict(zip(names, own, strict=True))
        left = ", ".join(f"count(*) FILTER (WHERE {metric} >= :{name})" for name in names)
        columns += f", count({metric}), ARRAY[{left}]"
    query = f'SELECT system{columns} FROM reported WHERE kind = :kind GROUP BY 1 ORDER BY system COLLATE "C"'
    rows = connection.execute(sa.text(query), values).all()
    return {
        metric: [(row[0], row[1 + 2 * i], row[2 + 2 * i]) for row in rows if row[1 + 2 * i]]
        for i, metric in enumerate(thresholds)
    }


def compare_ratings_by_threshold(
    connection: Connection, kind: str, metric: str, threshold: float
) -> list[RatingsByThreshold]:
    """The ratings of samples of a kind on both sides of a cut, for every aspect."""
    query = sa.text(
        f"SELECT g.aspect, avg(g.value) FILTER (WHERE {metric} >= :cut), avg(g.value) FILTER (WHERE {metric} < :cut), "
        f"count(*) FROM reported r JOIN random_rating g USING (sample_id) WHERE r.kind = :kind "
        f"AND {metric} IS NOT NULL "
        'GROUP BY 1 ORDER BY g.aspect COLLATE "C"'
    )
    return [(row[0], row[1], row[2], row[3]) for row in connection.execute(query, {"kind": kind, "cut": threshold})]


def draw_values(
    connection: Connection, kind: str, metrics: Sequence[str], limit: int
) -> list[tuple[int, list[float | None]]]:
    """Id and values of at most so many samples, drawn at random and the same each time, in the order of the draw."""
    columns = "".join(f", {metric}" for metric in metrics)
    query = f"SELECT sample_id{columns} FROM reported WHERE kind = :kind ORDER BY chance, sample_id LIMIT :most"
    rows = connection.execute(sa.text(query), {"kind": kind, "most": limit})
    return [(row[0], list(row[1:])) for row in rows]
