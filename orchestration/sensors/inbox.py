"""The sensor that ingests the folders of the inbox, again when a file in one of them changed."""

import os
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import dagster as dg

from assets.datasets.lookup import BadDatasetName, check_dataset_name
from assets.definitions.curation import Curation
from assets.definitions.partitions import DATASET, DATASETS
from assets.ingest.declarations import DIMENSIONS_FILE, ORIGIN_FILE, SCALES_FILE
from assets.ingest.files import convert_os_errors, find_manifest_file
from assets.ingest.manifest import list_table_files
from assets.ingest.rejects import ManifestError
from orchestration.attempts import find_due_attempt
from orchestration.dead_runs import close_dead_runs
from orchestration.jobs import ingest_job

# A folder that changed a moment ago may still be copied.
SETTLED_AFTER_S = 10.0
# The state of a folder that a run ingests.
FOLDER_STATE_TAG = ".dagster/reelsieve_inbox"


@dg.sensor(
    job=ingest_job,
    minimum_interval_seconds=30,
    description="Ingests the manifest folder HOME/inbox/DATASET as that dataset, again whenever a file in it changed.",
)
def inbox(
    context: dg.SensorEvaluationContext, curation: dg.ResourceParam[Curation]
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Yield a run request for every inbox folder that changed since its last ingest or whose ingest failed, or a skip
    reason. A folder that changed in the last 10 seconds waits. An ingest that failed is tried again with growing
    pauses, up to five times.
    """
    close_dead_runs(context.instance, curation.engine.url)
    asked = False
    for folder in sorted(path for path in curation.create_folder("inbox").iterdir() if path.is_dir()):
        try:
            check_dataset_name(folder.name, folder, curation.home)
            digest, changed = compute_folder_state(folder)
        except BadDatasetName as error:
            context.log.warning(f"inbox folder {folder.name!r} is not ingested: {error}")
            continue
        except ManifestError as error:
            context.log.warning(str(error))
            continue
        if time.time() - changed < SETTLED_AFTER_S:
            continue
        tags = {FOLDER_STATE_TAG: f"{folder.name}:{digest}"}
        work = f"the ingest of inbox folder {folder.name!r}"
        until = "it is tried again once a file in the folder has changed"
        n_failed = find_due_attempt(context, ingest_job.name, tags, work, until)
        if n_failed is not None:
            asked = True
            context.instance.add_dynamic_partitions(str(DATASETS.name), [folder.name])
            yield dg.RunRequest(
                # Dagster starts no second run of a key, so every attempt has its own.
                run_key=f"{folder.name}:{digest}:{n_failed}",
                partition_key=folder.name,
                run_config={"ops": {"ingest": {"config": {"folder": str(folder)}}}},
                tags={**tags, DATASET: folder.name},
            )
    if not asked:
        yield dg.SkipReason("no folder in the inbox has changed, or the changes are less than 10 seconds old")


def compute_folder_state(folder: Path) -> tuple[str, float]:
    """Return a digest of names, sizes and times of all files below a folder, and the time of the last change in seconds
    since the epoch. Raises ManifestError for a folder that is no manifest.

    Videos count like tables: a row whose file came too late was refused, and the next ingest accepts it. The content of
    files is not read.
    """
    declared = [find_manifest_file(folder, name) for name in (DIMENSIONS_FILE, ORIGIN_FILE, SCALES_FILE)]
    for path in filter(None, [*list_table_files(folder).values(), *declared]):
        with convert_os_errors(path):
            path.stat()
    states = sorted(_list_files(folder))
    digest = sha256(repr(states).encode("utf-8", "surrogateescape")).hexdigest()
    return digest, max(changed_ns for _, _, changed_ns in states) / 1e9


def _list_files(folder: Path) -> Iterator[tuple[str, int, int]]:
    """Yield path in the folder, size in bytes and time of change in nanoseconds of every file; files that vanish
    meanwhile are left out.
    """
    for where, _, names in os.walk(folder):
        for name in names:
            path = Path(where, name)
            try:
                state = path.stat()
            except FileNotFoundError:
                continue
            yield str(path.relative_to(folder)), state.st_size, state.st_mtime_ns
