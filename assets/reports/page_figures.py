"""Chooses and plots the figures on a report's page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from assets.reports.answers import LEVEL_LIGHTS
from assets.reports.records import AspectAgreement, MetricSpread, Report
from assets.reports.svg_plots import (
    GREY,
    LIGHT_COLOURS,
    plot_coefficients,
    plot_histogram,
)
from assets.words.labels import format_goodness
from assets.words.text import format_number


def plot_figures(report: Report) -> dict[str, str]:
    """Plot all figures of a report's page and return them as SVG elements by name: `aspect-i` and `histogram-i`. i
    counts the aspects and the distributions, from 0. Figures without any value are left out.
    """
    labels = {metric.name: metric.label for metric in report.metrics}
    figures: dict[str, str] = {}
    for i, aspect in enumerate(report.trust.aspects):
        goodness = format_goodness(aspect.aspect, report.data.turned_aspects)
        figures |= dict(_plot_aspect(aspect, i, labels, goodness))
    for i, spread in enumerate(report.spreads):
        figures |= dict(_plot_spread(spread, i, report, labels[spread.metric]))
    return figures


def _plot_aspect(
    aspect: AspectAgreement, i: int, labels: Mapping[str, str], goodness: str
) -> Iterator[tuple[str, str]]:
    """Yield the figures of one aspect by name: coefficients of all metrics, and each metric's values against
    ratings. goodness: what statistics take for the ratings.
    """
    bars = [
        (labels[name], coefficient, LIGHT_COLOURS[LEVEL_LIGHTS[aspect.verdicts[name].level]])
        for name, coefficient in aspect.coefficients.items()
    ]
    bars = [
        bar
        for bar in (*bars, *((coefficient.name, coefficient, GREY) for coefficient in aspect.baselines))
        if bar[1].value is not None
    ]
    if bars:
        description = "; ".join(f"{name} {format_number(coefficient.value)}" for name, coefficient, _ in bars)
        baseline = aspect.strongest.value if aspect.strongest else None
        yield (
            f"aspect-{i}",
            plot_coefficients(bars, baseline, aspect.ceiling, f"aspect{i}", f"Kendall’s tau-b: {description}"),
        )


def _plot_spread(spread: MetricSpread, i: int, report: Report, label: str) -> Iterator[tuple[str, str]]:
    """Yield the figures of one metric's distribution by name: histogram, quantiles by system, and by shard if
    several.
    """
    rows = (cut for cut in report.cuts if (cut["metric"], cut["kind"]) == (spread.metric, spread.kind))
    cuts = {f"{100 * cut['share']:g} %": cut["value"] for cut in rows}
    yield (
        f"histogram-{i}",
        plot_histogram(
            spread.low, spread.high, spread.counts, label, f"histogram{i}", f"Distribution of {label}", cuts
        ),
    )
