"""When failed work is tried again: after a pause that grows with every failure, and a limited number of times."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import dagster as dg

from orchestration.requests import UNFINISHED_STATUSES

FIRST_PAUSE = timedelta(minutes=2)
PAUSE_GROWTH = 4
MAX_RUN_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Attempts:
    """The outcome of all Dagster runs that were started for one piece of work: whether one is unfinished, whether one
    succeeded, how many failed, and when the last one failed.
    """

    is_running: bool = False
    has_succeeded: bool = False
    n_failed: int = 0
    last_failed_at: datetime | None = None

    @classmethod
    def load(cls, instance: dg.DagsterInstance, job: str, tags: Mapping[str, str]) -> "Attempts":
        """Read from Dagster the runs of a job that have all these tags, and sum them up; no runs give no attempts."""
        records = instance.get_run_records(dg.RunsFilter(job_name=job, tags=dict(tags)))
        statuses = [record.dagster_run.status for record in records]
        failed = [record for record in records if record.dagster_run.status in _FAILED_STATUSES]
        return cls(
            is_running=any(status in UNFINISHED_STATUSES for status in statuses),
            has_succeeded=dg.DagsterRunStatus.SUCCESS in statuses,
            n_failed=len(failed),
            last_failed_at=max((record.update_timestamp for record in failed), default=None),
        )

    @property
    def next_attempt_at(self) -> datetime | None:
        """Time from which the work may be tried again; None while a run is unfinished, after a success, and after the
        fifth failure. Work without any run is due at once: the time is the earliest datetime, in UTC.

        >>> noon = datetime(2030, 1, 1, 12, tzinfo=timezone.utc)
        >>> [str(Attempts(n_failed=n, last_failed_at=noon).next_attempt_at)[11:16] for n in (1, 2, 3, 4)]
        ['12:02', '12:08', '12:32', '14:08']
        >>> Attempts(n_failed=5, last_failed_at=noon).next_attempt_at is None
        True
        """
        if self.is_running or self.has_succeeded or self.n_failed >= MAX_RUN_ATTEMPTS:
            return None
        if self.last_failed_at is None:
            return datetime.min.replace(tzinfo=timezone.utc)
        return self.last_failed_at + FIRST_PAUSE * PAUSE_GROWTH ** (self.n_failed - 1)

    def is_due(self, now: datetime) -> bool:
        """Whether a new attempt should start at the time `now`, which needs a time zone."""
        return self.next_attempt_at is not None and self.next_attempt_at <= now


_FAILED_STATUSES = (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
