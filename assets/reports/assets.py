"""The report of a dataset as an asset."""

import dagster as dg

from assets.curation import Curation
from assets.datasets import dataset_of_key
from assets.lineage import of_all_partitions
from assets.partitions import DATASETS
from assets.reports.dataset_report import report_markdown
from assets.scores.registry import METRICS, asset_name
from assets.thresholds.assets import WHEN_SCORES_CHANGE


@dg.asset(
    group_name="reports",
    partitions_def=DATASETS,
    deps=[
        "rating",
        "keypoint_label",
        *[of_all_partitions(asset_name(metric)) for metric in METRICS],
    ],
    automation_condition=WHEN_SCORES_CHANGE,
    kinds={"markdown"},
)
def dataset_report(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
    """Counts, distributions, best and worst samples, systems and ratings of a dataset on one page."""
    dataset = dataset_of_key(curation.engine, context.partition_key)
    text = report_markdown(curation.engine, dataset, METRICS)
    path = curation.folder("reports") / f"{dataset.name}.md"
    path.write_text(text, encoding="utf-8")
    return dg.MaterializeResult(
        metadata={"path": dg.MetadataValue.path(str(path)), "report": dg.MetadataValue.md(text)}
    )
