"""The training subset of a dataset as an asset."""

import dagster as dg

from assets.curation import Curation
from assets.datasets import dataset_of_key
from assets.lineage import of_all_partitions
from assets.partitions import DATASETS
from assets.reports.labels import metric_label
from assets.reports.tables import markdown_table
from assets.scores.registry import METRICS, asset_name
from assets.selection.export import export_selection
from db.selection import NothingToSelect, freeze_selection, selection_rows


class SelectionConfig(dg.Config):
    """The rule of a selection: the metric that ranks samples, the share to keep, and a filter."""

    by: str = METRICS[0]
    keep: float = 0.125
    where: str | None = None


@dg.asset(
    group_name="selection",
    partitions_def=DATASETS,
    deps=[of_all_partitions(asset_name(metric)) for metric in METRICS],
    kinds={"postgres", "parquet"},
)
def training_subset(
    context: dg.AssetExecutionContext, config: SelectionConfig, curation: dg.ResourceParam[Curation]
) -> dg.MaterializeResult:
    """The best share of the dataset by a metric, frozen in the database and written as Parquet."""
    dataset = dataset_of_key(curation.engine, context.partition_key)
    try:
        with curation.engine.begin() as connection:
            chosen = freeze_selection(connection, dataset, by=config.by, keep=config.keep, where=config.where)
            label = metric_label(connection, config.by)
    except NothingToSelect as error:
        if config.where:
            raise
        # A dataset that is not scored yet is no mistake: its subset waits for the scores.
        return dg.MaterializeResult(metadata={"rows": 0, "reason": str(error)})
    path = curation.folder("selections") / f"{dataset.name}-{chosen.selection_id}.parquet"
    # Written even if the file exists: it may come from another database that this home folder was used with.
    export_selection(curation.engine, chosen.selection_id, path)
    first = next(selection_rows(curation.engine, chosen.selection_id, batch_size=10))
    preview = [[str(row["rank"]), row["sample"], row["system"], f"{row['value']:.4f}"] for row in first]
    return dg.MaterializeResult(
        metadata={
            "selection_id": chosen.selection_id,
            "rows": chosen.n,
            "eligible": chosen.n_eligible,
            "cutoff": chosen.cutoff,
            "score_hash": chosen.score_hash,
            "is_new": chosen.is_new,
            "path": dg.MetadataValue.path(str(path)),
            "first_rows": dg.MetadataValue.md(markdown_table(["rank", "sample", "system", label], preview)),
        }
    )
