"""The report of a dataset: one markdown text that contains its plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.engine import Engine

from assets.reports.labels import metric_label
from assets.reports.plots import by_system, histogram, markdown_image
from assets.reports.tables import escaped, markdown_table, sample_table
from db.manifest import Dataset
from db.report import coverage_by_system, dataset_summary, has_synthetic_ratings, ratings_by_system
from db.scores import ScoredSample, active_scorer, best_and_worst, status_counts, values_by_system

N_EXTREMES = 5


def report_markdown(engine: Engine, dataset: Dataset, metrics: Sequence[str]) -> str:
    """Write the report of a dataset: its contents, its scores by every metric, and the ratings of people."""
    with engine.connect() as connection:
        summary = dataset_summary(connection, dataset.name)
        parts = [f"# {escaped(dataset.name)}", _summary(summary)]
        for metric in metrics:
            scorer_id = active_scorer(connection, metric)
            if scorer_id is not None:
                systems = values_by_system(connection, scorer_id, dataset.dataset_id)
                statuses = status_counts(connection, scorer_id, dataset.dataset_id)
                extremes = best_and_worst(connection, scorer_id, dataset.dataset_id, N_EXTREMES)
                parts.append(_metric(metric_label(connection, metric), systems, statuses, extremes))
        parts.append(
            _people(
                ratings_by_system(connection, dataset.dataset_id),
                coverage_by_system(connection, dataset.dataset_id),
                has_synthetic_ratings(connection, dataset.dataset_id),
            )
        )
    return "\n\n".join(part for part in parts if part) + "\n"


def _summary(summary: dict[str, Any]) -> str:
    return markdown_table(["what", "how many"], [[name, str(value)] for name, value in summary.items()][1:])


def _metric(
    metric: str, systems: dict[str, list[float]], statuses: dict[str, int], extremes: Sequence[ScoredSample]
) -> str:
    parts = [f"## {metric}", markdown_table(["status", "samples"], [[k, str(v)] for k, v in statuses.items()])]
    if systems:
        values = [value for system_values in systems.values() for value in system_values]
        means = sorted(((sum(v) / len(v), s, len(v)) for s, v in systems.items()), reverse=True)
        parts += [
            markdown_table(["system", f"mean {metric}", "samples"], [[s, f"{m:.4f}", str(n)] for m, s, n in means]),
            markdown_image(histogram(values, metric, f"all samples: {metric}"), metric),
            markdown_image(by_system(systems, metric, f"{metric} by system"), f"{metric} by system"),
            "### Best and worst",
            sample_table(extremes, metric),
        ]
    return "\n\n".join(parts)


def _people(ratings: dict[str, dict[str, float]], coverage: dict[str, float], synthetic: bool) -> str:
    if not ratings and not coverage:
        return ""
    aspects = sorted({aspect for means in ratings.values() for aspect in means})
    systems = sorted({*ratings, *coverage}, key=lambda s: -sum(ratings.get(s, {}).values()))
    rows = [
        [
            system,
            *(f"{ratings[system][a]:.2f}" if a in ratings.get(system, {}) else "–" for a in aspects),
            f"{coverage[system]:.1%}" if system in coverage else "–",
        ]
        for system in systems
    ]
    title = "## Ratings" + (" (synthetic: made by the generator, not by people)" if synthetic else "")
    return f"{title}\n\n" + markdown_table(["system", *aspects, "keypoints covered"], rows)
