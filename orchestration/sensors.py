"""The inbox: a manifest folder put into HOME/inbox/DATASET is ingested as that dataset."""

import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg

from assets.curation import Curation
from assets.datasets import BadDatasetName, check_dataset_name
from assets.ingest.dimensions import DIMENSIONS_FILE
from assets.ingest.files import file_in, readable
from assets.ingest.readers import ManifestError, find_tables
from assets.partitions import DATASETS
from db.fingerprint import fingerprint
from orchestration.jobs import ingest_job

# A folder that changed a moment ago may still be on its way.
SETTLED_AFTER_S = 10.0


@dg.sensor(
    job=ingest_job,
    minimum_interval_seconds=30,
    description="Ingests the manifest folder HOME/inbox/DATASET as that dataset, again whenever its tables changed.",
)
def inbox(
    context: dg.SensorEvaluationContext, curation: dg.ResourceParam[Curation]
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Ask for an ingest of every folder in the inbox that changed since it was last ingested."""
    asked = False
    for folder in sorted(path for path in curation.folder("inbox").iterdir() if path.is_dir()):
        try:
            check_dataset_name(folder.name, folder, curation.home)
            digest, changed = state_of_tables(folder)
        except BadDatasetName as error:
            context.log.warning(f"inbox folder {folder.name!r} is left alone: {error}")
            continue
        except ManifestError as error:
            context.log.warning(str(error))
            continue
        if time.time() - changed < SETTLED_AFTER_S:
            continue
        asked = True
        context.instance.add_dynamic_partitions(str(DATASETS.name), [folder.name])
        yield dg.RunRequest(
            run_key=f"{folder.name}:{digest}",
            partition_key=folder.name,
            run_config={"ops": {"ingest": {"config": {"folder": str(folder)}}}},
        )
    if not asked:
        yield dg.SkipReason("no folder in the inbox has settled")


def state_of_tables(folder: Path) -> tuple[str, float]:
    """A digest that changes with any of the folder's tables, and when the last of them changed in seconds of the epoch.

    Names, sizes and times go in: a table put back from a copy may be older than the others. The list of dimensions
    counts as a table. Raises ManifestError when the folder is no manifest.
    """
    paths = [*find_tables(folder).values(), file_in(folder, DIMENSIONS_FILE)]
    states = {}
    for path in filter(None, paths):
        with readable(path):
            states[path.name] = path.stat()
    digest = fingerprint({name: [state.st_size, state.st_mtime_ns] for name, state in states.items()})
    return digest, max(state.st_mtime for state in states.values())


SENSORS = [
    inbox,
    dg.AutomationConditionSensorDefinition(
        "conclusions",
        target=dg.AssetSelection.groups("thresholds", "selection", "reports"),
        description="Makes thresholds, subset, agreement and report of a dataset anew when its scores changed.",
    ),
]
