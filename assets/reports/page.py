"""Facts and figures to one HTML page. Whatever comes from a dataset is text, never markup."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from assets.reports.facts import MetricFacts, PairFacts, Report, SystemTable
from assets.reports.text import cell, number, percent, plural, visible
from metrics_core.agreement.table import ONE_RATER
from metrics_core.agreement.verdicts import MOST_CHANCE, Level, too_few

TEMPLATES = Path(__file__).parent / "templates"
MOST_SYSTEMS = 24
_MARKS: Mapping[Level, str] = {
    "undefined": "open",
    "open": "open",
    "nothing": "bad",
    "against": "bad",
    "below baseline": "bad",
    "baseline": "middle",
    "above baseline": "good",
    "ceiling": "good",
}
_STATISTICS = {
    "pearson": "Pearson’s r",
    "spearman": "Spearman’s ρ",
    "kendall_b": "Kendall’s τ-b",
    "kendall_c": "Kendall’s τ-c",
}


def render(report: Report, figures: Mapping[str, str]) -> str:
    """Write the page. figures: SVG elements by the names of `assets.reports.drawing.draw`."""
    labels = {metric.name: metric.label for metric in report.metrics}
    pairs = {(each.metric, each.other): each for each in report.pairs}

    def label(metric: str) -> str:
        return "one more rater" if metric == ONE_RATER else labels.get(metric, metric)

    def pair_of(metric: str, other: str) -> PairFacts | None:
        return pairs.get((metric, other)) or pairs.get((other, metric))

    named = dict.fromkeys(name for aspect in report.trust.aspects for name in aspect.coefficients)
    return (
        _environment()
        .get_template("index.html")
        .render(
            report=report,
            figures=figures,
            style=(TEMPLATES / "style.css").read_text(encoding="utf-8"),
            label=label,
            pair_of=pair_of,
            pair_names=list(dict.fromkeys(name for pair in pairs for name in pair)),
            trust_names=list(named),
            missing_scores=dict(_missing_scores(report.metrics, report)),
            best_of=lambda table: list(best_of(table, labels)),
            mark=_MARKS.__getitem__,
            shade=shade,
            same_n=same_n,
            statistic=lambda name: _STATISTICS.get(name, name.replace("_", " ")),
            most_systems=MOST_SYSTEMS,
        )
    )


def best_of(table: SystemTable, labels: Mapping[str, str]) -> Iterator[tuple[str, str, bool]]:
    """For each metric which system is best, and whether that is more than chance."""
    for metric in table.columns:
        means = {system: table.means[system][metric] for system in table.systems}
        ranked = sorted((s for s in means if means[s].n), key=lambda s: -(means[s].mean or 0.0))
        without = [system for system in means if not means[system].n]
        note = f" Without a value: {', '.join(without[:6])}{' …' if len(without) > 6 else ''}." if without else ""
        if len(ranked) < 2:
            yield metric, f"{labels[metric]}: {ranked[0]} alone has values; there is nothing to compare.{note}", False
            continue
        first, chance = ranked[0], table.leads[metric]
        few = too_few(min(means[system].n_clusters for system in ranked[:2]))
        leads = f"{labels[metric]}: {first} has the highest mean"
        if few:
            yield metric, f"{leads}; whether it is best is open: {few}.{note}", False
        elif chance is None or chance > MOST_CHANCE:
            yield metric, f"{leads}, but may not be better than {ranked[1]}.{note}", False
        else:
            yield metric, f"{labels[metric]}: {first} is best.{note}", True


def same_n(table: SystemTable) -> int | None:
    """The number of values behind every mean of a table; None where they differ."""
    counts = {n for system in table.systems for each in table.means[system].values() if (n := each.n)}
    return counts.pop() if len(counts) == 1 else None


def shade(rho: float | None) -> str:
    """The colour behind a correlation: blue above 0, orange below, the darker the farther."""
    if rho is None:
        return "#ffffff"
    colour = (0, 114, 178) if rho > 0 else (213, 94, 0)
    strength = min(1.0, abs(rho)) * 0.55
    return "#" + "".join(f"{round(255 - (255 - part) * strength):02x}" for part in colour)


def _missing_scores(metrics: Sequence[MetricFacts], report: Report) -> Iterator[tuple[str, str]]:
    """For each metric how many of the judged samples have no value, and for what reason most of them."""
    labels = {metric.name: metric for metric in metrics}
    for metric, counts in report.trust.unscored.items():
        told = ", ".join(f"{n:,} {why}" for why, n in counts.items() if n)
        if told and metric in labels:
            commonest = [each for each in labels[metric].statuses if each.status not in ("ok", "stale")]
            why = f" (most of all: {commonest[0].status})" if commonest else ""
            yield labels[metric].label, f"of the {report.trust.n_judged:,} judged samples, {told}{why}."


def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    found.filters |= {
        "number": number,
        "percent": percent,
        "plural": plural,
        "cell": cell,
        "data_uri": data_uri,
        "drawn": Markup,
        "zip": zip,
    }
    return found


def _shown(value: Any) -> Any:
    """Every text that a template prints goes through this: nothing in it steers the browser."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else visible(value)


def data_uri(jpeg: bytes) -> str:
    """A picture as an address that contains it."""
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"
