"""Dagster asset `agreement`: how well the order that metrics give to samples and systems matches people's."""

from dataclasses import replace

import dagster as dg

from assets.agreement.table import store_agreement
from assets.datasets.lookup import require_dataset
from assets.definitions.curation import Curation
from assets.definitions.lineage import depend_on_all_partitions
from assets.definitions.partitions import DATASETS
from assets.definitions.step_errors import explain_failure
from assets.metrics.registry import SCORERS, build_score_asset_name
from assets.promise.estimated_means import store_estimated_means
from assets.reports.figures import Bar, format_markdown_image, plot_bars
from assets.words.labels import load_metric_label, load_ratings_note
from assets.words.tables import format_markdown_table
from assets.words.text import format_number
from metrics_core.agreement import AgreementRow
from metrics_core.agreement.coefficients import KENDALL
from metrics_core.agreement.preferences import PREFERENCE_ACCURACY
from metrics_core.agreement.row import PEOPLE

INTERVAL_HEADING = "95 % interval over videos"
_STATISTICS = {
    "f1": "F1",
    "mcc": "Matthews correlation",
    "kappa": "Cohen's kappa",
    PREFERENCE_ACCURACY: "same preference",
}


@dg.asset(
    group_name="reports",
    partitions_def=DATASETS,
    deps=[
        "rating",
        "keypoint_label",
        *[depend_on_all_partitions(build_score_asset_name(name)) for name in SCORERS],
    ],
    kinds={"postgres"},
)
@explain_failure
def agreement(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
    """Agreement with people's ratings, labels and preferences: coefficients of every metric, simple score and rater,
    with intervals over videos; and means of ratings and of the judge, estimated from a part. Replaces the dataset's
    rows in tables `agreement` and `estimated_mean`.
    """
    dataset = require_dataset(curation.engine, context.partition_key)
    judged = curation.judgements.load(context.run.run_id, curation.engine, dataset)
    rows = store_agreement(curation.engine, dataset, judged)
    means = store_estimated_means(curation.engine, dataset)
    with curation.engine.connect() as connection:
        labels = {metric: load_metric_label(connection, metric) for metric in judged.metric_values}
        note = load_ratings_note(connection, dataset.dataset_id)
    metadata = format_agreement([replace(row, metric=labels.get(row.metric, row.metric)) for row in rows])
    n_means = {"estimated means": dg.MetadataValue.int(len(means))} if means else {}
    return dg.MaterializeResult(metadata={**note, **metadata, **n_means})


def format_agreement(rows: list[AgreementRow]) -> dict[str, dg.MetadataValue]:
    """Return the rows of a dataset's agreement as metadata for Dagster, by title: counts, and markdown tables for every
    aspect. Of coefficients with ratings only Kendall's tau-b is shown. The field `metric` of a row must be the label to
    show. Without rows, the one entry is a text that there are no ratings and no labels.
    """
    correlated: dict[str, list[AgreementRow]] = {}
    decided: dict[str, list[AgreementRow]] = {}
    for row in rows:
        if row.over == "keypoints":
            decided.setdefault(row.aspect, []).append(row)
        elif row.over == "pairs":
            decided.setdefault(f"{row.aspect}, side by side", []).append(row)
        elif (row.statistic, row.against) == (KENDALL, PEOPLE):
            correlated.setdefault(row.aspect, []).append(row)
    if not rows:
        return {"agreement": dg.MetadataValue.text("no ratings and no labels")}
    stale = {row.metric: row.n_stale for row in rows if row.aspect in correlated}
    return {
        "dagster/row_count": dg.MetadataValue.int(len(rows)),
        "stale scores left out": dg.MetadataValue.text(f"{sum(stale.values()):,}"),
        **{f"aspect: {aspect}": dg.MetadataValue.md(_format_pooled(shown)) for aspect, shown in correlated.items()},
        **{
            f"groups of {aspect}": dg.MetadataValue.md(_format_aspect_table(aspect, shown))
            for aspect, shown in correlated.items()
        },
        **{f"aspect: {aspect}": dg.MetadataValue.md(_format_decisions(shown)) for aspect, shown in decided.items()},
    }


def _format_pooled(rows: list[AgreementRow]) -> str:
    """Return the coefficients over all samples as a short markdown table, which Dagster's page shows at once."""
    pooled = [row for row in rows if row.over == "captions"]
    cells = [[row.metric, format_number(row.value, 3), _format_interval(row), f"{row.n:,}"] for row in pooled]
    return format_markdown_table(["metric", "Kendall tau-b", INTERVAL_HEADING, "samples"], cells)


def _format_aspect_table(aspect: str, rows: list[AgreementRow]) -> str:
    """Return a markdown table of one aspect, and a plot of its coefficients over all samples where these have
    intervals.
    """
    cells = [
        [
            row.metric,
            row.over,
            format_number(row.value, 3),
            _format_interval(row),
            f"{row.n:,}",
            f"{row.n_stale:,}",
        ]
        for row in rows
    ]
    table = format_markdown_table(
        ["metric", "over", "Kendall tau-b", INTERVAL_HEADING, "samples", "stale, left out"], cells
    )
    bars = [
        Bar(row.metric, row.value, row.low, row.high)
        for row in rows
        if row.over == "captions" and row.value is not None and row.low is not None and row.high is not None
    ]
    if not bars:
        return table
    shown = "coefficients with their intervals"
    best_first = sorted(bars, key=lambda bar: -bar.value)
    svg = plot_bars(best_first, f"Kendall’s τ-b with {aspect}", f"{aspect}: {shown}", None, None)
    return f"{table}\n\n{format_markdown_image(svg, shown)}"


def _format_decisions(rows: list[AgreementRow]) -> str:
    """Return a markdown table of decisions, on keypoints or on two captions side by side, with those of simple
    scores.
    """
    cells = [
        [
            row.metric,
            _STATISTICS.get(row.statistic, row.statistic),
            format_number(row.value, 3),
            _format_interval(row),
            f"{row.n:,}",
        ]
        for row in rows
    ]
    return format_markdown_table(["decided by", "statistic", "value", INTERVAL_HEADING, "answers"], cells)


def _format_interval(row: AgreementRow) -> str:
    """Return the interval of a row as text, or "none"."""
    return (
        "none"
        if row.low is None or row.high is None
        else f"{format_number(row.low, 3)} to {format_number(row.high, 3)}"
    )
