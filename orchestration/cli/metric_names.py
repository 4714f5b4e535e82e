"""The names of metrics that a command takes, checked against the known ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestration.cli.refusals import UsageError

if TYPE_CHECKING:
    from db.manifest.datasets import Dataset
    from orchestration.installation import Installation


def choose_metrics(installation: Installation, chosen: list[str] | None) -> list[str]:
    """Return the chosen metrics and simple scores, without repeats. With None or an empty list return all usable
    metrics, which opens the database. Raises UsageError for an unknown name.
    """
    from assets.metrics.registry import METRICS

    return _check_metric_names(METRICS, chosen) if chosen else installation.usable_metrics


def choose_dataset_metrics(installation: Installation, dataset: Dataset, chosen: list[str] | None = None) -> list[str]:
    """Return the chosen metrics and simple scores without repeats. With None or an empty list return all metrics of the
    dataset, imported ones included. Raises UsageError for a name that is neither a metric of the dataset nor a simple
    score.
    """
    from db.scores.sample_scores import list_dataset_metrics

    with installation.engine.connect() as connection:
        return _check_metric_names(list_dataset_metrics(connection, dataset), chosen, f" in dataset {dataset.name!r}")


def _check_metric_names(metrics: Sequence[str], chosen: list[str] | None, place: str = "") -> list[str]:
    from db.scores.sample_scores import SIMPLE_SCORES
    from db.spelling import suggest_name

    if unknown := [name for name in chosen or [] if name not in (*metrics, *SIMPLE_SCORES)]:
        all_names = f": choose one of {', '.join(metrics)}, or a simple score: {' or '.join(SIMPLE_SCORES)}"
        hint = suggest_name(unknown[0], (*metrics, *SIMPLE_SCORES), all_names)
        raise UsageError(f"there is no metric {unknown[0]!r}{place}{hint}")
    return list(dict.fromkeys(chosen or metrics))
