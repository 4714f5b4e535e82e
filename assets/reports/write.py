"""The files of a report: its figures drawn, its page rendered, and both files written whole or not at all."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from assets.reports.answers import LIGHTS
from assets.reports.best_system import list_leaders, list_people_leaders
from assets.reports.facts import (
    Answers,
    AspectFacts,
    MetricFacts,
    MetricSpread,
    PairFacts,
    ReferenceCount,
    Report,
    SampleFacts,
    SystemTable,
)
from assets.reports.figures import (
    COLOURS,
    GREY,
    boxes,
    forest,
    histogram_plot,
    scatter_plot,
    shard_plot,
)
from assets.reports.text import cell, compact, number, percent, plural, spelled, visible
from assets.selection.partial_file import partial_file, remove_abandoned
from metrics_core.agreement.table import ONE_RATER
from metrics_core.intervals import ClusterMean

# Facts and figures to one HTML page. Whatever comes from a dataset is text, never markup.

TEMPLATES = Path(__file__).parent / "templates"
# Of very many systems those with the most samples are on the page.
MOST_SYSTEMS = 24
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


# Which figures stand on a report's page: facts in, SVG by name out.

MOST_ROWS = 24


def draw(report: Report) -> dict[str, str]:
    """Draw every figure, by the names `aspect-i`, `scatter-i-metric`, `histogram-i`, `boxes-i` and `shards-i`.

    i counts the aspects or the spreads from 0.
    """
    labels = {metric.name: metric.label for metric in report.metrics}
    figures: dict[str, str] = {}
    for i, aspect in enumerate(report.trust.aspects):
        figures |= dict(_aspect(aspect, i, labels))
    for i, spread in enumerate(report.spreads):
        figures |= dict(_spread(spread, i, report, labels[spread.metric]))
    return figures


def _aspect(aspect: AspectFacts, i: int, labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    bars = [
        (labels[name], found, COLOURS[LIGHTS[aspect.verdicts[name].level]])
        for name, found in aspect.coefficients.items()
    ]
    bars = [
        bar for bar in (*bars, *((found.name, found, GREY) for found in aspect.baselines)) if bar[1].value is not None
    ]
    if bars:
        told = "; ".join(f"{name} {number(found.value)}" for name, found, _ in bars)
        baseline = aspect.strongest.value if aspect.strongest else None
        yield f"aspect-{i}", forest(bars, baseline, aspect.ceiling, f"aspect{i}", f"Kendall’s tau-b: {told}")
    for points in aspect.scatters:
        if points.values:
            label, name = labels[points.metric], f"scatter-{i}-{points.metric}"
            told = f"{label} against the ratings of {aspect.aspect}, {points.n} samples"
            drawn = scatter_plot(points, label, f"rated {aspect.aspect}", _id(name), told)
            yield name, drawn


def _spread(spread: MetricSpread, i: int, report: Report, label: str) -> Iterator[tuple[str, str]]:
    own = (cut for cut in report.cuts if (cut.metric, cut.kind) == (spread.metric, spread.kind))
    cuts = {f"{100 * cut.share:g} %": cut.value for cut in own}
    yield (
        f"histogram-{i}",
        histogram_plot(
            spread.low, spread.high, spread.counts, label, f"histogram{i}", f"Distribution of {label}", cuts
        ),
    )
    by_system = sorted(spread.by_system, key=lambda each: -each.quantiles[2])[:MOST_ROWS]
    yield f"boxes-{i}", boxes(by_system, label, f"boxes{i}", f"Quantiles of {label} by system")
    if len(spread.by_shard) > 1:
        yield f"shards-{i}", shard_plot(spread.by_shard, label, f"shards{i}", f"Quantiles of {label} by shard")


def _id(name: str) -> str:
    """A name as an id, whatever characters a column has."""
    return re.sub(r"[^A-Za-z0-9]", lambda match: f"_{ord(match[0]):x}_", name)


PAGE, NUMBERS = "index.html", "report.json"
PROBE = ".reelsieve-probe"
AGREEMENT_FIELDS = (
    "metric",
    "aspect",
    "grouping",
    "statistic",
    "value",
    "low",
    "high",
    "n",
    "n_undefined",
    "baseline",
)


class ReportError(ValueError):
    """A report that cannot be written; the message says why and what to do."""

    plain = True


@dataclass(frozen=True, slots=True)
class ReportFiles:
    """Where a report lies, what a reader must know first, and what it answers."""

    page: Path
    numbers: Path
    notices: tuple[str, ...]
    answers: Answers


def writable_folder(folder: Path) -> Path:
    """Make a folder for a report, and return its absolute path.

    Raises ReportError where it cannot be made or written to: better before the work than after it.
    """
    try:
        target = folder.expanduser().resolve()
        target.mkdir(parents=True, exist_ok=True)
        remove_abandoned(target)
        with partial_file(target / PROBE):
            pass
        (target / PROBE).unlink()
    except (OSError, RuntimeError) as error:  # RuntimeError: the home folder of nobody
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ReportError(f"{folder}: no report can be written there ({reason}): name a folder with --to") from error
    return target


def write_report(report: Report, folder: Path) -> ReportFiles:
    """Write page and numbers into a folder. Other files there stay. Raises ReportError where the disk refuses."""
    contents = {NUMBERS: dumped(report), PAGE: render(report, draw(report))}
    try:
        for name, content in contents.items():
            with partial_file(folder / name) as file:
                file.write(content.encode())
    except OSError as error:
        raise ReportError(f"{folder}: the report cannot be written ({error.strerror}): make room there") from error
    return ReportFiles(folder / PAGE, folder / NUMBERS, report.notices, report.answers)


def dumped(report: Report) -> str:
    """The facts of a report as JSON, without pictures and points."""
    plain = {each.name: getattr(report, each.name) for each in fields(report)}
    plain["agreement"] = [{name: getattr(row, name) for name in AGREEMENT_FIELDS} for row in report.agreement]
    plain["trust"] = _without(asdict(report.trust), ("rows", "scatters"))
    plain["groups"] = {group.name: [_sample(sample) for sample in group.samples] for group in report.groups}
    return json.dumps(plain, ensure_ascii=False, indent=1, default=_plain)


def _sample(sample: SampleFacts) -> dict[str, Any]:
    return _without(asdict(sample), ("frames", "lines", "rows"))


def _without(value: Any, names: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {name: _without(each, names) for name, each in value.items() if name not in names}
    return [_without(each, names) for each in value] if isinstance(value, list | tuple) else value


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return dict(value) if isinstance(value, Mapping) else asdict(value)
