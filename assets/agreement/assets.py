"""How far the metrics of a dataset agree with people, as an asset."""

import dagster as dg

from assets.agreement.rows import store_agreement
from assets.curation import Curation
from assets.datasets import dataset_of_key
from assets.lineage import of_all_partitions
from assets.partitions import DATASETS
from assets.reports.plots import intervals, markdown_image
from assets.reports.tables import markdown_table
from assets.scores.registry import METRICS, asset_name
from db.agreement import StoredAgreement

STATISTIC = "kendall_b"
# The aspects of decisions on labelled keypoints begin so.
DECISIONS = "keypoints"
SHOWN = ("pooled", "per_video", "per_system", "within_system")


@dg.asset(
    group_name="reports",
    partitions_def=DATASETS,
    deps=[
        "rating",
        "keypoint_label",
        *[of_all_partitions(asset_name(metric)) for metric in METRICS],
    ],
    kinds={"postgres"},
)
def agreement(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
    """Correlations of every metric, of baselines and of raters with people, with intervals over videos."""
    dataset = dataset_of_key(curation.engine, context.partition_key)
    return dg.MaterializeResult(metadata=metadata_of(store_agreement(curation.engine, dataset, METRICS)))


def metadata_of(rows: list[StoredAgreement]) -> dict[str, dg.MetadataValue]:
    """What a dataset's rows say in short: counts, and a table for every aspect."""
    correlated: dict[str, list[StoredAgreement]] = {}
    decided: dict[str, list[StoredAgreement]] = {}
    for row in rows:
        if row.aspect.startswith(DECISIONS):
            decided.setdefault(row.aspect, []).append(row)
        elif row.statistic == STATISTIC and row.grouping in SHOWN:
            correlated.setdefault(row.aspect, []).append(row)
    if not rows:
        return {"agreement": dg.MetadataValue.text("no ratings and no labels")}
    stale = {row.metric: row.n_stale for row in rows if row.aspect in correlated}
    return {
        "rows": dg.MetadataValue.int(len(rows)),
        "stale scores left out": dg.MetadataValue.int(sum(stale.values())),
        **{f"aspect: {aspect}": dg.MetadataValue.md(_aspect(aspect, shown)) for aspect, shown in correlated.items()},
        **{f"aspect: {aspect}": dg.MetadataValue.md(_decisions(shown)) for aspect, shown in decided.items()},
    }


def _aspect(aspect: str, rows: list[StoredAgreement]) -> str:
    """A table of one aspect, and a plot of its pooled coefficients."""
    cells = [
        [row.metric, row.grouping, _shown(row.value), _shown(row.low), _shown(row.high), str(row.n), str(row.n_stale)]
        for row in rows
    ]
    table = markdown_table(["metric", "grouping", "Kendall tau-b", "low", "high", "n", "stale"], cells)
    pooled = {
        row.metric: (row.value, row.low, row.high)
        for row in rows
        if row.grouping == "pooled" and row.value is not None and row.low is not None and row.high is not None
    }
    if not pooled:
        return table
    plot = intervals(pooled, "Kendall tau-b, pooled", aspect)
    return f"{table}\n\n{markdown_image(plot, 'coefficients with their intervals')}"


def _decisions(rows: list[StoredAgreement]) -> str:
    """A table of decisions on keypoints and the baselines beside them."""
    cells = [
        [row.metric, row.statistic, _shown(row.value), _shown(row.low), _shown(row.high), str(row.n)] for row in rows
    ]
    return markdown_table(["decided by", "statistic", "value", "low", "high", "n"], cells)


def _shown(value: float | None) -> str:
    """A number with three digits, and nothing for none."""
    return "" if value is None else f"{value:.3f}"
