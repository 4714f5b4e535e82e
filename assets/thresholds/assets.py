"""Quantile thresholds of every metric on a dataset: the score above which a given share of samples lies."""

import dagster as dg
from sqlalchemy.engine import Engine

from assets.curation import Curation
from assets.datasets import dataset_of_key
from assets.lineage import of_all_partitions
from assets.partitions import DATASETS
from assets.reports.labels import metric_label
from assets.reports.plots import counted_histogram, markdown_image
from assets.reports.tables import markdown_table
from assets.scores.registry import METRICS, asset_name
from assets.thresholds.shares import SHARES
from db.distribution import distribution
from db.freezing import kept
from db.manifest import Dataset
from db.scores import active_scorer
from db.thresholds import store_threshold


@dg.asset(
    group_name="thresholds",
    partitions_def=DATASETS,
    deps=[of_all_partitions(asset_name(metric)) for metric in METRICS],
    kinds={"postgres"},
)
def threshold(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
    """For every metric the lowest score of the best half, quarter, eighth and sixteenth of the dataset."""
    dataset = dataset_of_key(curation.engine, context.partition_key)
    return dg.MaterializeResult(metadata={metric: _metric(curation.engine, dataset, metric) for metric in METRICS})


def _metric(engine: Engine, dataset: Dataset, metric: str) -> dg.MetadataValue:
    """Store the thresholds of one metric and describe them."""
    with engine.begin() as connection:
        scorer_id = active_scorer(connection, metric)
        label = metric_label(connection, metric)
        found = None if scorer_id is None else distribution(connection, scorer_id, dataset.dataset_id, SHARES)
        if scorer_id is None or found is None:
            return dg.MetadataValue.text("no defined score on this dataset")
        for share, value in found.cutoffs.items():
            store_threshold(
                connection,
                scorer_id=scorer_id,
                dataset_id=dataset.dataset_id,
                method="quantile",
                objective=f"keep {share:g}",
                value=value,
                n=found.n,
            )
    rows = [[f"{share:.2%}", str(kept(share, found.n)), f"{value:.4f}"] for share, value in found.cutoffs.items()]
    lines = {f"{share:g}": value for share, value in found.cutoffs.items()}
    plot = counted_histogram(found.low, found.high, found.counts, label, f"{label} on {dataset.name}", lines)
    table = markdown_table(["share", "samples", "at least"], rows)
    return dg.MetadataValue.md(f"{table}\n\n{markdown_image(plot, f'distribution of {label} with its thresholds')}")
