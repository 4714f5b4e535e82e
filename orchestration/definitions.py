"""All definitions that Dagster loads."""

from __future__ import annotations

import dagster as dg

import assets
from assets.catalogue import catalogued
from assets.curation import Curation
from assets.results import Results
from orchestration.dead_runs import LEASED, hold_lease
from orchestration.jobs import calibration_job, dataset_job, facts_job, ingest_job, prune_job, scoring_job
from orchestration.platform import curation, keep_connected
from orchestration.schedules import SCHEDULES
from orchestration.sensors import SENSORS
from orchestration.settings import settings
from orchestration.terminal import LOGGER, terminal_logger


@dg.resource(description="Database, scorers and folders of this installation.")
def curation_of_run(context: dg.InitResourceContext) -> Curation:
    """The resource that every run asks for. For a run that Dagster started it holds the lease until the process ends.

    A command holds the lease of its run itself.
    """
    run, found = context.run, curation()
    if run is not None and context.instance is not None and run.tags.get(LEASED) != run.run_id:
        keep_connected(context.instance)
        hold_lease(context.instance, run.run_id)
        found.results = Results()
    return found


@dg.definitions
def defs() -> dg.Definitions:
    """The assets of the room `assets` with the jobs, schedules, sensors and resources of this one."""
    return dg.Definitions.merge(
        catalogued(dg.load_definitions_from_package_module(assets), settings().owners),
        dg.Definitions(
            jobs=[ingest_job, scoring_job, facts_job, calibration_job, dataset_job, prune_job],
            schedules=SCHEDULES,
            sensors=SENSORS,
            # All steps in the run's own process, where models stay loaded. Also for runs without a job of ours, as the
            # interface starts them for a choice of assets.
            executor=dg.in_process_executor,
            resources={"curation": curation_of_run},
            loggers={LOGGER: terminal_logger, "console": dg.colored_console_logger},
        ),
    )
