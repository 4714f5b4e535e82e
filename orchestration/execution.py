"""Executes a run in this process so that the web interface counts it among the runs of its job.

Dagster's own `execute_in_process` leaves out which code location a run belongs to. The page of a job and the timeline
list only runs that say so. None of the parts used here is public.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import dagster as dg
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import ExecuteRunWithPlanIterable, create_execution_plan, job_execution_iterator
from dagster._core.execution.context_creation_job import (
    PlanOrchestrationContextManager,
    orchestration_context_event_generator,
)
from dagster._core.execution.execute_in_process import merge_run_tags
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

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
