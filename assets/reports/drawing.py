"""Which figures stand on a report's page: facts in, SVG by name out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from assets.reports.facts import AspectFacts, MetricSpread, Report, SystemTable
from assets.reports.figures import (
    COLOURS,
    GREEN,
    GREY,
    Bar,
    Line,
    boxes,
    forest,
    histogram_plot,
    scatter_plot,
    shard_plot,
)
from assets.reports.text import number

MOST_ROWS = 24


def draw(report: Report) -> dict[str, str]:
    """Draw every figure, by names such as `systems-i-column`, `aspect-i`, `scatter-i-metric` and `histogram-i`.

    i counts the tables, aspects and spreads from 0.
    """
    colours = {metric.name: COLOURS[i % len(COLOURS)] for i, metric in enumerate(report.metrics)}
    labels = {metric.name: metric.label for metric in report.metrics}
    figures: dict[str, str] = {}
    for prefix, tables in (("systems", report.systems), ("people", report.people)):
        for i, table in enumerate(tables):
            figures |= dict(_systems(table, f"{prefix}-{i}", colours, labels))
    for i, aspect in enumerate(report.trust.aspects):
        figures |= dict(_aspect(aspect, i, colours, labels))
    for i, spread in enumerate(report.spreads):
        figures |= dict(_spread(spread, i, report, colours[spread.metric], labels[spread.metric]))
    return figures


def _systems(
    table: SystemTable, prefix: str, colours: Mapping[str, str], labels: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    for column in table.columns:
        label, colour = labels.get(column, column), colours.get(column, GREY)
        means = {system: table.means[system][column] for system in table.systems}
        bars = [Bar(system, mean.mean, mean.low, mean.high, colour) for system, mean in means.items() if mean.n]
        bars.sort(key=lambda bar: -(bar.value or 0.0))
        if len(bars) > 1:
            name = f"{prefix}-{column}"
            yield name, forest(bars, f"mean {label}, 95 % interval", _id(name), f"Mean {label} of each system")


def _aspect(
    aspect: AspectFacts, i: int, colours: Mapping[str, str], labels: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    bars = [Bar(labels[m], c.value, c.low, c.high, colours[m]) for m, c in aspect.coefficients.items()]
    bars += [Bar(f"{c.name} (baseline)", c.value, c.low, c.high, GREY) for c in aspect.baselines]
    best, ceiling = aspect.strongest, aspect.ceiling
    lines = {}
    if best is not None and best.value is not None:
        lines["strongest baseline"] = Line(best.value, GREY, ":")
    if ceiling is not None and ceiling.value is not None:
        lines["one more rater"] = Line(ceiling.value, GREEN, "--", ceiling.low, ceiling.high)
    told = "; ".join(f"{c.name} {number(c.value)}" for c in (*aspect.coefficients.values(), *aspect.baselines))
    yield (
        f"aspect-{i}",
        forest(bars, "Kendall’s τ-b with people, 95 % interval", f"aspect{i}", f"Kendall’s tau-b: {told}", lines=lines),
    )
    for points in aspect.scatters:
        if points.values:
            label, name = labels[points.metric], f"scatter-{i}-{points.metric}"
            told = f"{label} against the ratings of {aspect.aspect}, {points.n} samples"
            drawn = scatter_plot(points, label, f"rated {aspect.aspect}", colours[points.metric], _id(name), told)
            yield name, drawn


def _spread(spread: MetricSpread, i: int, report: Report, colour: str, label: str) -> Iterator[tuple[str, str]]:
    own = (cut for cut in report.cuts if (cut.metric, cut.kind) == (spread.metric, spread.kind))
    cuts = {f"{100 * cut.share:g} %": cut.value for cut in own}
    yield (
        f"histogram-{i}",
        histogram_plot(
            spread.low, spread.high, spread.counts, label, colour, f"histogram{i}", f"Distribution of {label}", cuts
        ),
    )
    by_system = sorted(spread.by_system, key=lambda each: -each.quantiles[2])[:MOST_ROWS]
    yield f"boxes-{i}", boxes(by_system, label, colour, f"boxes{i}", f"Quantiles of {label} by system")
    if len(spread.by_shard) > 1:
        yield f"shards-{i}", shard_plot(spread.by_shard, label, colour, f"shards{i}", f"Quantiles of {label} by shard")


def _id(name: str) -> str:
    """A name as an id, whatever characters a column has."""
    return re.sub(r"[^A-Za-z0-9]", lambda match: f"_{ord(match[0]):x}_", name)
