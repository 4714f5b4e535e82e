"""Runs of the command line: they run in this process, and their errors come out as they were raised."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from functools import lru_cache
from typing import Any, TextIO, cast

import dagster as dg

from assets.partitions import range_tags
from assets.results import Results, ShardsFailed
from assets.scores.registry import source_kinds
from db.server.leases import lease
from orchestration.dead_runs import close_dead_runs, lease_name, ledger, own_tags
from orchestration.definitions import defs
from orchestration.platform import installed
from orchestration.terminal import LOGGER, WithoutOutages
from orchestration.waiting import watching

# The tag of a run in which shards failed: their partition keys. The others were done.
FAILED = "failed_shards"


class RunFailed(RuntimeError):
    """A run that ended badly without a user's mistake behind it; the message says where to look."""


def run_job(
    name: str,
    partition: str,
    run_config: Mapping[str, Any],
    assets: list[str] | None = None,
    through: str | None = None,
) -> dg.ExecuteInProcessResult:
    """Run a job, or of its assets the chosen ones, in this process; an asset's own error comes out as it was raised.

    through: the last partition of a range that begins with `partition`; without it the run has one partition.
    Raises CheckFailed for a blocking check, and KeyboardInterrupt where the run was stopped by hand.
    """
    results = Results()
    done = execute(name, partition, run_config, assets, through or partition, results)
    if error := results.error():
        raise error
    return done


def execute(
    name: str, first: str, run_config: Mapping[str, Any], assets: list[str] | None, last: str, results: Results
) -> dg.ExecuteInProcessResult:
    """Run a job over the partitions from first to last. Shards that failed are noted in `results`, not raised."""
    close_dead_runs(installed().instance)
    run_id = str(uuid.uuid4())
    errors: list[BaseException] = []

    @dg.failure_hook
    def keep_error(context: dg.HookContext) -> None:
        if context.op_exception is not None:
            errors.append(context.op_exception)

    installed().curation.results = results
    quiet = redirect_stderr(cast(TextIO, WithoutOutages(sys.stderr)))
    # Held before others can see the run, so that nobody takes it for dead.
    with lease(ledger(), lease_name(run_id)) as held, watching(run_id, held), quiet:
        done = (
            definitions()
            .resolve_job_def(name)
            .with_hooks({keep_error})
            .execute_in_process(
                {**run_config, "loggers": {LOGGER: {"config": {}}}},
                installed().instance,
                asset_selection=[dg.AssetKey(asset) for asset in assets or []],
                tags={**own_tags(run_id), **range_tags(first, last)},
                run_id=run_id,
                # One step that fails keeps no other one from being done, unless that rests on it.
                raise_on_error=False,
            )
        )
    failed = results.failed()
    if failed:
        installed().instance.add_run_tags(run_id, {FAILED: ",".join(failed)})
    unforeseen = [error for error in errors if not (failed and isinstance(error, ShardsFailed | dg.DagsterError))]
    if unforeseen:
        raise unforeseen[0]
    if not done.success and not errors:
        raise _interrupt(done)
    return done


def _interrupt(done: dg.ExecuteInProcessResult) -> BaseException:
    """What ended a run although no step failed; Dagster only notes it."""
    error = done.get_run_failure_event().job_failure_data.error
    if error is not None and error.cls_name in (
        KeyboardInterrupt.__name__,
        dg.DagsterExecutionInterruptedError.__name__,
    ):
        return KeyboardInterrupt()
    return RunFailed(f"run {done.run_id[:8]} ended before its steps did: look at it with reelsieve ui")


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
