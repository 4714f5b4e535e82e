"""Facts and figures to one HTML page. Whatever comes from a dataset is text, never markup."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from assets.reports.answers import LIGHTS
from assets.reports.best_system import list_leaders, list_people_leaders
from assets.reports.facts import MetricFacts, PairFacts, ReferenceCount, Report, SystemTable
from assets.reports.systems import MOST_SYSTEMS
from assets.reports.text import cell, compact, number, percent, plural, spelled, visible
from metrics_core.agreement.row import ONE_RATER
from metrics_core.intervals import ClusterMean

TEMPLATES = Path(__file__).parent / "templates"
_STATISTICS = {
    "pearson": "Pearson’s r",
    "spearman": "Spearman’s ρ",
    "kendall_b": "Kendall’s τ-b",
    "kendall_c": "Kendall’s τ-c",
}


def render(report: Report, figures: Mapping[str, str]) -> str:
    """Write the page. figures: SVG elements by the names of `draw`."""
    labels = {metric.name: metric.label for metric in report.metrics}
    pairs = {(each.metric, each.other): each for each in report.pairs}

    def label(metric: str) -> str:
        return "one more rater" if metric == ONE_RATER else labels.get(metric, metric)

    def pair_of(metric: str, other: str) -> PairFacts | None:
        return pairs.get((metric, other)) or pairs.get((other, metric))

    compared = {name for aspect in report.trust.aspects for name, found in aspect.coefficients.items() if found.n}
    return (
        environment()
        .get_template("index.html")
        .render(
            report=report,
            figures=figures,
            style=(TEMPLATES / "style.css").read_text(encoding="utf-8"),
            label=label,
            pair_of=pair_of,
            pair_names=list(dict.fromkeys(name for pair in pairs for name in pair)),
            trust_names=compared,
            sections=_sections(report),
            n_videos=lambda aspect: max(aspect.n_videos.values(), default=0),
            missing_scores=dict(_missing_scores(report.metrics, report)),
            leaders=lambda table: list_leaders(table, labels),
            people_leaders=list_people_leaders,
            references=lambda metric: _references(report, metric),
            system_tables=list(_system_tables(report)),
            light=LIGHTS.__getitem__,
            shade=shade,
            tracks=tracks,
            same_n=same_n,
            statistic=lambda name: _STATISTICS.get(name, name.replace("_", " ")),
            most_systems=MOST_SYSTEMS,
        )
    )


def _sections(report: Report) -> dict[str, str]:
    """The sections that have something to say, in their order: the name in the contents by that of the template."""
    named = {
        "answers": ("Answers", True),
        "facts": ("Facts", report.described),
        "trust": ("Trust", report.trust.aspects or report.trust.side_by_side),
        "systems": ("Systems", report.systems or report.people),
        "samples": ("Samples", any(group.samples for group in report.groups)),
        "scores": ("Scores", report.spreads),
        "pairs": ("Metric by metric", report.pairs),
        "data": ("Data", True),
        "method": ("Method", True),
    }
    return {section: name for section, (name, has_content) in named.items() if has_content}


def _references(report: Report, metric: str) -> list[str]:
    """How many references the videos have that a metric was compared on: every different answer of the aspects."""
    counts = (each.references[metric] for each in report.trust.aspects if metric in each.references)
    return list(dict.fromkeys(counted_references(count) for count in counts))


def _system_tables(report: Report) -> Iterator[tuple[SystemTable | None, SystemTable | None]]:
    """Yield for each kind of samples the systems' means by metrics, and by ratings; None without any."""
    scored, rated = ({table.kind: table for table in tables} for tables in (report.systems, report.people))
    for kind in dict.fromkeys((*scored, *rated)):
        yield scored.get(kind), rated.get(kind)


def same_n(table: SystemTable) -> int | None:
    """The number of values behind every mean of a table; None where they differ."""
    counts = {n for system in table.systems for each in table.means[system].values() if (n := each.n)}
    return counts.pop() if len(counts) == 1 else None


def tracks(table: SystemTable) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Where to draw each mean and its interval, by column and system: low, mean and high in percent of the column."""
    return {
        column: _tracks({system: table.means[system][column] for system in table.systems}) for column in table.columns
    }


def _tracks(means: Mapping[str, ClusterMean]) -> dict[str, tuple[float, float, float]]:
    ends = {
        system: tuple(each.mean if end is None else end for end in (each.low, each.mean, each.high))
        for system, each in means.items()
        if each.mean is not None
    }
    lowest = min((low for low, *_ in ends.values()), default=0.0)
    width = max((high for *_, high in ends.values()), default=0.0) - lowest or 1.0

    def place(value: float) -> float:
        return round(100 * (value - lowest) / width, 1)

    return {system: (place(low), place(mean), place(high)) for system, (low, mean, high) in ends.items()}


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


def environment(templates: Path = TEMPLATES) -> Environment:
    """What makes pages of templates: whatever comes from a dataset is text in them, and never markup."""
    found = Environment(
        loader=FileSystemLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    found.filters |= {
        "number": number,
        "references": counted_references,
        "percent": percent,
        "plural": plural,
        "cell": cell,
        "compact": compact,
        "spelled": spelled,
        "data_uri": data_uri,
        "drawn": Markup,
        "zip": zip,
    }
    return found


def _shown(value: Any) -> Any:
    """Every text that a template prints goes through this: nothing in it steers the browser."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else visible(value)


def counted_references(count: ReferenceCount) -> str:
    """How many references videos have, as a page has it.

    >>> counted_references(ReferenceCount(1, 1.0, 1)), counted_references(ReferenceCount(0, 2.5, 9))
    ('1 reference', '0 to 9 references, median 2.5')
    """
    if count.least == count.most:
        return plural(count.most, "reference")
    return f"{count.least} to {count.most} references, median {count.median:g}"


def data_uri(jpeg: bytes) -> str:
    """A picture as an address that contains it."""
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"
