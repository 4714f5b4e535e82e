"""One asset per metric. One factory builds them all."""

import dagster as dg

from assets.curation import Curation
from assets.datasets import shard_of_key
from assets.lineage import input_assets
from assets.partitions import SHARDS
from assets.progress import sparsely
from assets.reports.labels import metric_label
from assets.reports.plots import histogram, markdown_image
from assets.reports.tables import sample_table
from assets.scores.registry import METRICS, SCORERS, asset_name
from assets.scores.run import score_shard
from db.scores import best_and_worst, defined_values, most_common_refusal, status_counts

# The number of best samples on the asset's page, and of worst samples.
N_EXTREMES = 5


def build_score_asset(metric: str) -> dg.AssetsDefinition:
    """Build the asset that scores a shard with a metric. It can resume, and rests when nothing is left to score."""

    @dg.asset(
        name=asset_name(metric),
        group_name="scores",
        partitions_def=SHARDS,
        deps=[*input_assets(SCORERS[metric].inputs), *(kind.asset for kind in SCORERS[metric].rests_on)],
        kinds={"postgres", "numpy"},
        description=f"The metric {metric} for every sample of the shard that lacks it or whose inputs changed.",
    )
    def score(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
        dataset, shard = shard_of_key(curation.engine, context.partition_key)
        tell = sparsely(context.log.info)
        report = score_shard(
            curation.engine,
            curation.scorers[metric],
            dataset,
            shard,
            run_id=context.run.run_id,
            progress=lambda done, total: tell(f"{done} of {total} samples scored with {metric}"),
        )
        with curation.engine.connect() as connection:
            statuses = status_counts(connection, report.scorer_id, dataset.dataset_id, shard)
            values = defined_values(connection, report.scorer_id, dataset.dataset_id, shard)
            extremes = best_and_worst(connection, report.scorer_id, dataset.dataset_id, N_EXTREMES, shard)
            label = metric_label(connection, metric)
            refusal = most_common_refusal(connection, report.scorer_id, dataset.dataset_id, shard)
        if refusal:
            context.log.warning(f"{metric} says nothing of {refusal.n} samples: {refusal.status}, {refusal.error}")
        metadata: dict[str, dg.MetadataValue] = {
            "scorer_id": dg.MetadataValue.int(report.scorer_id),
            "samples_pending": dg.MetadataValue.int(report.n_pending),
            "scores_written": dg.MetadataValue.int(report.n_written),
            "statuses": dg.MetadataValue.json(statuses),
        }
        if values:
            plot = histogram(values, label, f"{label} on {context.partition_key}")
            metadata["distribution"] = dg.MetadataValue.md(markdown_image(plot, f"distribution of {label}"))
            metadata["best_and_worst"] = dg.MetadataValue.md(sample_table(extremes, label))
        return dg.MaterializeResult(metadata=metadata)

    return score


score_assets = [build_score_asset(metric) for metric in METRICS]
