"""One asset per metric, all from one factory."""

import dagster as dg

from assets.curation import Curation
from assets.partitions import SHARDS, shard_of_key
from assets.progress import sparsely
from assets.reports.labels import demo_models, metric_label
from assets.reports.plots import histogram, markdown_image
from assets.reports.tables import sample_table
from assets.scores.image_text import DEMO_DATASET
from assets.scores.registry import METRICS, asset_name, looks_at_frames, reads_verdicts
from assets.scores.run import score_shard
from db.scores import best_and_worst, defined_values, status_counts

# So many best and as many worst samples are shown on the asset's page.
N_EXTREMES = 5


def build_score_asset(metric: str) -> dg.AssetsDefinition:
    """The asset that scores a shard with a metric: resumable, and idle when there is nothing left to score."""

    @dg.asset(
        name=asset_name(metric),
        group_name="scores",
        partitions_def=SHARDS,
        deps=_upstream(metric),
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
            label, demo_only = metric_label(connection, metric), demo_models(connection, metric)
        if values and demo_only and dataset.name != DEMO_DATASET:
            context.log.warning(
                f"{metric} on {dataset.name} was made with {', '.join(demo_only)}, which knows the demo's drawn clips "
                "alone: its numbers mean nothing here; set REELSIEVE_IMAGE_TEXT_ENCODER and "
                "REELSIEVE_IMAGE_TEXT_CHECKPOINT to a real encoder"
            )
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


def _upstream(metric: str) -> list[str | dg.AssetDep]:
    """What a metric's scorer reads."""
    if reads_verdicts(metric):
        thresholds = dg.AssetDep("ecs_thresholds", partition_mapping=dg.AllPartitionMapping())
        return ["sample", "keypoint", "reference", "ecs_verdict", thresholds]
    return ["sample", "text_embedding", "frame_embedding" if looks_at_frames(metric) else "reference"]


score_assets = [build_score_asset(metric) for metric in METRICS]
