"""Which systems are best: the mean of every metric and of every rating, with intervals over videos."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from sqlalchemy.engine import Connection

from assets.agreement.judged import LABELS
from assets.reports.facts import DataFacts, MetricFacts, SystemTable
from db.reports.videos import Samples, count_videos, judgements_by_video, values_by_video
from metrics_core.arrays import FloatArray
from metrics_core.intervals import cluster_means

MOST_SYSTEMS = 24
"""Of very many systems those with the most samples are on the page."""


def gather_systems(
    connection: Connection, data: DataFacts, metrics: Sequence[MetricFacts]
) -> tuple[tuple[SystemTable, ...], tuple[SystemTable, ...]]:
    """Return the tables of metrics and of ratings, one for each kind of samples that has some."""
    by_metric, by_aspect = [], []
    for kind in ("caption", "qa"):
        # Of very many systems those with the most samples.
        systems = [each.system for each in data.systems if each.kind == kind]
        shown = systems[:MOST_SYSTEMS]
        n_left_out = len(systems) - len(shown)
        names = [metric.name for metric in metrics if metric.scores_kind(kind)]
        if names:
            n_videos = count_videos(connection, kind, judged=False)
            values = values_by_video(connection, kind, names, shown)
            by_metric.append(_table(kind, shown, names, n_videos, n_left_out, values))
        aspects = [*sorted(data.ratings), *([LABELS] if data.labelled else [])]
        n_judged = count_videos(connection, kind, judged=True) if aspects else 0
        if n_judged:
            values = judgements_by_video(connection, kind, aspects, LABELS, shown)
            by_aspect.append(_table(kind, shown, aspects, n_judged, n_left_out, values))
    return tuple(by_metric), tuple(by_aspect)


def _table(
    kind: str, systems: Sequence[str], columns: Sequence[str], n_videos: int, n_left_out: int, rows: Iterable[Samples]
) -> SystemTable:
    """Average the values of systems."""
    found = cluster_means(_batches(rows, len(systems)), (n_videos, len(columns), len(systems)))
    means = {
        system: {name: found[i][number] for i, name in enumerate(columns)} for number, system in enumerate(systems)
    }
    shown = [system for system in systems if any(mean.n for mean in means[system].values())]
    ranks = {name: _ranks([means[system][name].mean for system in shown]) for name in columns}

    def mean_rank(number: int) -> float:
        defined = [rank for name in columns if (rank := ranks[name][number]) is not None]
        return sum(defined) / len(defined)

    best_first = sorted(range(len(shown)), key=mean_rank, reverse=True)
    leads = {
        name: next((mean.lead for mean in found[i] if mean.lead is not None), None) for i, name in enumerate(columns)
    }
    return SystemTable(kind, tuple(shown[i] for i in best_first), tuple(columns), means, n_videos, n_left_out, leads)


def _ranks(means: Sequence[float | None]) -> list[float | None]:
    """The share of the systems with a mean that lie below each one; None without a mean."""
    defined = [mean for mean in means if mean is not None]
    return [None if mean is None else sum(other < mean for other in defined) / len(defined) for mean in means]


def _batches(rows: Iterable[Samples], n_systems: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Sums and counts (videos, columns, systems) of the values of some videos at a time."""
    for batch in rows:
        _, video = np.unique(batch.videos, return_inverse=True)
        shape = (int(video[-1]) + 1, n_systems, batch.values.shape[1])
        sums, counts = np.zeros(shape), np.zeros(shape)
        chosen = batch.systems >= 0
        cells, values = (video[chosen], batch.systems[chosen]), batch.values[chosen]
        np.add.at(sums, cells, np.nan_to_num(values))
        np.add.at(counts, cells, np.isfinite(values))
        yield sums.swapaxes(1, 2), counts.swapaxes(1, 2)
