"""Thresholds of ECS as an asset: calibrated on labels, in force for scores from then on."""

import dagster as dg

from assets.curation import Curation
from assets.datasets import dataset_of_key
from assets.ecs.calibrate import TOTAL, Calibration, Part, calibrate
from assets.ecs.scorer import ECSScorer
from assets.ecs.tables import evaluation_rows, threshold_rows
from assets.ecs.verdicts import KeypointVerdicts
from assets.lineage import of_all_partitions
from assets.partitions import DATASETS
from assets.reports.tables import markdown_table
from metrics_core.calibration.result import Objective

# Where the command line finds the tables among the run's metadata.
REPORT = "calibration"
BETTER = "better_than_always_yes"


class CalibrationConfig(dg.Config):
    """What a threshold is best for, and on which labels: those of a fifth of the videos, or all."""

    objective: Objective = "f1"
    labels: Part = "calibration"


@dg.asset(
    group_name="thresholds",
    partitions_def=DATASETS,
    deps=[of_all_partitions(KeypointVerdicts.asset), "keypoint_label"],
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
    found = calibrate(curation.engine, curation.scorers[ECSScorer.metric], dataset, config.objective, config.labels)
    for warning in found.warnings:
        context.log.warning(warning)
    report = {
        "objective": found.objective,
        "labels": found.part,
        "thresholds": threshold_rows(found),
        "evaluation": evaluation_rows(found),
        "shard_thresholds": found.n_shard_thresholds,
        "warnings": found.warnings,
    }
    check = dg.AssetCheckResult(
        check_name=BETTER, passed=_is_better_than_always_yes(found), severity=dg.AssetCheckSeverity.WARN
    )
    metadata = {"thresholds": dg.MetadataValue.md(_markdown(found)), REPORT: dg.MetadataValue.json(report)}
    return dg.MaterializeResult(metadata=metadata, check_results=[check])


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
