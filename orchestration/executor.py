"""How runs are executed, whoever starts them: in one process, on connections to Dagster's database that stay open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import dagster as dg

# None of these has a public place.
from dagster._core.execution.context.system import PlanOrchestrationContext
from dagster._core.execution.plan.plan import ExecutionPlan
from dagster._core.executor.in_process import InProcessExecutor
from dagster_postgres import PostgresEventLogStorage, PostgresRunStorage
from dagster_postgres.utils import create_pg_engine

from orchestration.dead_runs import hold_lease


def keep_connected(instance: dg.DagsterInstance) -> None:
    """Let the instance use connections again that it has.

    By itself it opens a new one for every statement: more than four for each event of a run, of some milliseconds each.
    """
    for storage in (instance.event_log_storage, instance.run_storage):
        if isinstance(storage, PostgresEventLogStorage | PostgresRunStorage):
            storage._engine = create_pg_engine(
                storage.postgres_url, isolation_level="AUTOCOMMIT", pool_size=1, max_overflow=10, pool_pre_ping=True
            )


class _OneProcess(InProcessExecutor):
    """Dagster's own executor, in a run that others can tell from a dead one."""

    def execute(
        self, plan_context: PlanOrchestrationContext, execution_plan: ExecutionPlan
    ) -> Iterator[dg.DagsterEvent]:
        hold_lease(plan_context.instance, plan_context.run_id)
        return super().execute(plan_context, execution_plan)


def _executor(context: dg.InitExecutorContext) -> dg.Executor:
    keep_connected(context.instance)
    create: Any = dg.in_process_executor.executor_creation_fn
    plain = cast("InProcessExecutor", create(context))
    return _OneProcess(plain.retries, plain.step_dependency_config, plain.marker_to_close)


in_this_process = dg.ExecutorDefinition(
    name="in_this_process",
    # The schema of Dagster's own executor, which this one is; the type stub knows only schemas that users write.
    config_schema=cast(Any, dg.in_process_executor.config_schema),
    executor_creation_fn=_executor,
    description="All steps in the run's own process: a step in a process of its own would load torch again.",
)
