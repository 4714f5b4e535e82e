"""All definitions that Dagster loads."""

from __future__ import annotations

import dagster as dg

import assets
from assets.catalogue import catalogued
from orchestration.executor import in_this_process
from orchestration.jobs import calibration_job, dataset_job, ingest_job, prune_job, scoring_job
from orchestration.platform import curation
from orchestration.schedules import SCHEDULES
from orchestration.sensors import SENSORS
from orchestration.settings import settings
from orchestration.terminal import LOGGER, terminal_logger


@dg.definitions
def defs() -> dg.Definitions:
    """The assets of the room `assets` with the jobs, schedules, sensors and resources of this one."""
    return dg.Definitions.merge(
        catalogued(dg.load_definitions_from_package_module(assets), settings().owners),
        dg.Definitions(
            jobs=[ingest_job, scoring_job, calibration_job, dataset_job, prune_job],
            schedules=SCHEDULES,
            sensors=SENSORS,
            # Also for runs without a job of ours, as the interface starts them for a choice of assets.
            executor=in_this_process,
            resources={"curation": curation()},
            loggers={LOGGER: terminal_logger, "console": dg.colored_console_logger},
        ),
    )
