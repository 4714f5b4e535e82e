"""The Dagster definitions of a stand-alone installation, and the part of them that fits into any Dagster."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

import assets
from assets.definitions.catalogue import add_catalogue_metadata
from assets.definitions.curation import Curation
from assets.definitions.results import RunResults
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
    trial_job,
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
    """Yield the resource `curation` (database, scorers, folders) of this installation. Until a run ends, no other
    process can drop its datasets. For a run that Dagster itself started, it also takes the run's lease, which
    is held until the process ends; a command holds the lease of its run itself.
    """
    run, curation = context.run, get_installation().curation
    if run is not None and context.instance is not None and run.tags.get(LEASED) != run.run_id:
        reuse_connections(context.instance)
        hold_run_lease(context.instance, curation.engine.url, run.run_id)
        curation.results = RunResults()
    with hold_run_datasets(curation, context):
        yield curation


def build_dataset_definitions() -> dg.Definitions:
    """Return the definitions that deal with datasets: all assets and checks, and the jobs, schedule and sensors over
    them. Reads the owners of assets from the settings.
    """
    return dg.Definitions.merge(
        add_catalogue_metadata(dg.load_definitions_from_package_module(assets), get_settings().owners),
        dg.Definitions(
            jobs=[ingest_job, scoring_job, facts_job, calibration_job, dataset_job, subset_job, trial_job],
            schedules=[score_missing],
            sensors=[inbox, conclusions],
        ),
    )


@dg.definitions
def defs() -> dg.Definitions:
    """Return all definitions of a stand-alone installation: those of datasets, plus weekly pruning, failure notices,
    the executor, the loggers and the resource `curation`.
    """
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
