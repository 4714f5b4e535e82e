"""Looks after a run while it works: renews its lease, and names the runs that it waits for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime

import psycopg
import sqlalchemy as sa
from dagster_postgres.utils import DagsterPostgresException

from assets.partitions import partitions_named
from assets.sources.assets import MODEL_POOL
from db.server.leases import Leases
from orchestration.dead_runs import HOST, PAUSE_S, PID, close_dead_runs
from orchestration.platform import installed
from orchestration.terminal import say


@contextmanager
def watching(run_id: str, held: Leases) -> Iterator[None]:
    """Renew the lease of a run in a second thread until the block ends; this thread executes the run.

    While the run waits for the encoder, dead runs that hold it are closed, and every live one is named once on the
    terminal.
    """
    ended = threading.Event()
    with ThreadPoolExecutor(1, thread_name_prefix="watch") as pool:
        watch = pool.submit(_watch, run_id, held, ended)
        try:
            yield
        finally:
            ended.set()
    watch.result()


def _watch(run_id: str, held: Leases, ended: threading.Event) -> None:
    told: set[str] = set()
    while not ended.wait(PAUSE_S):
        if not held.renew():
            continue
        try:
            if ahead := _ahead_of(run_id):
                close_dead_runs(installed().instance)
                ahead = {other: since for other, since in _ahead_of(run_id).items() if other not in told}
                for other, since in ahead.items():
                    say(
                        "run",
                        f"waits for the encoder of this machine, which {_described(other)} has held since {since}",
                    )
                told |= ahead.keys()
        except (psycopg.OperationalError, sa.exc.DBAPIError, DagsterPostgresException):
            # The run meets the same outage at its next statement and reports it.
            continue


def _ahead_of(run_id: str) -> dict[str, str]:
    """The runs that hold the encoder while this run waits for it, each with the local time since when; else none."""
    pool = installed().instance.event_log_storage.get_concurrency_info(MODEL_POOL)
    claimed = {(slot.run_id, slot.step_key) for slot in pool.claimed_slots}
    if not any(step.run_id == run_id and (run_id, step.step_key) not in claimed for step in pool.pending_steps):
        return {}
    # A step stays listed as pending while it holds its place; the time is when the place was given to it.
    return {
        step.run_id: _local(step.assigned_timestamp)
        for step in pool.pending_steps
        if step.run_id != run_id and step.assigned_timestamp is not None
    }


def _described(run_id: str) -> str:
    run = installed().instance.get_run_by_id(run_id)
    if run is None:
        return f"run {run_id[:8]}, which was deleted,"
    work = f"run {run_id[:8]} ({run.job_name} of {partitions_named(run.tags)})"
    if HOST not in run.tags:
        return f"{work} of the web interface"
    return f"{work} on host {run.tags[HOST]}, process {run.tags[PID]},"


def _local(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"
