"""All definitions that Dagster loads."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

import assets
from assets.catalogue import add_catalogue_metadata
from assets.curation import Curation
from assets.results import RunResults
from orchestration.dataset_holds import hold_run_datasets
from orchestration.dead_runs import LEASED, hold_run_lease
from orchestration.installation import get_installation, reuse_connections
from orchestration.jobs import (
    calibration_job,
    dataset_job,
    facts_job,
    ingest_job,
    prune_job,
    scoring_job,
    subset_job,
)
from orchestration.schedules import prune_weekly, score_missing
from orchestration.sensors.conclusions import conclusions
from orchestration.sensors.failures import failures
from orchestration.sensors.inbox import inbox
from orchestration.settings import get_settings
from orchestration.terminal import LOGGER_NAME, terminal_logger

# The resource that assets, checks, schedules and sensors ask for: the name of a parameter of their functions.
CURATION = "curation"


@dg.resource(description="Database, scorers and folders of this installation.")
def curation_resource(context: dg.InitResourceContext) -> Iterator[Curation]:
    """The resource that every run asks for; nobody drops or renames the run's dataset meanwhile.

    For a run that Dagster started it holds the run's lease until the process ends. A command holds that itself.
    """
    run, found = context.run, get_installation().curation
    if run is not None and context.instance is not None and run.tags.get(LEASED) != run.run_id:
        reuse_connections(context.instance)
        hold_run_lease(context.instance, found.engine.url, run.run_id)
        found.results = RunResults()
    with hold_run_datasets(found, context):
        yield found


def build_dataset_definitions() -> dg.Definitions:
    """What is made of datasets: assets, and the jobs, schedules and sensors over them. Fits into any instance."""
    return dg.Definitions.merge(
        add_catalogue_metadata(dg.load_definitions_from_package_module(assets), get_settings().owners),
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
        build_dataset_definitions(),
        dg.Definitions(
            jobs=[prune_job],
            schedules=[prune_weekly],
            sensors=[failures],
            # All steps in the run's own process, where models stay loaded. Also for runs without a job of ours, as the
            # interface starts them for a choice of assets.
            executor=dg.in_process_executor,
            resources={CURATION: curation_resource},
            loggers={LOGGER_NAME: terminal_logger, "console": dg.colored_console_logger},
        ),
    )
