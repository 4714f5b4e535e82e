"""Dagster runs that the command line executes in this process; their errors are raised as the assets raised them."""

from __future__ import annotations

import signal
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr
from datetime import datetime
from functools import lru_cache
from typing import Any, TextIO, cast

import dagster as dg
import psycopg
import sqlalchemy as sa
from dagster_postgres.utils import DagsterPostgresException

from assets.definitions.model_pool import MODEL_POOL
from assets.definitions.partitions import build_range_tags, format_tagged_partitions
from assets.definitions.results import RunResults, ShardsFailed
from assets.home.files import keep_files_private
from assets.metrics.registry import list_source_classes
from db.server.leases import Leases, hold_lease
from orchestration.dead_runs import (
    HOST,
    LEASE_PAUSE_S,
    PID,
    build_run_tags,
    close_dead_runs,
    lease_database_url,
    run_lease_name,
)
from orchestration.definitions import defs
from orchestration.installation import Installation
from orchestration.terminal import LOGGER_NAME, print_line

# The tag of a run with the partition keys of the shards that failed; all other shards were computed.
FAILED_SHARDS_TAG = "failed_shards"
# How Dagster's sentences begin about an event that it cannot store.
_OUTAGES = (
    "Exception while writing logger call",
    "Exception while storing event batch",
    "Falling back to storing multiple single-event storage requests",
)


class RunFailed(RuntimeError):
    """Raised when a run ended badly without a mistake of the user; the message says where to look."""


def run_job(
    installation: Installation,
    job: str,
    partition: str,
    run_config: Mapping[str, Any],
    assets: list[str] | None = None,
    last_partition: str | None = None,
    results: RunResults | None = None,
) -> dg.ExecuteInProcessResult:
    """Run a Dagster job over the partitions from `partition` to `last_partition` (default: only the first) in this
    process, and return Dagster's result. assets: names of the assets to run; None for all. results: collects their
    reports. Raises the error of the asset that failed, CheckFailed for a blocking check, and KeyboardInterrupt if
    stopped by hand.
    """
    results = results or RunResults()
    done = run_partitions(installation, job, partition, run_config, assets, last_partition or partition, results)
    if error := results.build_error():
        raise error
    return done


@contextmanager
def _keep_ctrl_c_from_children() -> Iterator[None]:
    """Start all children of this thread with SIGINT blocked: Dagster's helpers, which copy the output of a step to the
    terminal, would print a traceback. They end with the step, or within seconds of the end of this process, whose other
    threads hear of Ctrl-C.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _DagsterNoiseFilter:
    """A text stream that drops Dagster's lines on an event that it cannot store, and passes all else to `stream`. The
    error itself is raised, and the command prints it.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text to the stream, or drop it; return the number of characters taken."""
        return len(text) if text.startswith(_OUTAGES) else self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def run_partitions(
    installation: Installation,
    job: str,
    first: str,
    run_config: Mapping[str, Any],
    assets: list[str] | None,
    last: str,
    results: RunResults,
) -> dg.ExecuteInProcessResult:
    """Run a Dagster job over the partitions from first to last in this process, and return Dagster's result. assets:
    the names of the assets to run; None for all of the job. Shards that fail are noted in `results` and in a tag of the
    run; any other error of an asset is raised.
    """
    close_dead_runs(installation.instance, installation.database_url)
    run_id = str(uuid.uuid4())
    errors: list[BaseException] = []

    @dg.failure_hook
    def keep_error(context: dg.HookContext) -> None:
        if context.op_exception is not None:
            errors.append(context.op_exception)

    installation.curation.results = results
    quiet = redirect_stderr(cast(TextIO, _DagsterNoiseFilter(sys.stderr)))
    # The lease is taken before others can see the run, so that it never looks dead.
    with (
        hold_lease(lease_database_url(installation.database_url), run_lease_name(run_id)) as held,
        watch_run(installation, run_id, held),
        quiet,
        keep_files_private(),
        _keep_ctrl_c_from_children(),
    ):
        done = (
            get_definitions()
            .resolve_job_def(job)
            .with_hooks({keep_error})
            .execute_in_process(
                {**run_config, "loggers": {LOGGER_NAME: {"config": {}}}},
                installation.instance,
                asset_selection=[dg.AssetKey(asset) for asset in assets or []],
                tags={**build_run_tags(run_id), **build_range_tags(first, last)},
                run_id=run_id,
                # A step that fails stops only the steps that need its results.
                raise_on_error=False,
            )
        )
    failed = results.collect_errors()
    if failed:
        installation.instance.add_run_tags(run_id, {FAILED_SHARDS_TAG: ",".join(failed)})
    unforeseen = [error for error in errors if not (failed and isinstance(error, ShardsFailed | dg.DagsterError))]
    if unforeseen:
        raise unforeseen[0]
    if not done.success and not errors:
        raise _build_end_error(done)
    return done


def _build_end_error(done: dg.ExecuteInProcessResult) -> BaseException:
    """Return the error that ended a run although no step failed; Dagster only stores it."""
    error = done.get_run_failure_event().job_failure_data.error
    if error is not None and error.cls_name in (
        KeyboardInterrupt.__name__,
        dg.DagsterExecutionInterruptedError.__name__,
    ):
        return KeyboardInterrupt()
    return RunFailed(f"run {done.run_id[:8]} ended before its steps did: look at it with reelsieve ui")


def build_run_config(metrics: Sequence[str], options: Mapping[str, bool]) -> dict[str, Any]:
    """Return the Dagster run configuration that gives options to the sources of these metrics: every source gets the
    options that it knows, and a source that knows none is left out. options: values by name.
    """
    by_asset = {
        asset: {name: value for name, value in options.items() if name in kind.options}
        for asset, kind in list_source_classes(metrics).items()
    }
    return {"ops": {asset: {"config": known} for asset, known in by_asset.items() if known}}


@lru_cache(maxsize=1)
def get_definitions() -> dg.Definitions:
    """Return all Dagster definitions of a stand-alone installation, the same object at every call."""
    return defs()


@contextmanager
def watch_run(installation: Installation, run_id: str, held: Leases) -> Iterator[None]:
    """Renew the lease of a run in a second thread until the block ends. While the run waits for the encoder of this
    machine, print once about every run that holds it, and close dead runs that do. held: the leases, which the caller
    has taken.
    """
    ended = threading.Event()
    with ThreadPoolExecutor(1, thread_name_prefix="watch") as pool:
        watch = pool.submit(_watch_until_end, installation, run_id, held, ended)
        try:
            yield
        finally:
            ended.set()
    watch.result()


def _watch_until_end(installation: Installation, run_id: str, held: Leases, ended: threading.Event) -> None:
    announced: set[str] = set()
    while not ended.wait(LEASE_PAUSE_S):
        if not held.renew():
            continue
        try:
            if ahead := _load_runs_ahead(installation, run_id):
                close_dead_runs(installation.instance, installation.database_url)
                ahead = {
                    other: since
                    for other, since in _load_runs_ahead(installation, run_id).items()
                    if other not in announced
                }
                for other, since in ahead.items():
                    holder = _describe_run(installation, other)
                    print_line("run", f"waits for the encoder of this machine, which {holder} has held since {since}")
                announced |= ahead.keys()
        except (psycopg.OperationalError, sa.exc.DBAPIError, DagsterPostgresException):
            # The run meets the same outage at its next statement and reports it.
            continue


def _load_runs_ahead(installation: Installation, run_id: str) -> dict[str, str]:
    """Return the ids of the runs that hold the encoder while this run waits for it, with the local time since when."""
    pool = installation.instance.event_log_storage.get_concurrency_info(MODEL_POOL)
    claimed = {(slot.run_id, slot.step_key) for slot in pool.claimed_slots}
    if not any(step.run_id == run_id and (run_id, step.step_key) not in claimed for step in pool.pending_steps):
        return {}
    # A step stays listed as pending while it holds its place; the time is when the place was given to it.
    return {
        step.run_id: _format_local_time(step.assigned_timestamp)
        for step in pool.pending_steps
        if step.run_id != run_id and step.assigned_timestamp is not None
    }


def _describe_run(installation: Installation, run_id: str) -> str:
    run = installation.instance.get_run_by_id(run_id)
    if run is None:
        return f"run {run_id[:8]}, which was deleted,"
    work = f"run {run_id[:8]} ({run.job_name} of {format_tagged_partitions(run.tags)})"
    if HOST not in run.tags:
        return f"{work} of the web interface"
    return f"{work} on host {run.tags[HOST]}, process {run.tags[PID]},"


def _format_local_time(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"
