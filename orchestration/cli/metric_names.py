"""The names of metrics that a command takes, checked against those that there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from orchestration.cli.refusals import UsageError

if TYPE_CHECKING:
    from db.manifest.datasets import Dataset


def known_metrics(chosen: list[str] | None) -> list[str]:
    """The chosen metrics and simple scores, or all that can be used where none is chosen. Opens the database then.

    UsageError for an unknown name.
    """
    from assets.scores.registry import METRICS
    from orchestration.platform import installed

    return _among(METRICS, chosen) if chosen else installed().usable_metrics


def shown_metrics(dataset: Dataset, chosen: list[str] | None = None) -> list[str]:
    """The chosen metrics of a dataset, those imported into it among them, or all; UsageError for one that it lacks."""
    from db.scores.present import known_metrics as metrics_of
    from orchestration.platform import installed

    with installed().engine.connect() as connection:
        return _among(metrics_of(connection, dataset), chosen, f" in dataset {dataset.name!r}")


def _among(metrics: Sequence[str], chosen: list[str] | None, where: str = "") -> list[str]:
    from db.scores.present import SIMPLE_SCORES

    if unknown := [name for name in chosen or [] if name not in (*metrics, *SIMPLE_SCORES)]:
        simple = " or ".join(SIMPLE_SCORES)
        raise UsageError(
            f"there is no metric {unknown[0]!r}{where}: choose one of {', '.join(metrics)}, or a simple score, {simple}"
        )
    return list(dict.fromkeys(chosen or metrics))
