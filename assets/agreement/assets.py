"""How far the metrics of a dataset agree with people, as an asset."""

from dataclasses import replace

import dagster as dg

from assets.agreement.table import StoredRow, store_agreement
from assets.curation import Curation
from assets.datasets import dataset_of_key
from assets.lineage import of_all_partitions
from assets.partitions import DATASETS
from assets.reports.labels import metric_label, ratings_note
from assets.reports.plots import intervals, markdown_image
from assets.reports.tables import markdown_table
from assets.reports.text import number, spelled
from assets.scores.registry import SCORERS, asset_name
from metrics_core.agreement.choices import ACCURACY, SIDE_BY_SIDE
from metrics_core.agreement.row import KENDALL

INTERVAL = "95 % interval over videos"
# The aspects of decisions on labelled keypoints begin so.
DECISIONS = "keypoints"
_STATISTICS = {"f1": "F1", "mcc": "Matthews correlation", "kappa": "Cohen's kappa", ACCURACY: "same preference"}
SHOWN = ("pooled", "per_video", "per_system", "within_system")


@dg.asset(
    group_name="reports",
    partitions_def=DATASETS,
    deps=[
        "rating",
        "keypoint_label",
        *[of_all_partitions(asset_name(name)) for name in SCORERS],
    ],
    kinds={"postgres"},
)
def agreement(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
    """Correlations of every metric, of simple scores and of raters with people, with intervals over videos."""
    dataset = dataset_of_key(curation.engine, context.partition_key)
    judged = curation.judgements.read(context.run.run_id, curation.engine, dataset)
    rows = store_agreement(curation.engine, dataset, judged)
    with curation.engine.connect() as connection:
        labels = {metric: metric_label(connection, metric) for metric in judged.metrics}
        note = ratings_note(connection, dataset.dataset_id)
    shown = format_agreement([replace(row, metric=labels.get(row.metric, row.metric)) for row in rows])
    return dg.MaterializeResult(metadata={**note, **shown})


def format_agreement(rows: list[StoredRow]) -> dict[str, dg.MetadataValue]:
    """Format the rows of a dataset for Dagster: counts, and tables of every aspect. A row has its metric's label."""
    correlated: dict[str, list[StoredRow]] = {}
    decided: dict[str, list[StoredRow]] = {}
    for row in rows:
        if row.aspect.startswith(DECISIONS):
            decided.setdefault(row.aspect, []).append(row)
        elif row.grouping == SIDE_BY_SIDE:
            decided.setdefault(f"{row.aspect}, side by side", []).append(row)
        elif row.statistic == KENDALL and row.grouping in SHOWN:
            correlated.setdefault(row.aspect, []).append(row)
    if not rows:
        return {"agreement": dg.MetadataValue.text("no ratings and no labels")}
    stale = {row.metric: row.n_stale for row in rows if row.aspect in correlated}
    return {
        "dagster/row_count": dg.MetadataValue.int(len(rows)),
        "stale scores left out": dg.MetadataValue.text(f"{sum(stale.values()):,}"),
        **{f"aspect: {aspect}": dg.MetadataValue.md(_pooled(shown)) for aspect, shown in correlated.items()},
        **{f"groups of {aspect}": dg.MetadataValue.md(_aspect(aspect, shown)) for aspect, shown in correlated.items()},
        **{f"aspect: {aspect}": dg.MetadataValue.md(_decisions(shown)) for aspect, shown in decided.items()},
    }


def _pooled(rows: list[StoredRow]) -> str:
    """The coefficients over all samples: short, so that the page shows them at once."""
    pooled = [row for row in rows if row.grouping == "pooled"]
    cells = [[row.metric, number(row.value, 3), _interval(row), f"{row.n:,}"] for row in pooled]
    return markdown_table(["metric", "Kendall tau-b", INTERVAL, "samples"], cells)


def _aspect(aspect: str, rows: list[StoredRow]) -> str:
    """A table of one aspect, and a plot of its pooled coefficients."""
    cells = [
        [row.metric, spelled(row.grouping), number(row.value, 3), _interval(row), f"{row.n:,}", f"{row.n_stale:,}"]
        for row in rows
    ]
    table = markdown_table(["metric", "grouping", "Kendall tau-b", INTERVAL, "samples", "stale, left out"], cells)
    pooled = {
        row.metric: (row.value, row.low, row.high)
        for row in rows
        if row.grouping == "pooled" and row.value is not None and row.low is not None and row.high is not None
    }
    if not pooled:
        return table
    plot = intervals(pooled, "Kendall tau-b, pooled", aspect)
    return f"{table}\n\n{markdown_image(plot, 'coefficients with their intervals')}"


def _decisions(rows: list[StoredRow]) -> str:
    """A table of decisions, on keypoints or on two captions side by side, and the simple scores beside them."""
    cells = [
        [row.metric, _STATISTICS.get(row.statistic, row.statistic), number(row.value, 3), _interval(row), f"{row.n:,}"]
        for row in rows
    ]
    return markdown_table(["decided by", "statistic", "value", INTERVAL, "answers"], cells)


def _interval(row: StoredRow) -> str:
    return "none" if row.low is None or row.high is None else f"{number(row.low, 3)} to {number(row.high, 3)}"
