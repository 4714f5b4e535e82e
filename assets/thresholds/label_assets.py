"""Thresholds of ECS as an asset: calibrated on labels, in force for scores from then on."""

from typing import Any, Literal

import dagster as dg

from assets.curation import Curation
from assets.partitions import DATASETS, dataset_of_key
from assets.reports.tables import markdown_table
from assets.scores.registry import METRICS, reads_verdicts
from assets.thresholds.calibrate import TOTAL, Calibration, calibrate
from assets.thresholds.tables import evaluation_rows, threshold_rows

# Where the command line finds the tables among the run's metadata.
REPORT = "calibration"
BETTER = "better_than_always_yes"


class CalibrationConfig(dg.Config):
    """What a threshold is best for, and on which labels: those of a fifth of the videos, or all."""

    objective: Literal["f1", "youden", "mcc", "coverage"] = "f1"
    labels: Literal["calibration", "all"] = "calibration"


@dg.asset(
    group_name="thresholds",
    partitions_def=DATASETS,
    deps=[dg.AssetDep("ecs_verdict", partition_mapping=dg.AllPartitionMapping()), "keypoint_label"],
    kinds={"postgres", "numpy"},
    check_specs=[
        dg.AssetCheckSpec(
            BETTER,
            asset="ecs_thresholds",
            partitions_def=DATASETS,
            description="On the labels of the other videos F1 is above that of always saying yes.",
        )
    ],
)
def ecs_thresholds(
    context: dg.AssetExecutionContext, config: CalibrationConfig, curation: dg.ResourceParam[Curation]
) -> dg.MaterializeResult:
    """From which probability on a keypoint counts as covered, by dimension, chosen on labels; scores follow."""
    dataset = dataset_of_key(curation.engine, context.partition_key)
    metadata: dict[str, Any] = {}
    report: dict[str, Any] = {}
    passed = True
    for metric in filter(reads_verdicts, METRICS):
        found = calibrate(curation.engine, curation.scorers[metric], dataset, config.objective, config.labels)
        for warning in found.warnings:
            context.log.warning(warning)
        passed &= _is_better_than_always_yes(found)
        metadata |= {f"{metric}_thresholds": dg.MetadataValue.md(_markdown(found))}
        report[metric] = {
            "objective": found.objective,
            "labels": found.part,
            "thresholds": threshold_rows(found),
            "evaluation": evaluation_rows(found),
            "shard_thresholds": found.n_shard_thresholds,
            "warnings": found.warnings,
        }
    check = dg.AssetCheckResult(check_name=BETTER, passed=passed, severity=dg.AssetCheckSeverity.WARN)
    return dg.MaterializeResult(metadata={**metadata, REPORT: dg.MetadataValue.json(report)}, check_results=[check])


def _is_better_than_always_yes(found: Calibration) -> bool:
    """Whether it is, where there are labels to tell by."""
    total = found.evaluated.get(TOTAL)
    if total is None or total.all_positive_f1 is None:
        return True
    return total.f1 is not None and total.f1 > total.all_positive_f1


def _markdown(found: Calibration) -> str:
    tables = [threshold_rows(found), evaluation_rows(found)]
    return "\n\n".join(
        markdown_table(list(rows[0]), [["–" if cell is None else str(cell) for cell in row.values()] for row in rows])
        for rows in tables
        if rows
    )
