"""The thresholds of ECS as an asset: chosen on labels, and in force for all later scores."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import dagster as dg
from pydantic import Field

from assets.curation import Curation
from assets.datasets import dataset_of_key
from assets.ecs.calibrate import TOTAL, Calibration, Part, calibrate
from assets.ecs.calibration_tables import evaluation_rows, threshold_rows
from assets.ecs.labelling import Labelled, Labeller
from assets.ecs.scorer import ECSScorer
from assets.ecs.verdicts import KeypointVerdicts
from assets.leases import leased
from assets.lineage import of_all_partitions
from assets.partitions import DATASETS
from assets.progress import sparsely
from assets.reports.labels import model_names
from assets.reports.tables import markdown_table
from assets.reports.text import cell, number, plural
from db.evidence.verdicts import MANIFEST_LABELS
from db.manifest.datasets import Dataset
from metrics_core.calibration.result import Objective

# The name of the metadata in which the command line finds the tables.
REPORT = "calibration"
BETTER = "better_than_always_yes"
# The work that one process at a time does on a dataset, see assets/leases.py.
LABELLING = "labels of the judge"
_PARTS = {"calibration": "a fifth of the videos", "all": "all videos"}
_HEADINGS = {
    "low": "95 % from",
    "high": "to",
    "positive": "covered",
    "f1": "F1",
    "pooled": "chosen on all dimensions",
    "majority": "accuracy of the commoner answer",
    "all_positive_f1": "F1 if always yes",
    "mcc": "Matthews correlation",
}


class CalibrationConfig(dg.Config):
    """How thresholds are chosen: the objective, and the labels of a fifth of the videos or of all videos.

    judge: choose on a judge's labels, which are made first, instead of people's. judge_limit: the most captions judged.
    """

    objective: Objective = "f1"
    labels: Part = "calibration"
    judge: bool = False
    judge_limit: int | None = Field(default=None, ge=1)


@dg.asset(
    # Beside the verdicts: scores rest on them, and what rests on scores is the group `thresholds`.
    group_name=KeypointVerdicts.group,
    partitions_def=DATASETS,
    deps=[of_all_partitions(KeypointVerdicts.asset), "keypoint_label"],
    kinds={"postgres", "numpy"},
    check_specs=[
        dg.AssetCheckSpec(
            BETTER,
            asset="ecs_thresholds",
            partitions_def=DATASETS,
            description="On the labels of the other videos F1 is higher than if every answer were yes.",
        )
    ],
)
def ecs_thresholds(
    context: dg.AssetExecutionContext, config: CalibrationConfig, curation: dg.ResourceParam[Curation]
) -> dg.MaterializeResult:
    """The least probability of a covered keypoint, by dimension, chosen on labels. Scores change with it."""
    dataset = dataset_of_key(curation.engine, context.partition_key)
    scorer = cast(ECSScorer, curation.scorers[ECSScorer.metric])
    judged = _judged(context, curation, scorer.labeller, dataset, config.judge_limit) if config.judge else None
    source = scorer.labeller.source if judged else MANIFEST_LABELS
    calibration = calibrate(curation.engine, scorer, dataset, config.objective, config.labels, source)
    for warning in calibration.warnings:
        context.log.warning(warning)
    report = {
        "objective": calibration.objective,
        "labels": calibration.part,
        "labels_of": calibration.source,
        "judged": dict(judged.counts) if judged else None,
        "thresholds": threshold_rows(calibration),
        "evaluation": evaluation_rows(calibration),
        "shard_thresholds": calibration.n_shard_thresholds,
        "warnings": calibration.warnings,
    }
    check = dg.AssetCheckResult(
        check_name=BETTER,
        passed=_is_better_than_always_yes(calibration),
        severity=dg.AssetCheckSeverity.WARN,
        description=_beside_always_yes(calibration),
    )
    metadata: dict[str, Any] = {
        "chosen": f"for the best {calibration.objective} on the labels of {_PARTS[calibration.part]}",
        "thresholds": dg.MetadataValue.md(_markdown(calibration)),
        "verdicts by": model_names(scorer.models()),
        REPORT: dg.MetadataValue.json(report),
    }
    return dg.MaterializeResult(metadata=metadata, check_results=[check])


def _judged(
    context: dg.AssetExecutionContext, curation: Curation, labeller: Labeller, dataset: Dataset, limit: int | None
) -> Labelled:
    """Have the judge label at most `limit` captions of a dataset."""
    datasets = [context.partition_key]
    say = context.log.info
    for _, tell in leased(curation.engine, LABELLING, datasets, say, sparsely(say)):
        judged = labeller.label(curation.engine, dataset, run_id=context.run.run_id, tell=tell, limit=limit)
    if judged.why:
        n = sum(int(judged.counts[status]) for status in ("failed", "refused"))
        context.log.warning(f"{n} captions have no labels of the judge, the first for this reason: {judged.why}")
    return judged


def _is_better_than_always_yes(calibration: Calibration) -> bool:
    """Whether F1 is higher than if every answer were yes; True where there is no label to compare with."""
    total = calibration.evaluated.get(TOTAL)
    if total is None or total.all_positive_f1 is None:
        return True
    return total.f1 is not None and total.f1 > total.all_positive_f1


def _beside_always_yes(calibration: Calibration) -> str:
    """Say F1 on the other videos, and what it would be if every answer were yes."""
    total = calibration.evaluated.get(TOTAL)
    if total is None or total.all_positive_f1 is None:
        return "No labels of other videos are left to compare with."
    n, f1, always = plural(total.n, "label"), number(total.f1, 3), number(total.all_positive_f1, 3)
    return f"On {n} of the other videos F1 is {f1}; it would be {always} if every answer were yes."


def _markdown(calibration: Calibration) -> str:
    tables = [threshold_rows(calibration), evaluation_rows(calibration)]
    return "\n\n".join(_table(rows) for rows in tables if rows)


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    header = [_HEADINGS.get(name, name) for name in rows[0]]
    return markdown_table(header, [[cell(each) for each in row.values()] for row in rows])
