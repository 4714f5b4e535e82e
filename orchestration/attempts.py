"""When failed work is tried again: after a pause that grows with every failure, and a limited number of times."""

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone

import dagster as dg

from orchestration.requests import FAILED_STATUSES, UNFINISHED_STATUSES

FIRST_PAUSE = timedelta(minutes=2)
PAUSE_GROWTH = 4
MAX_RUN_ATTEMPTS = 5


def find_due_attempt(
    context: dg.SensorEvaluationContext, job: str, tags: Mapping[str, str], work: str, until: str
) -> int | None:
    """Return how many attempts at a piece of work have failed, where a new one is due now; else None. Attempts are the
    runs of this job with all these tags. A new one is due 2, 8, 32 and 128 minutes after the first four failures; none
    while a run is unfinished, after a success, or a fifth failure.

    work, until: for a warning after the fifth failure, what failed, and what must happen until it is tried again.
    """
    records = context.instance.get_run_records(dg.RunsFilter(job_name=job, tags=dict(tags)))
    failed = [record for record in records if record.dagster_run.status in FAILED_STATUSES]
    if len(failed) >= MAX_RUN_ATTEMPTS:
        context.log.warning(f"{work} failed {MAX_RUN_ATTEMPTS} times: {until}")
        return None
    is_enough = (*UNFINISHED_STATUSES, dg.DagsterRunStatus.SUCCESS)
    if any(record.dagster_run.status in is_enough for record in records):
        return None
    if failed:
        last_failed_at = max(record.update_timestamp for record in failed)
        if datetime.now(timezone.utc) < last_failed_at + FIRST_PAUSE * PAUSE_GROWTH ** (len(failed) - 1):
            return None
    return len(failed)
