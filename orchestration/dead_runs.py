"""Telling dead runs apart from live ones, on any host: a run holds a lease for as long as its process lives."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path

import dagster as dg
from sqlalchemy.engine import URL

from db.server.leases import Leases, hold_lease_if_free
from db.server.processes import is_process_alive
from db.server.urls import DAGSTER, build_sibling_url
from orchestration.requests import UNFINISHED_STATUSES

# Seconds between two renewals of a lease.
LEASE_PAUSE_S = 2.0
# Tags of a run: where it is executed, and its own id, since a run that is started again inherits its predecessor's tags
# but has no lease yet. Dagster shows no tag that begins so.
HOST, PID, LEASED = ".dagster/reelsieve_host", ".dagster/reelsieve_pid", ".dagster/reelsieve_leased"
# A tag that people read.
COMMAND = "command"
# Dagster's own tag, which has no public constant.
MAX_RETRIES = "dagster/max_retries"


def build_run_tags(run_id: str) -> dict[str, str]:
    """Return the Dagster tags, by name, of a run that this process executes: host, process id, the run's own id as a
    sign that it has a lease, and no retries. The command's name is added if sys.argv names a command of `reelsieve`.
    """
    program, *arguments = sys.argv
    command = {COMMAND: f"reelsieve {arguments[0]}"} if Path(program).name == "reelsieve" and arguments else {}
    return {HOST: socket.gethostname(), PID: str(os.getpid()), LEASED: run_id, MAX_RETRIES: "0", **command}


def close_dead_runs(instance: dg.DagsterInstance, database: URL) -> None:
    """Mark unfinished Dagster runs whose process is gone as failed, and free the concurrency slots of all finished or
    deleted runs. A run that holds its lease is alive, on any host. A run that waits for its start has no lease yet:
    Dagster itself watches it. database: the curation database, on whose server the leases are.
    """
    for run in instance.get_runs(dg.RunsFilter(statuses=UNFINISHED_STATUSES)):
        if run.tags.get(LEASED) == run.run_id:
            with hold_lease_if_free(lease_database_url(database), run_lease_name(run.run_id)) as is_dead:
                if is_dead:
                    _close(instance, run.run_id)
        elif LEASED not in run.tags and HOST in run.tags and _has_died_here(run):
            _close(instance, run.run_id)
    # Dagster's daemon frees the places of the web interface's runs too, but only while it runs.
    for run_id in instance.event_log_storage.get_concurrency_run_ids():
        holder = instance.get_run_by_id(run_id)
        if holder is None or holder.is_finished:
            instance.event_log_storage.free_concurrency_slots_for_run(run_id)


def hold_run_lease(instance: dg.DagsterInstance, database: URL, run_id: str) -> None:
    """Take the lease of a run that this process executes, and renew it in a background thread until the process ends.
    Tags the run with its lease in Dagster. database: the curation database, on whose server the lease is taken.

    If the lease ended any earlier, the run would look dead until Dagster has stored that it ended.
    """
    held = Leases(lease_database_url(database))
    held.take(run_lease_name(run_id))
    instance.add_run_tags(run_id, {LEASED: run_id})
    threading.Thread(target=_renew_forever, args=(held,), name="lease", daemon=True).start()


def run_lease_name(run_id: str) -> str:
    """Return the name of the lease that the process of a run holds while it executes the run."""
    return f"run {run_id}"


def lease_database_url(database: URL) -> URL:
    """Return the URL of Dagster's database on the server of this curation database. The leases of runs are taken there.
    Several curation databases may share it.
    """
    return build_sibling_url(database, DAGSTER)


def _renew_forever(held: Leases) -> None:
    while True:
        time.sleep(LEASE_PAUSE_S)
        held.renew()


def _close(instance: dg.DagsterInstance, run_id: str) -> None:
    run = instance.get_run_by_id(run_id)
    # It may have ended well since it was listed.
    if run is not None and not run.is_finished:
        instance.report_run_failed(run, "the process of the run ended before the run did")
        instance.event_log_storage.free_concurrency_slots_for_run(run_id)


def _has_died_here(run: dg.DagsterRun) -> bool:
    """Whether a run of a version without leases ran on this host, in a process that is gone.

    In a container the next process soon gets the id of the dead one, so this process's own id counts as gone too.
    """
    pid = int(run.tags[PID])
    return run.tags[HOST] == socket.gethostname() and (pid == os.getpid() or not is_process_alive(pid))
