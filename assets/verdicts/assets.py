"""Verdicts on the keypoints of a shard as an asset, for each scorer that reads them."""

import dagster as dg

from assets.curation import Curation
from assets.embeddings.assets import ENCODER_POOL, scorers_of_run
from assets.partitions import SHARDS, shard_of_key
from assets.progress import sparsely
from assets.scores.pending import unverified
from assets.verdicts.run import verify_shard

PRESENT = "verdicts_present"


class VerdictConfig(dg.Config):
    """Whether to stop at a keypoint's threshold: the same scores in fewer passes; probabilities become lower bounds."""

    early_exit: bool = False


@dg.asset(
    group_name="verdicts",
    partitions_def=SHARDS,
    deps=["text_embedding", "sample", "keypoint", "reference"],
    kinds={"postgres", "pytorch"},
    pool=ENCODER_POOL,
)
def ecs_verdict(
    context: dg.AssetExecutionContext, config: VerdictConfig, curation: dg.ResourceParam[Curation]
) -> dg.MaterializeResult:
    """Whether captions entail the keypoints of their videos: the greatest probability and the sentence that has it."""
    dataset, shard = shard_of_key(curation.engine, context.partition_key)
    tell = sparsely(context.log.info)
    metadata: dict[str, int | str] = {}
    for metric, scorer in scorers_of_run(context, curation).items():
        if scorer.checklist is None:
            continue
        report = verify_shard(
            curation.engine,
            scorer,
            dataset,
            shard,
            run_id=context.run.run_id,
            tell=tell,
            early_exit=config.early_exit,
        )
        if report.unverifiable:
            context.log.warning(
                f"{len(report.unverifiable)} captions of {context.partition_key} have no verdicts, the first for this "
                f"reason: {report.unverifiable[0]}"
            )
        metadata |= {
            f"{metric}_captions": report.n_captions,
            f"{metric}_keypoints": report.n_keypoints,
            f"{metric}_passes": report.n_passes,
            f"{metric}_pairs_judged": report.n_judged,
            f"{metric}_pairs_truncated": report.n_truncated,
            f"{metric}_verifier": scorer.checklist.model.identity.model_id,
        }
    return dg.MaterializeResult(metadata=metadata)


@dg.asset_check(
    asset=ecs_verdict,
    name=PRESENT,
    blocking=True,
    partitions_def=SHARDS,
    description="Every keypoint of every caption has a verdict, or the caption a reason why it has none.",
)
def verdict_check(context: dg.AssetCheckExecutionContext, curation: dg.ResourceParam[Curation]) -> dg.AssetCheckResult:
    """Whether nothing is left to verify, for each scorer that reads verdicts."""
    dataset, shard = shard_of_key(curation.engine, context.partition_key)
    missing = {
        f"{metric}_missing": len(unverified(curation.engine, scorer, dataset, shard, in_full=False))
        for metric, scorer in curation.scorers.items()
        if scorer.checklist is not None
    }
    return dg.AssetCheckResult(passed=not any(missing.values()), metadata=missing)
