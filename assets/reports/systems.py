"""Compares systems: the mean of every metric and of every rating by system, with intervals over videos."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy.engine import Connection

from assets.agreement.estimated_means import EstimatedMean
from assets.agreement.judged import LABELS_ASPECT
from assets.reports.records import DataSummary, MetricSummary, SystemTable
from db.reports.videos import SampleBatch, count_videos, load_judgements_by_video, load_values_by_video
from metrics_core.arrays import FloatArray
from metrics_core.intervals import compute_cluster_means

MOST_SYSTEMS = 24
"""Only the systems with the most samples are on the page, where there are more than these."""


def compute_system_tables(
    connection: Connection, data: DataSummary, metrics: Sequence[MetricSummary]
) -> tuple[tuple[SystemTable, ...], tuple[SystemTable, ...]]:
    """Compute the systems' means by metrics, and by ratings and labels, as two tuples of tables, with one table for
    each kind of samples that has values. Of more than 24 systems, those with the most samples are included. P-values of
    leads are not corrected yet. Reads the temporary table `reported`, which `create_reported_table` must make before in
    the same transaction.
    """
    by_metric, by_aspect = [], []
    for kind in ("caption", "qa"):
        systems = [count.system for count in data.systems if count.kind == kind]
        shown = systems[:MOST_SYSTEMS]
        n_left_out = len(systems) - len(shown)
        names = [metric.name for metric in metrics if metric.has_values(kind)]
        if names:
            n_videos = count_videos(connection, kind, judged=False)
            values = load_values_by_video(connection, kind, names, shown)
            by_metric.append(_compute_table(kind, shown, names, n_videos, n_left_out, values))
        aspects = [*sorted(data.ratings), *([LABELS_ASPECT] if data.labelled else [])]
        n_judged = count_videos(connection, kind, judged=True) if aspects else 0
        if n_judged:
            values = load_judgements_by_video(connection, kind, aspects, LABELS_ASPECT, shown)
            by_aspect.append(_compute_table(kind, shown, aspects, n_judged, n_left_out, values))
    return tuple(by_metric), tuple(by_aspect)


def choose_shown_means(
    means: Sequence[EstimatedMean], metrics: Sequence[MetricSummary]
) -> Mapping[str, Sequence[EstimatedMean]]:
    """Return by expensive score the estimated means that a page shows: of the dataset and of its systems (at most 24),
    one for each group, corrected by the first of the metrics in their order that corrects it. The order is fixed before
    the answers, since the narrowest of several intervals would hold the mean less often.
    """
    places = {metric.name: place for place, metric in enumerate(metrics)}
    chosen: dict[tuple[str, str | None], EstimatedMean] = {}
    for mean in sorted(means, key=lambda mean: places.get(mean.helper or "", len(places))):
        if mean.group_kind != "selection":
            chosen.setdefault((mean.dear, mean.group_name), mean)
    by_score: dict[str, list[EstimatedMean]] = {}
    for mean in sorted(chosen.values(), key=lambda mean: (mean.group_name is not None, -mean.estimate.size)):
        by_score.setdefault(mean.dear, []).append(mean)
    return {dear: rows[: MOST_SYSTEMS + 1] for dear, rows in by_score.items()}


def _compute_table(
    kind: str,
    systems: Sequence[str],
    columns: Sequence[str],
    n_videos: int,
    n_left_out: int,
    rows: Iterable[SampleBatch],
) -> SystemTable:
    """Compute the means of every system by every column; systems without any value are left out, the best rank comes
    first.
    """
    column_means = compute_cluster_means(_sum_batches(rows, len(systems)), (n_videos, len(columns), len(systems)))
    means = {
        system: {name: column_means[i][number] for i, name in enumerate(columns)}
        for number, system in enumerate(systems)
    }
    shown = [system for system in systems if any(mean.n for mean in means[system].values())]
    ranks = {name: _compute_ranks([means[system][name].mean for system in shown]) for name in columns}

    def mean_rank(number: int) -> float:
        defined = [rank for name in columns if (rank := ranks[name][number]) is not None]
        return sum(defined) / len(defined)

    best_first = sorted(range(len(shown)), key=mean_rank, reverse=True)
    leads = {
        name: next((mean.lead for mean in column_means[i] if mean.lead is not None), None)
        for i, name in enumerate(columns)
    }
    return SystemTable(kind, tuple(shown[i] for i in best_first), tuple(columns), means, n_videos, n_left_out, leads)


def _compute_ranks(means: Sequence[float | None]) -> list[float | None]:
    """Return for every mean the share of the systems' means that are lower; None for no mean."""
    defined = [mean for mean in means if mean is not None]
    return [None if mean is None else sum(other < mean for other in defined) / len(defined) for mean in means]


def _sum_batches(rows: Iterable[SampleBatch], n_systems: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield sums and counts (videos, columns, systems) of the values, some videos at a time."""
    for batch in rows:
        _, video = np.unique(batch.video_ids, return_inverse=True)
        chosen = batch.system_places >= 0
        cells, shape = (video * n_systems + batch.system_places)[chosen], (int(video[-1]) + 1, n_systems)
        values = batch.values[chosen]
        yield _add(cells, np.nan_to_num(values), shape), _add(cells, np.isfinite(values), shape)


def _add(cells: npt.NDArray[np.int64], values: npt.NDArray[Any], shape: tuple[int, int]) -> FloatArray:
    """Return the sums (videos, columns, systems) of values (n, columns) whose places in `shape` are `cells` (n,)."""
    sums = [np.bincount(cells, column, shape[0] * shape[1]) for column in values.T]
    return np.array(sums, dtype=np.float64).reshape(-1, *shape).swapaxes(0, 1)
