"""All sensors: inbox, conclusions and failures; and when work that failed is tried again."""

import json
import os
import shlex
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

import dagster as dg

from assets.curation import Curation
from assets.datasets import BadDatasetName, check_dataset_name
from assets.ingest.dimensions import DIMENSIONS_FILE
from assets.ingest.files import file_in, readable
from assets.ingest.manifest import find_tables
from assets.ingest.rejects import ManifestError
from assets.partitions import DATASET, DATASETS, partitions_named
from assets.scores.registry import SCORERS, asset_name
from db.manifest.datasets import list_datasets
from db.scores.quality import has_good_score
from orchestration.attempts import LIMIT, Attempts
from orchestration.conclusions import newest, of_dataset
from orchestration.dead_runs import close_dead_runs
from orchestration.jobs import CONCLUSIONS, dataset_job, ingest_job
from orchestration.passwords import without_passwords
from orchestration.requests import busy_datasets
from orchestration.settings import settings

# Conclusions follow the scores: thresholds, agreement and report of a dataset whose scores are newer.

# The newest event that a run of conclusions knows of: a failed run is tried again, newer scores are not its failures.
KNOWS = ".dagster/reelsieve_knows"
# What people said is read by agreement and report as well.
JUDGEMENTS = ("rating", "keypoint_label")


@dg.sensor(
    job=dataset_job,
    minimum_interval_seconds=60,
    description="Draws the conclusions of a dataset anew when it has newer scores, and no run of it is under way.",
)
def conclusions(
    context: dg.SensorEvaluationContext, curation: dg.ResourceParam[Curation]
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Ask for the conclusions of every dataset whose scores, ratings or labels are newer than they are."""
    close_dead_runs(context.instance, curation.engine.url)
    asked = False
    busy = busy_datasets(context.instance)
    known = newest(context.instance, [*map(asset_name, SCORERS), *JUDGEMENTS])
    drawn = newest(context.instance, CONCLUSIONS)
    with curation.engine.connect() as connection:
        for dataset in list_datasets(connection):
            latest = of_dataset(known, dataset, latest=True)
            if dataset.name in busy or latest <= of_dataset(drawn, dataset, latest=False):
                continue
            if not has_good_score(connection, dataset.dataset_id):
                continue
            tags = {KNOWS: f"{dataset.name}:{latest}"}
            attempts = Attempts.of(context.instance, dataset_job.name, tags)
            if attempts.n_failed >= LIMIT:
                context.log.warning(f"conclusions of {dataset.name} failed {LIMIT} times: they wait for newer scores")
            if attempts.is_due(datetime.now(timezone.utc)):
                asked = True
                key = f"{dataset.name}:{latest}:{attempts.n_failed}"
                yield dg.RunRequest(run_key=key, partition_key=dataset.name, tags={**tags, DATASET: dataset.name})
    if not asked:
        yield dg.SkipReason("no dataset has newer scores than conclusions")


# Tells of runs that failed: by a command of the user's, by a message to a URL of the user's, or by both.

PATIENCE_S = 20
# A message is read by a person; the run in the web interface has the whole error.
LENGTH = 2000


class NotDelivered(RuntimeError):
    """A notice that did not arrive; the message names the variable to look at, and no URL."""

    plain = True


@dg.run_failure_sensor(
    name="failures",
    monitor_all_code_locations=True,
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=30,
    description="Calls REELSIEVE_FAILURE_COMMAND or posts to REELSIEVE_FAILURE_URL when a run failed.",
)
def failures(context: dg.RunFailureSensorContext) -> None:
    """Tell of one failed run. Raises NotDelivered."""
    chosen = settings()
    if chosen.failure_command:
        call(chosen.failure_command, notice(context))
    if chosen.failure_url:
        post(chosen.failure_url.get_secret_value(), notice(context))


def notice(context: dg.RunFailureSensorContext) -> dict[str, str]:
    """What is told: run, job, partitions, and the error of the first step that failed, without passwords."""
    run = context.dagster_run
    of_steps = [_message(event) for event in context.get_step_failure_events()]
    error = without_passwords((of_steps[0] if of_steps else context.failure_event.message or "").strip())[:LENGTH]
    work = f"{run.job_name} of {partitions_named(run.tags)}"
    return {"run_id": run.run_id, "job": run.job_name, "partitions": partitions_named(run.tags), "error": error} | {
        # The key that chat services show.
        "text": f"Reelsieve: {work} failed: {error}"
    }


def call(command: str, told: dict[str, str]) -> None:
    """Run a command, without a shell, with the notice as JSON on its standard input."""
    try:
        done = subprocess.run(
            shlex.split(command), input=json.dumps(told), text=True, capture_output=True, timeout=PATIENCE_S
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise NotDelivered(f"REELSIEVE_FAILURE_COMMAND cannot be run: {type(error).__name__}") from None
    if done.returncode:
        raise NotDelivered(f"the command of REELSIEVE_FAILURE_COMMAND ended with exit code {done.returncode}")


def post(url: str, told: dict[str, str]) -> None:
    """Send the notice as JSON. A redirect is not followed: the notice is meant for this address alone."""
    # Their own messages hold the URL, so they are not passed on.
    try:
        request = urllib.request.Request(url, json.dumps(told).encode(), {"Content-Type": "application/json"})
        if request.type not in ("http", "https"):
            raise NotDelivered("REELSIEVE_FAILURE_URL is no address of a web server: it must begin with https://")
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=PATIENCE_S):
            return
    except urllib.error.HTTPError as error:
        why = f"answered with status {error.code}"
    except (OSError, ValueError) as error:
        why = f"does not answer ({type(error).__name__})"
    raise NotDelivered(f"the server of REELSIEVE_FAILURE_URL {why}")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _message(event: dg.DagsterEvent) -> str:
    error = event.step_failure_data.error
    # The asset's own error; the one around it is Dagster's.
    return "" if error is None else (error.cause or error).message


# A folder that changed a moment ago may still be on its way.
SETTLED_AFTER_S = 10.0
# The state of a folder that a run ingests.
STATE = ".dagster/reelsieve_inbox"


@dg.sensor(
    job=ingest_job,
    minimum_interval_seconds=30,
    description="Ingests the manifest folder HOME/inbox/DATASET as that dataset, again whenever a file in it changed.",
)
def inbox(
    context: dg.SensorEvaluationContext, curation: dg.ResourceParam[Curation]
) -> Iterator[dg.RunRequest | dg.SkipReason]:
    """Ask for an ingest of every folder in the inbox that changed since it was last ingested, or failed to be."""
    close_dead_runs(context.instance, curation.engine.url)
    asked = False
    for folder in sorted(path for path in curation.folder("inbox").iterdir() if path.is_dir()):
        try:
            check_dataset_name(folder.name, folder, curation.home)
            digest, changed = state_of_folder(folder)
        except BadDatasetName as error:
            context.log.warning(f"inbox folder {folder.name!r} is left alone: {error}")
            continue
        except ManifestError as error:
            context.log.warning(str(error))
            continue
        if time.time() - changed < SETTLED_AFTER_S:
            continue
        tags = {STATE: f"{folder.name}:{digest}"}
        attempts = Attempts.of(context.instance, ingest_job.name, tags)
        if attempts.n_failed >= LIMIT:
            context.log.warning(f"inbox folder {folder.name!r} failed {LIMIT} times: it is tried again once it changed")
        if attempts.is_due(datetime.now(timezone.utc)):
            asked = True
            context.instance.add_dynamic_partitions(str(DATASETS.name), [folder.name])
            yield dg.RunRequest(
                # Dagster starts no second run of a key, so every attempt has its own.
                run_key=f"{folder.name}:{digest}:{attempts.n_failed}",
                partition_key=folder.name,
                run_config={"ops": {"ingest": {"config": {"folder": str(folder)}}}},
                tags={**tags, DATASET: folder.name},
            )
    if not asked:
        yield dg.SkipReason("no folder in the inbox has changed and settled")


def state_of_folder(folder: Path) -> tuple[str, float]:
    """A digest that changes with any file below a folder, and when the last of them changed in seconds of the epoch.

    Media count like tables: a row whose file came too late was refused, and the next ingest accepts it. Names, sizes
    and times go in, no content. Raises ManifestError when the folder is no manifest.
    """
    for path in filter(None, [*find_tables(folder).values(), file_in(folder, DIMENSIONS_FILE)]):
        with readable(path):
            path.stat()
    states = sorted(_files(folder))
    digest = sha256(repr(states).encode("utf-8", "surrogateescape")).hexdigest()
    return digest, max(changed_ns for _, _, changed_ns in states) / 1e9


def _files(folder: Path) -> Iterator[tuple[str, int, int]]:
    """Path in the folder, size in bytes and time of change in nanoseconds of every file; some may vanish meanwhile."""
    for where, _, names in os.walk(folder):
        for name in names:
            path = Path(where, name)
            try:
                state = path.stat()
            except FileNotFoundError:
                continue
            yield str(path.relative_to(folder)), state.st_size, state.st_mtime_ns
