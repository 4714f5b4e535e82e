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
    """The outcome of all Dagster runs that were started for one piece of work. is_running: one of them is unfinished.
    has_succeeded: one succeeded. n_failed: how many failed or were cancelled. last_failed_at: when the last of these
    ended; None if there is none.
    """

    is_running: bool = False
    has_succeeded: bool = False
    n_failed: int = 0
    last_failed_at: datetime | None = None

    @classmethod
    def load(cls, instance: dg.DagsterInstance, job: str, tags: Mapping[str, str]) -> "Attempts":
        """Read from Dagster the runs of this job that have all these tags, and return their outcome. Without such runs
        no run is unfinished, none has succeeded, and none failed.
        """
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
        """Time from which the work may be tried again: 2, 8, 32 and 128 minutes after the first, second, third and
        fourth failure. None while a run is unfinished, after a success, and after the fifth failure. Work without any
        run is due at once: the time is the earliest datetime, in UTC.

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
        """Whether a new attempt may start at the time `now`, which needs a time zone. False where `next_attempt_at` is
        None.
        """
        return self.next_attempt_at is not None and self.next_attempt_at <= now


_FAILED_STATUSES = (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
