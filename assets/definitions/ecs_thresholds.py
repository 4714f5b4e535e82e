"""The Dagster asset that chooses the thresholds of ECS on labels; all later scores use them."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import dagster as dg
from pydantic import Field

from assets.datasets.leases import lease_partitions
from assets.datasets.lookup import require_dataset
from assets.definitions.curation import Curation
from assets.definitions.lineage import depend_on_all_partitions
from assets.definitions.partitions import DATASETS
from assets.definitions.step_errors import explain_failure
from assets.metrics.ecs.calibrate import TOTAL_NAME, LabelPart, calibrate_thresholds
from assets.metrics.ecs.labelling import KeypointLabeller, LabellingResult
from assets.metrics.ecs.scorer import ECSScorer
from assets.metrics.ecs.verdicts import KeypointVerdicts
from assets.progress import throttle_lines
from assets.words.labels import format_models
from assets.words.tables import format_markdown_table
from assets.words.text import format_compact, format_count, format_number
from db.evidence.verdicts import MANIFEST_LABEL_SOURCE
from db.manifest.datasets import Dataset
from metrics_core.agreement import majority_accuracy
from metrics_core.calibration import Confusion, Threshold
from metrics_core.calibration.result import Objective

# The name of the metadata in which the command line finds the tables.
REPORT_KEY = "calibration"
BETTER_CHECK = "better_than_always_yes"
# The work that one process at a time does on a dataset, see assets/datasets/leases.py.
LABELLING_LEASE = "labels of the judge"
_PARTS = {"calibration": "a fifth of the videos", "all": "all videos"}
_HEADINGS = {
    "low": "95 % from",
    "high": "to",
    "positive": "covered",
    "f1": "F1",
    "pooled": "chosen on all dimensions",
    "majority": "accuracy of the more frequent answer",
    "all_positive_f1": "F1 if always yes",
    "mcc": "Matthews correlation",
}


class CalibrationConfig(dg.Config):
    """How thresholds are chosen: the objective, and the labels of a fifth of the videos or of all videos. judge: choose
    on a judge's labels, which are made first, instead of people's. judge_limit: the most captions judged.
    """

    objective: Objective = "f1"
    labels: LabelPart = "calibration"
    judge: bool = False
    judge_limit: int | None = Field(default=None, ge=1)


@dg.asset(
    # In the group of the verdicts, as scores need these thresholds; the group `thresholds` is computed from scores.
    group_name=KeypointVerdicts.group,
    partitions_def=DATASETS,
    deps=[depend_on_all_partitions(KeypointVerdicts.asset), "keypoint_label"],
    kinds={"postgres", "numpy"},
    check_specs=[
        dg.AssetCheckSpec(
            BETTER_CHECK,
            asset="ecs_thresholds",
            partitions_def=DATASETS,
            description="On the labels of the other videos F1 is higher than if every answer were yes.",
        )
    ],
)
@explain_failure
def ecs_thresholds(
    context: dg.AssetExecutionContext, config: CalibrationConfig, curation: dg.ResourceParam[Curation]
) -> dg.MaterializeResult:
    """The thresholds of ECS: for every dimension the probability from which a keypoint counts as covered. They are
    chosen on labels of a dataset and stored. ECS scores whose thresholds change become stale.
    """
    dataset = require_dataset(curation.engine, context.partition_key)
    scorer = cast(ECSScorer, curation.scorers[ECSScorer.metric])
    judged = _label_by_judge(context, curation, scorer.labeller, dataset, config.judge_limit) if config.judge else None
    source = scorer.labeller.source if judged else MANIFEST_LABEL_SOURCE
    thresholds, confusions, n_of_shards = calibrate_thresholds(
        curation.engine, scorer, dataset, config.objective, config.labels, source
    )
    warnings = [f"{name}: {text}" for name, threshold in thresholds.items() for text in threshold.warnings]
    for warning in warnings:
        context.log.warning(warning)
    report: dict[str, Any] = {
        "objective": config.objective,
        "labels": config.labels,
        "labels_of": source,
        "judged": dict(judged.counts) if judged else None,
        "thresholds": [_build_threshold_row(threshold) for threshold in thresholds.values()],
        "evaluation": [_build_evaluation_row(name, counts) for name, counts in confusions.items()],
        "shard_thresholds": n_of_shards,
        "warnings": warnings,
    }
    metadata: dict[str, Any] = {
        "chosen": f"for the best {config.objective} on the labels of {_PARTS[config.labels]}",
        "thresholds": dg.MetadataValue.md(
            "\n\n".join(_format_table(report[name]) for name in ("thresholds", "evaluation") if report[name])
        ),
        "verdicts by": format_models(scorer.models()),
        REPORT_KEY: dg.MetadataValue.json(report),
    }
    return dg.MaterializeResult(metadata=metadata, check_results=[_compare_with_always_yes(confusions.get(TOTAL_NAME))])


def _label_by_judge(
    context: dg.AssetExecutionContext,
    curation: Curation,
    labeller: KeypointLabeller,
    dataset: Dataset,
    limit: int | None,
) -> LabellingResult:
    """Let the judge label at most `limit` captions of the run's dataset, and store the labels; return the counts.

    Logs a warning if captions got no labels.
    """
    datasets = [context.partition_key]
    say = context.log.info
    for _, tell in lease_partitions(curation.engine, LABELLING_LEASE, datasets, say, throttle_lines(say)):
        judged = labeller.label_captions(curation.engine, dataset, run_id=context.run.run_id, tell=tell, limit=limit)
    if judged.first_failure:
        n = sum(int(judged.counts[status]) for status in ("failed", "refused"))
        have = "has" if n == 1 else "have"
        context.log.warning(
            f"{format_count(n, 'caption')} {have} no labels of the judge; reason of the first: {judged.first_failure}"
        )
    return judged


def _build_threshold_row(threshold: Threshold) -> dict[str, Any]:
    """Return a dimension's threshold as a row: its 95 % interval (low, high), the number of labels and of yes labels
    (positive), and F1 on them. pooled: whether it was chosen on the labels of all dimensions.
    """
    return {
        "dimension": threshold.aspect,
        "threshold": threshold.at_least,
        "low": threshold.low,
        "high": threshold.high,
        "labels": threshold.n,
        "positive": threshold.n_good,
        "f1": threshold.counts.f1 if threshold.counts else None,
        "pooled": threshold.pooled,
    }


def _build_evaluation_row(name: str, counts: Confusion) -> dict[str, Any]:
    """Return the agreement of a dimension, or of all, with the labels of the other videos as a row, and that of two
    simple rules. majority: accuracy of always giving the more frequent answer. all_positive_f1: F1 of always answering
    yes.
    """
    return {
        "dimension": name,
        "labels": counts.n,
        "positive": counts.n_positive,
        "accuracy": counts.accuracy,
        "majority": majority_accuracy(counts),
        "f1": counts.f1,
        "all_positive_f1": counts.all_positive_f1,
        "mcc": counts.mcc,
    }


def _compare_with_always_yes(total: Confusion | None) -> dg.AssetCheckResult:
    """Check that F1 on the other videos is higher than if every answer were yes; passes without labels of others."""
    if total is None or total.all_positive_f1 is None:
        is_better = True
        text = "F1 was not measured: no video has labels besides those that the thresholds were chosen on."
    else:
        is_better = total.f1 is not None and total.f1 > total.all_positive_f1
        n, f1, always = (
            format_count(total.n, "label"),
            format_number(total.f1, 3),
            format_number(total.all_positive_f1, 3),
        )
        text = (
            f"On {n} of the videos not used for choosing, F1 is {f1}; if every answer were yes, it would be {always}."
        )
    return dg.AssetCheckResult(
        check_name=BETTER_CHECK, passed=is_better, severity=dg.AssetCheckSeverity.WARN, description=text
    )


def _format_table(rows: Sequence[Mapping[str, Any]]) -> str:
    header = [_HEADINGS.get(name, name) for name in rows[0]]
    return format_markdown_table(header, [[format_compact(value) for value in row.values()] for row in rows])
