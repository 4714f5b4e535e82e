"""Calibrates ECS: reaches missing verdicts, chooses thresholds on labels, and scores with the new thresholds."""

from __future__ import annotations

from typing import Any, cast

from assets.datasets import dataset_of_key, shard_keys
from assets.ecs.assets import REPORT, ecs_thresholds
from assets.ecs.scorer import ECSScorer
from assets.partitions import announce_partitions
from assets.scores.pending import outstanding_shards
from assets.scores.registry import asset_name, scoring_assets
from orchestration.platform import installed
from orchestration.runs import run_job


def run_calibration(
    dataset: str, objective: str, labels: str, *, judge: bool = False, judge_limit: int | None = None
) -> dict[str, Any]:
    """Choose the thresholds of ECS on the labels of a dataset and score with them; returns the report of the asset.

    objective: f1, youden, mcc or coverage. labels: `calibration` for the labels of a fifth of the videos, or `all`.
    judge: have the judge label at most `judge_limit` captions, and choose on its labels in place of people's. Verdicts
    that are missing, or that an early exit left as lower bounds, are reached first. Raises UnknownDataset and NoJudge.
    """
    dataset_row = dataset_of_key(installed().engine, dataset)
    if judge:
        cast(ECSScorer, installed().curation.scorers[ECSScorer.metric]).labeller.check()
    announce_partitions(installed().instance, dataset_row)
    metric = ECSScorer.metric
    keys = shard_keys(dataset_row)
    if outstanding := sorted(outstanding_shards(installed().engine, installed().curation.scorers[metric], dataset_row)):
        run_job("scoring_job", keys[outstanding[0]], {}, scoring_assets([metric]), keys[outstanding[-1]])
    asset = ecs_thresholds.key.to_user_string()
    chosen = {"objective": objective, "labels": labels, "judge": judge, "judge_limit": judge_limit}
    config = {"ops": {asset: {"config": chosen}}}
    result = run_job("calibration_job", dataset, config)
    run_job("scoring_job", keys[0], {}, [asset_name(metric)], keys[-1])
    (event,) = result.asset_materializations_for_node(asset)
    return cast("dict[str, Any]", event.metadata[REPORT].value)
