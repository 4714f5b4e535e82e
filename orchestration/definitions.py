"""All definitions that Dagster loads."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

import assets
from assets.catalogue import catalogued
from assets.curation import Curation
from assets.results import Results
from orchestration.at_work import run_at_work
from orchestration.dead_runs import LEASED, hold_lease
from orchestration.jobs import (
    calibration_job,
    dataset_job,
    facts_job,
    ingest_job,
    prune_job,
    scoring_job,
    subset_job,
)
from orchestration.platform import installed, keep_connected
from orchestration.schedules import prune_weekly, score_missing
from orchestration.sensors.conclusions import conclusions
from orchestration.sensors.failures import failures
from orchestration.sensors.inbox import inbox
from orchestration.settings import settings
from orchestration.terminal import LOGGER, terminal_logger

# The resource that assets, checks, schedules and sensors ask for: the name of a parameter of their functions.
CURATION = "curation"


@dg.resource(description="Database, scorers and folders of this installation.")
def curation_of_run(context: dg.InitResourceContext) -> Iterator[Curation]:
    """The resource that every run asks for; nobody drops or renames the run's dataset meanwhile.

    For a run that Dagster started it holds the run's lease until the process ends. A command holds that itself.
    """
    run, found = context.run, installed().curation
    if run is not None and context.instance is not None and run.tags.get(LEASED) != run.run_id:
        keep_connected(context.instance)
        hold_lease(context.instance, found.engine.url, run.run_id)
        found.results = Results()
    with run_at_work(found, context):
        yield found


def of_datasets() -> dg.Definitions:
    """What is made of datasets: assets, and the jobs, schedules and sensors over them. Fits into any instance."""
    return dg.Definitions.merge(
        catalogued(dg.load_definitions_from_package_module(assets), settings().owners),
        dg.Definitions(
            jobs=[ingest_job, scoring_job, facts_job, calibration_job, dataset_job, subset_job],
            schedules=[score_missing],
            sensors=[inbox, conclusions],
        ),
    )


@dg.definitions
def defs() -> dg.Definitions:
    """The above with what looks after a whole instance, and the resource of runs that this installation follows."""
    return dg.Definitions.merge(
        of_datasets(),
        dg.Definitions(
            jobs=[prune_job],
            schedules=[prune_weekly],
            sensors=[failures],
            # All steps in the run's own process, where models stay loaded. Also for runs without a job of ours, as the
            # interface starts them for a choice of assets.
            executor=dg.in_process_executor,
            resources={CURATION: curation_of_run},
            loggers={LOGGER: terminal_logger, "console": dg.colored_console_logger},
        ),
    )
