"""Runs of the command line: they run in this process, and their errors come out as they were raised."""

from __future__ import annotations

import os
import socket
import sys
import uuid
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from functools import lru_cache, partial
from typing import Any, TextIO, cast

import dagster as dg
from dagster import DagsterUserCodeExecutionError
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.errors import DagsterAssetCheckFailedError, DagsterExecutionInterruptedError
from dagster._core.execution.api import ExecuteRunWithPlanIterable, create_execution_plan, job_execution_iterator
from dagster._core.execution.context_creation_job import (
    PlanOrchestrationContextManager,
    orchestration_context_event_generator,
)
from dagster._core.execution.execute_in_process import merge_run_tags
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

from assets.partitions import range_tags
from assets.scores.registry import source_kinds
from db.server.leases import lease
from orchestration.dead_runs import LEASED, close_dead_runs, lease_name, ledger
from orchestration.definitions import defs
from orchestration.platform import instance
from orchestration.requests import MAX_RETRIES
from orchestration.terminal import LOGGER, WithoutOutages
from orchestration.waiting import HOST, PID, watching

# Executes a run in this process so that the web interface counts it among the runs of its job.

# The module that the web interface loads, and the name that Dagster gives to the definitions in it.
LOCATION = "orchestration.definitions"
REPOSITORY = "__repository__"


def execute(
    instance: dg.DagsterInstance,
    job: dg.JobDefinition,
    run_id: str,
    run_config: Mapping[str, Any],
    assets: Sequence[dg.AssetKey],
    tags: Mapping[str, str],
    partition: str | None,
) -> dg.ExecuteInProcessResult:
    """Execute a job, or of its assets the chosen ones, in this process; errors of the assets are raised.

    partition: None where the tags name a range of partitions.
    """
    chosen = InMemoryJob(job_def=job.as_ephemeral_job({}, {}, asset_selection=assets))
    plan = create_execution_plan(chosen, run_config=run_config, instance_ref=instance.get_ref())
    run = instance.create_run_for_job(
        job_def=chosen.get_definition(),
        run_config=run_config,
        tags=merge_run_tags(job, partition, tags, assets, instance, run_config),
        run_id=run_id,
        asset_selection=frozenset(assets),
        execution_plan=plan,
        remote_job_origin=origin_of(job.name),
    )
    captured: dict[Any, Any] = {}
    events = ExecuteRunWithPlanIterable(
        execution_plan=plan,
        iterator=job_execution_iterator,
        execution_context_manager=PlanOrchestrationContextManager(
            context_event_generator=orchestration_context_event_generator,
            job=chosen,
            execution_plan=plan,
            dagster_run=run,
            instance=instance,
            run_config=run_config,
            executor_defs=None,
            output_capture=captured,
            raise_on_error=True,
        ),
    )
    return dg.ExecuteInProcessResult(
        job_def=chosen.get_definition(),
        event_list=list(events),
        dagster_run=cast("dg.DagsterRun", instance.get_run_by_id(run_id)),
        output_capture=captured,
    )


def origin_of(job: str) -> RemoteJobOrigin:
    """The job as the web interface knows it."""
    return RemoteJobOrigin(RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(LOCATION), REPOSITORY), job)


# Neither has a public place.


class CheckFailed(RuntimeError):
    """A blocking check of a run failed; the scores are kept, and the message says where to look."""

    plain = True


# The tag of a run that did all its work although a check failed, unlike one that was cut short.
CHECK_FAILED = "dagster/reelsieve_check_failed"


def run_job(
    name: str,
    partition: str,
    run_config: Mapping[str, Any],
    assets: list[str] | None = None,
    through: str | None = None,
) -> dg.ExecuteInProcessResult:
    """Run a job in this process; an asset's own error comes out as it was raised.

    through: the last partition of a range that begins with `partition`; without it the run has one partition.
    Raises CheckFailed for a blocking check, and KeyboardInterrupt where the run was stopped by hand.
    """
    close_dead_runs(instance())
    run_id = str(uuid.uuid4())
    try:
        return _execute(run_id, name, partition, run_config, assets, through)
    except DagsterUserCodeExecutionError as error:
        raised = error.user_exception
    except DagsterAssetCheckFailedError as error:
        instance().add_run_tags(run_id, {CHECK_FAILED: "yes"})
        reason = " ".join(str(error).split())
        raised = CheckFailed(f"a blocking check failed, the scores are kept: {reason}; look at it with reelsieve ui")
    except DagsterExecutionInterruptedError:
        raised = KeyboardInterrupt()
    # Raised outside the handlers, so that Dagster's error does not become its context.
    raise raised


def options_by_source(metrics: Sequence[str], options: Mapping[str, bool]) -> dict[str, Any]:
    """The run configuration that gives each option to the sources that know it."""
    by_asset = {
        asset: {name: value for name, value in options.items() if name in kind.options}
        for asset, kind in source_kinds(metrics).items()
    }
    return {"ops": {asset: {"config": known} for asset, known in by_asset.items() if known}}


@lru_cache(maxsize=1)
def definitions() -> dg.Definitions:
    """The project's definitions, made once per process."""
    return defs()


def _execute(
    run_id: str,
    name: str,
    partition: str,
    run_config: Mapping[str, Any],
    assets: list[str] | None,
    through: str | None,
) -> dg.ExecuteInProcessResult:
    close = partial(close_dead_runs, instance())
    # Held before others can see the run, so that nobody takes it for dead.
    quiet = redirect_stderr(cast(TextIO, WithoutOutages(sys.stderr)))
    with lease(ledger(), lease_name(run_id)) as held, watching(run_id, held, close), quiet:
        return execute(
            instance(),
            definitions().resolve_job_def(name),
            run_id,
            {**run_config, "loggers": {LOGGER: {"config": {}}}},
            [dg.AssetKey(asset) for asset in assets or []],
            {**own_tags(run_id), **(range_tags(partition, through) if through else {})},
            None if through else partition,
        )


def own_tags(run_id: str) -> dict[str, str]:
    """Who executes the run. It is not retried by Dagster's daemon: the command said how it ended."""
    return {HOST: socket.gethostname(), PID: str(os.getpid()), LEASED: run_id, MAX_RETRIES: "0"}
