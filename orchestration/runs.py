"""Runs of the command line: they run in this process, and any host can tell dead runs from live ones and close them."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import dagster as dg
from dagster import DagsterUserCodeExecutionError

# Neither has a public place.
from dagster._core.errors import DagsterAssetCheckFailedError, DagsterExecutionInterruptedError
from sqlalchemy.engine import URL

from db.leases import lease, lease_if_free
from db.server import DAGSTER, is_alive, sibling_url
from orchestration.definitions import defs
from orchestration.platform import database_url, instance
from orchestration.terminal import LOGGER
from orchestration.waiting import HOST, PID, watching

LEASED = "reelsieve/leased"
_UNENDED = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


class CheckFailed(RuntimeError):
    """A blocking check of a run failed; the scores are kept, and the message says where to look."""

    plain = True


def run_job(
    name: str, partition: str, run_config: Mapping[str, Any], assets: list[str] | None = None
) -> dg.ExecuteInProcessResult:
    """Run a job in this process; an asset's own error comes out as it was raised.

    Raises CheckFailed for a blocking check, and KeyboardInterrupt where the run was stopped by hand.
    """
    close_dead_runs()
    try:
        return _execute(name, partition, run_config, assets)
    except DagsterUserCodeExecutionError as error:
        raised = error.user_exception
    except DagsterAssetCheckFailedError as error:
        reason = " ".join(str(error).split())
        raised = CheckFailed(f"a blocking check failed, the scores are kept: {reason}; look at it with reelsieve ui")
    except DagsterExecutionInterruptedError:
        raised = KeyboardInterrupt()
    # Raised outside the handlers, so that Dagster's error does not become its context.
    raise raised


def close_dead_runs() -> None:
    """Mark runs of the command line whose process is gone as failed, and free their places at the encoder.

    A run that holds its lease is alive, on any host. Dagster itself watches the runs of the web interface.
    """
    for run in instance().get_runs(dg.RunsFilter(statuses=_UNENDED)):
        if LEASED in run.tags:
            with lease_if_free(_ledger(), lease_name(run.run_id)) as is_dead:
                if is_dead:
                    _close(run.run_id)
        elif HOST in run.tags and _has_died_here(run):
            _close(run.run_id)
    # Dagster's daemon frees the places of the web interface's runs too, but only while it runs.
    for run_id in instance().event_log_storage.get_concurrency_run_ids():
        holder = instance().get_run_by_id(run_id)
        if holder is None or holder.is_finished:
            instance().event_log_storage.free_concurrency_slots_for_run(run_id)


def lease_name(run_id: str) -> str:
    """The name of the lease that a run's process holds while it executes it."""
    return f"run {run_id}"


@lru_cache(maxsize=1)
def definitions() -> dg.Definitions:
    """The project's definitions, made once per process."""
    return defs()


def _execute(
    name: str, partition: str, run_config: Mapping[str, Any], assets: list[str] | None
) -> dg.ExecuteInProcessResult:
    run_id = str(uuid.uuid4())
    # Held before others can see the run, so that nobody takes it for dead.
    with lease(_ledger(), lease_name(run_id)) as held, watching(run_id, held, close_dead_runs):
        return (
            definitions()
            .resolve_job_def(name)
            .execute_in_process(
                run_config={**run_config, "loggers": {LOGGER: {"config": {}}}},
                instance=instance(),
                partition_key=partition,
                tags={HOST: socket.gethostname(), PID: str(os.getpid()), LEASED: "yes"},
                asset_selection=[dg.AssetKey(asset) for asset in assets] if assets else None,
                run_id=run_id,
            )
        )


def _close(run_id: str) -> None:
    run = instance().get_run_by_id(run_id)
    # It may have ended well since it was listed.
    if run is not None and not run.is_finished:
        instance().report_run_failed(run, "its process ended before it did")
        instance().event_log_storage.free_concurrency_slots_for_run(run_id)


def _has_died_here(run: dg.DagsterRun) -> bool:
    """Whether a run of a version without leases ran on this host, in a process that is gone.

    In a container the next process soon gets the id of the dead one, so this process's own id counts as gone too.
    """
    pid = int(run.tags[PID])
    return run.tags[HOST] == socket.gethostname() and (pid == os.getpid() or not is_alive(pid))


def _ledger() -> URL:
    """Dagster's database: advisory locks belong to one database, and several curation databases may share Dagster's."""
    return sibling_url(database_url(), DAGSTER)
