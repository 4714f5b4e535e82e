"""Compares systems: the mean of every metric and of every rating by system, with intervals over videos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from assets.reports.data import DataSummary, MetricSummary
from db.reports.judgements import LABELS_ASPECT, Judgements
from db.scores.score_arrays import ScoreArrays
from metrics_core.arrays import FloatArray, IntArray, find_values
from metrics_core.intervals import ClusterMean, compute_cluster_means

MOST_SYSTEMS = 24
"""Only the systems with the most samples are on the page, where there are more than these."""
# Videos whose sums are in memory at a time.
VIDEOS = 4096


@dataclass(frozen=True, slots=True)
class SystemTable:
    """Means of every system, with intervals over videos, for one kind of samples; the columns are metrics, or rated
    aspects. systems: the highest mean rank first. means: by system, then by column. n_left_out: systems beyond those
    shown. leads: by column the p-value of the best system's lead, the highest over all others; None where undefined.
    """

    kind: str
    systems: tuple[str, ...]
    columns: tuple[str, ...]
    means: Mapping[str, Mapping[str, ClusterMean]]
    n_videos: int
    n_left_out: int
    leads: Mapping[str, float | None]


def compute_system_tables(
    samples: Mapping[str, ScoreArrays],
    judgements: Mapping[str, Judgements],
    data: DataSummary,
    metrics: Sequence[MetricSummary],
) -> tuple[tuple[SystemTable, ...], tuple[SystemTable, ...]]:
    """Compute the systems' means by metrics, and by ratings and labels, as two tuples of tables, with one table for
    each kind of samples that has values. Of more than 24 systems, those with the most samples are included. P-values of
    leads are not corrected yet. samples, judgements: by kind.
    """
    by_metric, by_aspect = [], []
    aspects = [*sorted(data.ratings), *([LABELS_ASPECT] if data.labelled else [])]
    for kind, arrays in samples.items():
        values = {metric.name: arrays.values[metric.name] for metric in metrics if metric.has_values(kind)}
        if values:
            by_metric.append(_compute_table(kind, arrays, values))
        given = judgements.get(kind)
        if given is not None and given.ratings:
            means = {aspect: _average_by_sample(arrays, given, aspect) for aspect in aspects}
            is_judged = np.isfinite(list(means.values())).any(axis=0)
            judged = {aspect: column[is_judged] for aspect, column in means.items()}
            of_judged = arrays._replace(
                video_ids=arrays.video_ids[is_judged], system_places=arrays.system_places[is_judged]
            )
            by_aspect.append(_compute_table(kind, of_judged, judged))
    return tuple(by_metric), tuple(by_aspect)


def _average_by_sample(arrays: ScoreArrays, given: Judgements, aspect: str) -> FloatArray:
    """Return the mean judgement (n,) of every sample by one aspect, NaN for a sample without one."""
    if aspect not in given.ratings:
        return np.full(arrays.sample_ids.size, np.nan)
    is_given = np.isfinite(given.ratings[aspect])
    sums, counts = np.where(is_given, given.ratings[aspect], 0.0).sum(axis=1), is_given.sum(axis=1)
    # Rounded means would order systems whose means are equal.
    means = np.where(counts, sums / np.maximum(counts, 1), np.nan)
    return find_values(arrays.sample_ids, given.sample_ids, means, np.nan)


def _compute_table(kind: str, arrays: ScoreArrays, columns: Mapping[str, FloatArray]) -> SystemTable:
    """Compute the means of every system by every column; systems without any value are left out, the best rank comes
    first. Only video ids and systems of the samples are read.
    """
    systems, order = arrays.systems[:MOST_SYSTEMS], np.argsort(arrays.video_ids, kind="stable")
    _, starts = np.unique(arrays.video_ids[order], return_index=True)
    blocks = np.split(order, starts[VIDEOS::VIDEOS])
    sums = (_sum_by_video(arrays, rows, list(columns.values()), len(systems)) for rows in blocks)
    column_means = compute_cluster_means(sums, (starts.size, len(columns), len(systems)))
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
    n_left_out = len(arrays.systems) - len(systems)
    return SystemTable(kind, tuple(shown[i] for i in best_first), tuple(columns), means, starts.size, n_left_out, leads)


def _compute_ranks(means: Sequence[float | None]) -> list[float | None]:
    """Return for every mean the share of the systems' means that are lower; None for no mean."""
    defined = [mean for mean in means if mean is not None]
    return [None if mean is None else sum(other < mean for other in defined) / len(defined) for mean in means]


def _sum_by_video(
    arrays: ScoreArrays, rows: IntArray, columns: Sequence[FloatArray], n_systems: int
) -> tuple[FloatArray, FloatArray]:
    """Return sums and counts (videos, columns, systems) of the values that some rows have in columns (n,)."""
    videos, video = np.unique(arrays.video_ids[rows], return_inverse=True)
    is_shown = arrays.system_places[rows] < n_systems
    cells = (video * n_systems + arrays.system_places[rows])[is_shown]
    values, shape = [column[rows[is_shown]] for column in columns], (videos.size, n_systems)
    return _add(cells, np.nan_to_num(values), shape), _add(cells, np.isfinite(values), shape)


def _add(cells: npt.NDArray[np.int64], values: npt.NDArray[Any], shape: tuple[int, int]) -> FloatArray:
    """Return the sums (videos, columns, systems) of values (columns, n) whose places in `shape` are `cells` (n,)."""
    sums = [np.bincount(cells, column, shape[0] * shape[1]) for column in values]
    return np.array(sums, dtype=np.float64).reshape(-1, *shape).swapaxes(0, 1)
