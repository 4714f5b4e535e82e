"""Embeddings of a shard as assets: texts and sampled frames."""

from collections.abc import Iterator

import dagster as dg

from assets.curation import Curation
from assets.embeddings.frames import embed_frames
from assets.embeddings.run import embed_shard
from assets.partitions import SHARDS, shard_of_key
from assets.progress import sparsely
from assets.scores.base import Scorer
from assets.scores.registry import asset_name
from db.embeddings import find_encoder
from db.frames import shard_frames

ENCODER_POOL = "encoder"
_CHECKS = {
    "frames_present": "Every video that has samples and decodes was read, or is known to have no readable frame.",
    "frames_complete": "As many features are stored as frames were sampled.",
}


@dg.asset(
    group_name="embeddings",
    partitions_def=SHARDS,
    deps=["sample", "reference"],
    kinds={"postgres", "pytorch"},
    pool=ENCODER_POOL,
)
def text_embedding(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
    """Vectors of every text that the shard's unscored samples need: each distinct text once per encoder."""
    dataset, shard = shard_of_key(curation.engine, context.partition_key)
    tell = sparsely(context.log.info)
    metadata: dict[str, int | str] = {}
    for metric, scorer in scorers_of_run(context, curation).items():
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


@dg.asset(
    group_name="embeddings",
    partitions_def=SHARDS,
    deps=["sample", "video"],
    kinds={"postgres", "pytorch"},
    pool=ENCODER_POOL,
)
def frame_embedding(context: dg.AssetExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.MaterializeResult:
    """Features of the sampled frames of each video that the shard's unscored samples need, once per encoder."""
    dataset, shard = shard_of_key(curation.engine, context.partition_key)
    tell = sparsely(context.log.info)
    metadata: dict[str, int | str] = {}
    for metric, scorer in scorers_of_run(context, curation).items():
        if scorer.frame_encoder is None:
            continue
        report = embed_frames(
            curation.engine,
            scorer,
            scorer.frame_encoder,
            dataset,
            shard,
            progress=lambda done, total: tell(f"frames of {done} of {total} videos embedded"),
        )
        metadata |= {
            f"{metric}_videos": report.n_videos,
            f"{metric}_frames_embedded": report.n_frames,
            f"{metric}_videos_without_frames": report.n_without_frames,
            f"{metric}_encoder": report.model_id,
        }
    return dg.MaterializeResult(metadata=metadata)


@dg.multi_asset_check(
    name="frame_embedding_checks",
    specs=[
        dg.AssetCheckSpec(name, asset="frame_embedding", description=text, blocking=True, partitions_def=SHARDS)
        for name, text in _CHECKS.items()
    ],
)
def frame_checks(
    context: dg.AssetCheckExecutionContext, curation: dg.ResourceParam[Curation]
) -> Iterator[dg.AssetCheckResult]:
    """Whether the frames of a shard are all there, for each scorer that looks at frames."""
    dataset, shard = shard_of_key(curation.engine, context.partition_key)
    counts = {}
    for metric, scorer in curation.scorers.items():
        if scorer.frame_encoder is not None:
            with curation.engine.connect() as connection:
                encoder_id = find_encoder(connection, scorer.frame_encoder.identity.as_dict())
                counts[metric] = shard_frames(connection, encoder_id, dataset.dataset_id, shard)
    passed = {
        "frames_present": all(found.n_missing == 0 for found in counts.values()),
        "frames_complete": all(found.n_stored == found.n_sampled for found in counts.values()),
    }
    metadata = {f"{metric}_{name}": n for metric, found in counts.items() for name, n in found.as_dict().items()}
    for name in _CHECKS:
        yield dg.AssetCheckResult(asset_key="frame_embedding", check_name=name, passed=passed[name], metadata=metadata)


def scorers_of_run(context: dg.AssetExecutionContext, curation: Curation) -> dict[str, Scorer]:
    """The scorers that this run goes on to score with; all where it only embeds."""
    chosen = context.run.asset_selection or frozenset()
    wanted = {m: s for m, s in curation.scorers.items() if dg.AssetKey(asset_name(m)) in chosen}
    return wanted or curation.scorers
