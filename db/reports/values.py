"""The scores of one dataset side by side for its report: a temporary table `reported`, and aggregates over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from db.manifest.datasets import Dataset
from db.scores.sample_scores import load_active_scorers, prepare_for_joins

# System, number of samples with a value, and for every threshold the number of samples at or above it.
SystemKept = tuple[str, int, list[int]]
# Aspect, mean rating at or above a threshold, mean rating below it, number of ratings of samples with a value.
RatingsByThreshold = tuple[str, float | None, float | None, int]
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, slots=True)
class Spread:
    """Quantiles of the `n` defined values of one group, such as a system or a shard. They are the 5, 25, 50, 75 and 95
    % quantiles (QUANTILES), in this order.
    """

    group: str
    n: int
    quantiles: tuple[float, ...]


class StatusTally(NamedTuple):
    """The number `n` of samples of a kind that have a status by one metric. `low` and `high` are the least and the
    greatest of their values, None if they have no values.
    """

    kind: str
    status: str
    n: int
    low: float | None
    high: float | None

    def merge(self, other: StatusTally) -> StatusTally:
        """Return a tally of the samples of both: the sum of the counts, and the extremes of all values. Kind and status
        are those of this tally, and the other one must have the same.
        """
        low, high = (
            [value for value in pair if value is not None] for pair in ((self.low, other.low), (self.high, other.high))
        )
        return self._replace(n=self.n + other.n, low=min(low, default=None), high=max(high, default=None))


def create_reported_table(connection: Connection, dataset: Dataset, metrics: Sequence[str]) -> None:
    """Create the temporary table `reported` with a row for every sample of the dataset, with its value and status by
    every given metric (`<metric>`, `<metric>_status`). A stale score has status "stale" and no value; a sample without
    a score has status "unscored". Postgres drops the table when the transaction ends.

    metrics: names of metrics or simple scores that view sample_scores has.
    """
    scorers = {metric: scorer.scorer_id for metric, scorer in load_active_scorers(connection, dataset).items()}
    columns = joins = ""
    for metric in metrics:
        if metric not in scorers:
            columns += f", CAST(NULL AS float8) AS {metric}, 'unscored' AS {metric}_status"
            continue
        scored = f"scorer_id = {scorers[metric]:d} AND {{}}.sample_id = s.sample_id"
        # An index has the values and the marks; the rows themselves are read only for samples without a value.
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
    """Count the samples in table `reported` by kind and status, and return a list of tallies by metric. The list is
    ordered by kind, then the most frequent status first. `create_reported_table` must have run with these metrics.
    """
    columns = "".join(f", {m}_status, min({m}), max({m})" for m in metrics)
    groups = ", ".join(["kind", *(f"{m}_status" for m in metrics)])
    rows = connection.execute(sa.text(f"SELECT kind, count(*){columns} FROM reported GROUP BY {groups}")).all()
    by_metric: dict[str, list[StatusTally]] = {}
    for number, metric in enumerate(metrics):
        by_status: dict[tuple[str, str], StatusTally] = {}
        for kind, n, *metric_values in rows:
            status, low, high = metric_values[3 * number : 3 * number + 3]
            tally = StatusTally(kind, status, n, low, high)
            earlier = by_status.get((kind, status))
            by_status[kind, status] = tally if earlier is None else earlier.merge(tally)
        by_metric[metric] = sorted(by_status.values(), key=lambda item: (item.kind, -item.n, item.status))
    return by_metric


def load_commonest_reasons(connection: Connection, metric: str, scorer_id: int) -> dict[str, str]:
    """Return by status the commonest reason why samples in table `reported` have no value by a metric. Statuses without
    a stored reason, such as ok, stale and unscored, are left out. `scorer_id` is the metric's active scorer.
    """
    query = sa.text(
        f"SELECT r.{metric}_status, mode() WITHIN GROUP (ORDER BY c.error) FROM reported r JOIN score c "
        f"ON c.sample_id = r.sample_id AND c.scorer_id = :scorer_id WHERE r.{metric}_status NOT IN ('ok', 'stale') "
        "GROUP BY 1"
    )
    return {row[0]: row[1] for row in connection.execute(query, {"scorer_id": scorer_id}) if row[1]}


def list_systems(connection: Connection) -> list[tuple[str, str, int, int]]:
    """List (kind, system, number of samples, number of videos) of table `reported`, ordered by kind, then the most
    samples first.
    """
    query = (
        "SELECT kind, system, CAST(sum(n) AS bigint), count(*) "
        "FROM (SELECT kind, system, video_id, count(*) AS n FROM reported "
        'GROUP BY 1, 2, 3) AS of_video GROUP BY 1, 2 ORDER BY 1, 3 DESC, system COLLATE "C"'
    )
    return [(row[0], row[1], row[2], row[3]) for row in connection.execute(sa.text(query))]


def compute_spreads(connection: Connection, kind: str, metric: str, by: str) -> list[Spread]:
    """Return quantiles of a metric's values, one `Spread` for every group of samples of a kind in table `reported`.
    `by` is the column that groups them, "system" or "shard"; the groups are in its order. A group without a value is
    left out.
    """
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
    """Count the values of a metric in `bins` equal bins from `low` to `high`, and return the counts in order. The
    samples are those of a kind in table `reported`. `low` must be below `high`, and both must enclose all values;
    `high` itself is in the last bin.
    """
    counts = [0] * bins
    query = (
        f"SELECT LEAST(width_bucket({metric}, :low, :high, :bins), :bins), count(*) FROM reported "
        f"WHERE kind = :kind AND {metric} IS NOT NULL GROUP BY 1"
    )
    for place, n in connection.execute(sa.text(query), {"kind": kind, "low": low, "high": high, "bins": bins}):
        counts[place - 1] = n
    return counts


def load_values_at_ranks(connection: Connection, kind: str, metric: str, ranks: Sequence[int], n: int) -> list[float]:
    """Return the values of a metric that the samples of a kind in table `reported` have at these ranks, in the same
    order. Rank 1 is the greatest value. `n` must be the number of these samples that have a value.
    """
    # The k-th best of n values is their discrete quantile at (k - 1/2) / n from above: no rounding moves it.
    query = sa.text(
        f"SELECT percentile_disc(CAST(:fractions AS float8[])) WITHIN GROUP (ORDER BY {metric} DESC) FROM reported "
        "WHERE kind = :kind"
    )
    fractions = [(place - 0.5) / n for place in ranks]
    values: list[float] = connection.execute(query, {"kind": kind, "fractions": fractions}).scalar_one()
    return values


def count_equal(connection: Connection, kind: str, metric: str, values: Sequence[float]) -> list[int]:
    """Return for every given value the number of samples of a kind in table `reported` that have exactly this value by
    a metric, in the same order. `values` must not be empty.
    """
    names = {f"value_{place}": value for place, value in enumerate(values)}
    counts = ", ".join(f"count(*) FILTER (WHERE {metric} = :{name})" for name in names)
    query = sa.text(f"SELECT {counts} FROM reported WHERE kind = :kind")
    return list(connection.execute(query, {"kind": kind, **names}).one())


def count_kept_by_system(
    connection: Connection, kind: str, thresholds: Mapping[str, Sequence[float]]
) -> dict[str, list[SystemKept]]:
    """Return by metric a list of (system, number of samples with a value, numbers at or above each threshold), ordered
    by system. The samples are those of a kind in table `reported`, and `thresholds` has a list for every metric. A
    system without a value by the metric is left out.
    """
    values: dict[str, float | str] = {"kind": kind}
    columns = ""
    for metric, limits in thresholds.items():
        names = [f"{metric}_{number}" for number in range(len(limits))]
        values |= dict(zip(names, limits, strict=True))
        counts = ", ".join(f"count(*) FILTER (WHERE {metric} >= :{name})" for name in names)
        columns += f", count({metric}), ARRAY[{counts}]"
    query = f'SELECT system{columns} FROM reported WHERE kind = :kind GROUP BY 1 ORDER BY system COLLATE "C"'
    rows = connection.execute(sa.text(query), values).all()
    return {
        metric: [(row[0], row[1 + 2 * i], row[2 + 2 * i]) for row in rows if row[1 + 2 * i]]
        for i, metric in enumerate(thresholds)
    }


def compare_ratings_by_threshold(
    connection: Connection, kind: str, metric: str, threshold: float
) -> list[RatingsByThreshold]:
    """Return (aspect, mean rating of samples at or above a threshold, mean rating of those below, number of ratings)
    for every rated aspect, sorted by aspect. A mean is None if no rated sample is on that side. It covers samples of a
    kind in table `reported` with a value by the metric, and the ratings that statistics may use.
    """
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
    """Draw at most `limit` samples of a kind from table `reported`, and return (sample id, values by the metrics in
    their order) in the order of the draw. A missing value is None. The draw depends on the samples' keys only, so it is
    the same every time.
    """
    columns = "".join(f", {metric}" for metric in metrics)
    query = f"SELECT sample_id{columns} FROM reported WHERE kind = :kind ORDER BY chance, sample_id LIMIT :most"
    rows = connection.execute(sa.text(query), {"kind": kind, "most": limit})
    return [(row[0], list(row[1:])) for row in rows]
