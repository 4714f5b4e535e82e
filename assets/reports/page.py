"""Renders a report as one HTML page from templates. All text of a dataset is escaped, so none of it acts as markup."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from assets.agreement.raters import explain_checks
from assets.promise.estimated_means import EstimatedMean
from assets.reports.answers import LEVEL_LIGHTS
from assets.reports.best_system import list_leaders, list_people_leaders
from assets.reports.figures import GREY, LIGHT_COLOURS, Bar, plot_bars, plot_histogram
from assets.reports.score_rows import Row
from assets.reports.sections import Report
from assets.reports.systems import MOST_SYSTEMS, SystemTable
from assets.reports.trust import AspectAgreement
from assets.trial.sentences import MEASURE_NAMES, explain_trial
from assets.words.labels import format_goodness, format_rating
from assets.words.text import (
    escape_controls,
    format_compact,
    format_count,
    format_name,
    format_number,
    format_percent,
)
from db.selection.trials import Trial
from metrics_core.agreement.coefficients import KENDALL
from metrics_core.agreement.row import ONE_RATER
from metrics_core.intervals import ClusterMean

TEMPLATES = Path(__file__).parent / "templates"

_GROUP_TITLES = {
    "facts": "Extremes of facts",
    "best": "Best",
    "worst": "Worst",
    "metrics": "Metric against metric",
    "people": "Metric against people",
}


def render_page(report: Report) -> str:
    """Render a report as one HTML page that needs no network. All text of the dataset is escaped. Reads the templates
    of this package.
    """
    labels = {metric.name: metric.label for metric in report.metrics}

    def label(metric: str) -> str:
        return "one more rater" if metric == ONE_RATER else labels.get(metric, metric)

    compared = {name for aspect in report.trust for name, coefficient in aspect.coefficients.items() if coefficient.n}
    return (
        make_template_environment()
        .get_template("index.html")
        .render(
            report=report,
            plot_aspect=lambda aspect: _plot_aspect(aspect, labels),
            plot_spread=lambda spread, cuts: _plot_spread(spread, cuts, labels),
            style=(TEMPLATES / "style.css").read_text(encoding="utf-8"),
            label=label,
            rating=lambda value, aspect, digits=2: format_rating(
                format_number(value, digits), aspect, report.data.scale_ends
            ),
            goodness=lambda aspect: format_goodness(aspect, report.data.turned_aspects),
            trust_names=compared,
            sections=_list_sections(report),
            n_videos=lambda aspect: max((row.n_videos for row in aspect.coefficients.values()), default=0),
            missing_scores=dict(_explain_missing_scores(report)),
            stress_commands=_list_stress_commands(report),
            leaders=lambda table: list_leaders(table, labels),
            people_leaders=list_people_leaders,
            references=lambda metric: _format_reference_counts(report, metric),
            estimated_means=_choose_shown_means(report),
            system_tables=list(_pair_system_tables(report)),
            light=LEVEL_LIGHTS.__getitem__,
            tracks=_compute_interval_bars,
            trial_bars=_compute_difference_bars,
            explain_trial=explain_trial,
            explain_checks=explain_checks,
            measure_name=lambda name: MEASURE_NAMES.get(name, name),
            same_n=_find_common_n,
            statistic=lambda name: "Kendall’s τ-b" if name == KENDALL else name.replace("_", " "),
            most_systems=MOST_SYSTEMS,
            group_titles=_GROUP_TITLES,
        )
    )


def _list_stress_commands(report: Report) -> list[str]:
    """The commands that stress the metrics that score captions and were not stressed. Imported scores are left out,
    since nothing here can score a rewrite in the same way.
    """
    stressed = {row["metric"] for row in report.stresses}
    return [
        f"reelsieve stress {metric.name} --dataset {shlex.quote(report.dataset)}"
        for metric in report.metrics
        if metric.name not in stressed and metric.has_values("caption") and not metric.is_imported
    ]


def _list_sections(report: Report) -> dict[str, str]:
    """Return the sections of the page that have content, in their order: name of the template to the title in the
    contents.
    """
    named = {
        "answers": ("Answers", True),
        "facts": ("Facts", report.described),
        "trust": ("Trust", report.trust or report.side_by_side or report.stresses or report.judges),
        "systems": ("Systems", report.systems or report.people),
        "samples": ("Samples", any(report.groups.values())),
        "scores": ("Scores", report.spreads),
        "trials": ("Training", report.trials),
        "data": ("Data", True),
        "method": ("Method", True),
    }
    return {section: name for section, (name, has_content) in named.items() if has_content}


def _plot_aspect(aspect: AspectAgreement, labels: Mapping[str, str]) -> str | None:
    """Draw the coefficients of all metrics and simple scores for one aspect as an SVG element; None without any."""
    rows = [
        *(
            (labels[name], found, LIGHT_COLOURS[LEVEL_LIGHTS[aspect.verdicts[name].level]])
            for name, found in aspect.coefficients.items()
        ),
        *((found.metric, found, GREY) for found in aspect.baselines),
    ]
    bars = [Bar(name, f.value, f.low, f.high, colour) for name, f, colour in rows if f.value is not None]
    description = "; ".join(f"{bar.name} {format_number(bar.value)}" for bar in bars)
    ceiling = aspect.ceiling
    rater = Bar("", ceiling.value, ceiling.low, ceiling.high) if ceiling and ceiling.value is not None else None
    simple = aspect.strongest.value if aspect.strongest else None
    title = "Kendall’s τ-b with people, 95 % interval"
    return plot_bars(bars, title, f"Kendall’s tau-b: {description}", simple, rater) if bars else None


def _plot_spread(spread: Row, cuts: Sequence[Row], labels: Mapping[str, str]) -> str:
    """Draw the histogram of a metric's values with thresholds as an SVG element."""
    label, marks = labels[spread["metric"]], {f"{100 * cut['share']:g} %": cut["value"] for cut in cuts}
    return plot_histogram(spread["low"], spread["high"], spread["counts"], label, f"Distribution of {label}", marks)


def _format_reference_counts(report: Report, metric: str) -> list[str]:
    """Return how many references the videos have on which a metric was compared with people, without repeats among
    aspects.
    """
    counts = (aspect.references[metric] for aspect in report.trust if metric in aspect.references)
    return list(dict.fromkeys(map(str, counts)))


def _choose_shown_means(report: Report) -> Mapping[str, Sequence[EstimatedMean]]:
    """Return by expensive score the estimated means that a page shows: of the dataset and of its systems (at most 24),
    one for each group, corrected by the first of the metrics that corrects it. The order is fixed before
    the answers, since the narrowest of several intervals would hold the mean less often.
    """
    places = {metric.name: place for place, metric in enumerate(report.metrics)}
    chosen: dict[tuple[str, str | None], EstimatedMean] = {}
    for mean in sorted(report.estimated_means, key=lambda mean: places.get(mean.helper or "", len(places))):
        if mean.group_kind != "selection":
            chosen.setdefault((mean.expensive_score, mean.group_name), mean)
    by_score: dict[str, list[EstimatedMean]] = {}
    for mean in sorted(chosen.values(), key=lambda mean: (mean.group_name is not None, -mean.estimate.size)):
        by_score.setdefault(mean.expensive_score, []).append(mean)
    return {score: rows[: MOST_SYSTEMS + 1] for score, rows in by_score.items()}


def _pair_system_tables(report: Report) -> Iterator[tuple[SystemTable | None, SystemTable | None]]:
    """Yield for every kind of samples the systems' means by metrics, and their means by ratings; None for a missing
    table.
    """
    scored, rated = ({table.kind: table for table in tables} for tables in (report.systems, report.people))
    for kind in dict.fromkeys((*scored, *rated)):
        yield scored.get(kind), rated.get(kind)


def _find_common_n(table: SystemTable) -> int | None:
    """Return the number of values behind every mean of a table; None where these numbers differ, or there is no mean.
    Systems without a value in a column do not count.
    """
    counts = {n for system in table.systems for mean in table.means[system].values() if (n := mean.n)}
    return counts.pop() if len(counts) == 1 else None


def _compute_interval_bars(table: SystemTable) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Compute where to draw every mean with its interval, by column and then by system: low end, mean and high end in
    percent of the column's width. 0 is the lowest end in the column, 100 the highest. Systems without a mean are left
    out; a mean without an interval gives three equal numbers.
    """
    return {
        column: _compute_column_bars({system: table.means[system][column] for system in table.systems})
        for column in table.columns
    }


def _compute_column_bars(means: Mapping[str, ClusterMean]) -> dict[str, tuple[float, float, float]]:
    """Compute the places of one column's means and intervals, by system, in percent."""
    ends = {
        system: tuple(
            cluster_mean.mean if end is None else end
            for end in (cluster_mean.low, cluster_mean.mean, cluster_mean.high)
        )
        for system, cluster_mean in means.items()
        if cluster_mean.mean is not None
    }
    place = _make_scale([end for triple in ends.values() for end in triple])
    return {system: (place(low), place(mean), place(high)) for system, (low, mean, high) in ends.items()}


def _compute_difference_bars(trial: Trial) -> dict[str, tuple[float, float, float, float]]:
    """Compute where to draw the difference of every arm of a trial: low end, value, high end, and 0, in percent of the
    column's width. Arms without a difference are left out.
    """
    ends = {
        arm.arm: (arm.low, arm.difference, arm.high)
        for arm in trial.arms
        if arm.low is not None and arm.difference is not None and arm.high is not None
    }
    place = _make_scale([0.0, *(end for triple in ends.values() for end in triple)])
    return {
        name: (place(low), place(difference), place(high), place(0.0)) for name, (low, difference, high) in ends.items()
    }


def _make_scale(values: Sequence[float]) -> Callable[[float], float]:
    """Return the function that gives a value's place in percent between the lowest and the highest of these values."""
    lowest = min(values, default=0.0)
    width = max(values, default=0.0) - lowest or 1.0
    return lambda value: round(100 * (value - lowest) / width, 1)


def _explain_missing_scores(report: Report) -> Iterator[tuple[str, str]]:
    """Yield for every metric with gaps its label, and how many of the judged samples have no value and for which
    reason.
    """
    summaries = {metric.name: metric for metric in report.metrics}
    for metric, counts in report.unscored.items():
        counts_text = ", ".join(f"{n:,} {why}" for why, n in counts.items() if n)
        if counts_text and metric in summaries:
            commonest = [count for count in summaries[metric].statuses if count.status not in ("ok", "stale")]
            why = f" (most of all: {commonest[0].status})" if commonest else ""
            yield (
                summaries[metric].label,
                f"of the {format_count(report.n_judged, 'judged sample')}, {counts_text}{why}.",
            )


def make_template_environment(templates: Path = TEMPLATES) -> Environment:
    """Make the Jinja environment of the pages in folder `templates`, with the filters they use. Values are escaped as
    HTML, except for what filter `drawn` marks as safe. Control characters are shown as text, and a name that is not
    defined raises an error.
    """
    environment = Environment(
        loader=FileSystemLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_escape_text,
    )
    environment.filters |= {
        "number": format_number,
        "percent": format_percent,
        "plural": format_count,
        "cell": format_compact,
        "spelled": format_name,
        "data_uri": _format_data_uri,
        "drawn": Markup,
        "zip": zip,
    }
    return environment


def _escape_text(value: Any) -> Any:
    """Return a value that a template prints; in plain text, characters that a browser would obey are made visible."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else escape_controls(value)


def _format_data_uri(jpeg: bytes) -> str:
    """Return a JPEG image, given as bytes, as a data: URI that contains them in base64."""
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"
