"""The inbox: a manifest folder put into HOME/inbox/DATASET is ingested as that dataset."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg

from assets.curation import Curation
from assets.ingest.readers import ManifestError, find_tables
from assets.partitions import DATASETS
from orchestration.jobs import ingest_job

# A folder that changed a moment ago may still be on its way.
SETTLED_AFTER_S = 10.0
DATASET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dg.sensor(job=ingest_job, minimum_interval_seconds=30)
def inbox(
    context: dg.SensorEvaluationContext, curation: dg.ResourceParam[Curation]
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Ask for an ingest of every folder in the inbox that changed since it was last ingested."""
    asked = False
    for folder in sorted(path for path in curation.folder("inbox").iterdir() if path.is_dir()):
        if not DATASET_NAME.fullmatch(folder.name):
            context.log.warning(f"inbox folder {folder.name!r} is left alone: use letters, digits, _, . and - only")
            continue
        try:
            changed = newest_change(folder)
        except ManifestError as error:
            context.log.warning(str(error))
            continue
        if time.time() - changed < SETTLED_AFTER_S:
            continue
        asked = True
        context.instance.add_dynamic_partitions(str(DATASETS.name), [folder.name])
        yield dg.RunRequest(
            run_key=f"{folder.name}:{changed}",
            partition_key=folder.name,
            run_config={"ops": {"ingest": {"config": {"folder": str(folder)}}}},
        )
    if not asked:
        yield dg.SkipReason("no folder in the inbox has settled")


def newest_change(folder: Path) -> float:
    """When one of the folder's tables last changed, in seconds of the epoch; ManifestError when it is no manifest."""
    return max(path.stat().st_mtime for path in find_tables(folder).values())


SENSORS = [
    inbox,
    dg.AutomationConditionSensorDefinition(
        "conclusions", target=dg.AssetSelection.groups("thresholds", "selection", "reports")
    ),
]
