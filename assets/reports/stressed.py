"""Stressed metrics in a report: which text without truth raises them, and which harm they overlook."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timezone

from sqlalchemy.engine import Connection

from assets.reports.data import MetricSummary
from assets.stress.sentences import explain_effect, explain_hole, format_stressed, list_holes, summarise_stress
from assets.words.text import format_count
from db.manifest.datasets import Dataset
from db.scores.stress import Stress, load_stresses


@dataclass(frozen=True, slots=True)
class MetricStress:
    """The stress of a metric's active scorer (`stress`, as it is stored): a sentence on the whole (`summary`), and a
    sentence on every hole, gains from text without truth first. warning: the largest hole, with the remedy; None
    without a hole.
    """

    metric: str
    summary: str
    warning: str | None
    holes: tuple[str, ...]
    stress: Stress


def load_metric_stresses(
    connection: Connection, dataset: Dataset, metrics: Sequence[MetricSummary]
) -> tuple[MetricStress, ...]:
    """Load what stresses of the metrics' active scorers found on a dataset, in the order of the metrics. Metrics whose
    active scorer was not stressed there are left out.
    """
    stresses = load_stresses(connection, dataset.dataset_id)
    return tuple(
        MetricStress(
            metric.name,
            f"{summarise_stress(stress, metric.label)}, {_format_day(stress)}.",
            _explain_largest_hole(stress, metric.label, dataset.name),
            tuple(f"{explain_effect(effect, metric.label)}." for effect in list_holes(stress)),
            stress,
        )
        for metric in metrics
        if (stress := stresses.get(metric.name))
    )


def list_unstressed(metrics: Sequence[MetricSummary], stressed: Sequence[MetricStress]) -> list[str]:
    """List the metrics that score captions and were not stressed, though `reelsieve stress` can do so: imported scores
    are left out, since nothing here can score a rewrite in the same way.
    """
    known = {stress.metric for stress in stressed}
    return [
        metric.name
        for metric in metrics
        if metric.name not in known and metric.has_values("caption") and not metric.is_imported
    ]


def _explain_largest_hole(stress: Stress, label: str, dataset: str) -> str | None:
    """The largest hole of a metric in two sentences, with the remedy; None without a hole."""
    if not (holes := list_holes(stress)):
        return None
    others = f", and showed {format_count(len(holes) - 1, 'more hole')}" if holes[1:] else ""
    command = f"reelsieve stress {stress.metric} --dataset {shlex.quote(dataset)} --show 3"
    return (
        f"{explain_hole(holes[0], label)}; {format_stressed(stress)} were stressed on {_format_day(stress)}{others}. "
        f"Look at such captions before you select by it: {command}."
    )


def _format_day(stress: Stress) -> str:
    return f"{stress.stressed_at.astimezone(timezone.utc):%Y-%m-%d}"
