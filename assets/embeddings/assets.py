"""Text embeddings of a shard as an asset."""

import dagster as dg

from assets.curation import Curation
from assets.embeddings.run import embed_shard
from assets.partitions import SHARDS, shard_of_key
from assets.progress import sparsely

ENCODER_POOL = "encoder"


@dg.asset(
    group_name="embeddings",
    partitions_def=SHARDS,
    deps=["sample", "reference"],
    kinds={"postgres", "pytorch"},
    pool=ENCODER_POOL,
    retry_policy=dg.RetryPolicy(max_retries=2, delay=5),
)
def text_embedding(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
    """Vectors of every text that the shard's unscored samples need: each distinct text once per encoder."""
    dataset, shard = shard_of_key(curation.engine, context.partition_key)
    tell = sparsely(context.log.info)
    metadata: dict[str, int | str] = {}
    for metric, scorer in curation.scorers.items():
        report = embed_shard(
            curation.engine,
            scorer,
            dataset,
            shard,
            progress=lambda done, total: tell(f"{done} of {total} texts embedded"),
        )
        metadata |= {
            f"{metric}_texts_wanted": report.n_texts,
            f"{metric}_texts_embedded": report.n_embedded,
            f"{metric}_encoder": report.model_id,
        }
    return dg.MaterializeResult(metadata=metadata)
