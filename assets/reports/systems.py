"""Which systems are best: the mean of every metric and of every rating, with intervals over videos."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from assets.agreement.rows import LABELS
from assets.reports.facts import DataFacts, MetricFacts, SystemTable
from db.report_values import count_videos, judgement_sums_by_video, sums_by_video
from metrics_core.agreement.cluster_means import cluster_means
from metrics_core.arrays import FloatArray

MOST_SYSTEMS = 24
VIDEOS_AT_ONCE = 1000
Row = tuple[int, str, list[Any]]


def gather_systems(
    connection: Connection, data: DataFacts, metrics: Sequence[MetricFacts]
) -> tuple[tuple[SystemTable, ...], tuple[SystemTable, ...]]:
    """Return the tables of metrics and of ratings, one for each kind of samples that has some."""
    by_metric, by_aspect = [], []
    for kind in ("caption", "qa"):
        names = [metric.name for metric in metrics if metric.scores_kind(kind)]
        if names:
            n_videos = count_videos(connection, kind, judged=False)
            by_metric.append(_table(data, kind, names, n_videos, sums_by_video(connection, kind, names)))
        aspects = [*sorted(data.ratings), *([LABELS] if data.labelled else [])]
        n_judged = count_videos(connection, kind, judged=True) if aspects else 0
        if n_judged:
            sums = judgement_sums_by_video(connection, kind, aspects, LABELS)
            by_aspect.append(_table(data, kind, aspects, n_judged, sums))
    return tuple(by_metric), tuple(by_aspect)


def _table(data: DataFacts, kind: str, columns: Sequence[str], n_videos: int, rows: Iterable[Row]) -> SystemTable:
    """Average the sums of videos; of very many systems those with the most samples."""
    systems = [each.system for each in data.systems if each.kind == kind]
    place = {system: number for number, system in enumerate(systems[:MOST_SYSTEMS])}
    shape = (n_videos, len(columns), len(place))
    found = cluster_means(_batches(rows, place, len(columns)), shape)
    means = {system: {name: found[i][number] for i, name in enumerate(columns)} for system, number in place.items()}
    shown = [system for system in place if any(mean.n for mean in means[system].values())]
    ranks = {name: _ranks([means[system][name].mean for system in shown]) for name in columns}

    def mean_rank(number: int) -> float:
        defined = [rank for name in columns if (rank := ranks[name][number]) is not None]
        return sum(defined) / len(defined)

    best_first = sorted(range(len(shown)), key=mean_rank, reverse=True)
    return SystemTable(
        kind, tuple(shown[i] for i in best_first), tuple(columns), means, n_videos, len(systems) - len(place)
    )


def _ranks(means: Sequence[float | None]) -> list[float | None]:
    """The share of the systems with a mean that lie below each one; None without a mean."""
    defined = [mean for mean in means if mean is not None]
    return [None if mean is None else sum(other < mean for other in defined) / len(defined) for mean in means]


def _batches(rows: Iterable[Row], place: Mapping[str, int], n_columns: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Sums and counts (videos, columns, systems) of some videos at a time; the rows of a video follow each other."""
    videos = (list(each) for _, each in groupby(rows, key=lambda row: row[0]))
    while some := list(islice(videos, VIDEOS_AT_ONCE)):
        sums, counts = np.zeros((2, len(some), n_columns, len(place)))
        for number, of_video in enumerate(some):
            for _, system, numbers in of_video:
                if system in place:
                    sums[number, :, place[system]] = numbers[::2]
                    counts[number, :, place[system]] = numbers[1::2]
        yield sums, counts
