"""An embedded server with fresh databases, and what a call costs this process, its children and the server."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from sqlalchemy.engine import URL, Engine

from benchmarks.installation import read_server_pid, temporary_server
from db.schema.migrate import migrate
from db.server.engine import open_engine
from db.server.urls import build_sibling_url


@dataclass(frozen=True)
class Cost:
    """What one measurement took, in seconds."""

    wall: float
    client_cpu: float
    workers_cpu: float
    server_cpu: float


class Server:
    """An embedded server with a migrated, empty database to copy fresh ones from."""

    def __init__(self, url: URL, pid: int) -> None:
        self._empty = build_sibling_url(url, "empty")
        self._process = psutil.Process(pid)
        migrate(self._empty, {})

    @contextmanager
    def fresh(self) -> Iterator[Engine]:
        """An engine on a database that holds no rows yet."""
        postgres = open_engine(build_sibling_url(self._empty, "postgres"))
        with postgres.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql(f"CREATE DATABASE fresh TEMPLATE {self._empty.database}")
            connection.exec_driver_sql("CHECKPOINT")
            engine = open_engine(build_sibling_url(self._empty, "fresh"))
            yield engine
            engine.dispose()
            connection.exec_driver_sql("DROP DATABASE fresh WITH (FORCE)")
        postgres.dispose()

    def cost(self, function: Callable[[], object]) -> Cost:
        """What one call of a function takes."""
        before = time.perf_counter(), time.process_time(), _children_cpu(), sum_server_cpu(self._process)
        function()
        after = time.perf_counter(), time.process_time(), _children_cpu(), sum_server_cpu(self._process)
        return Cost(*(end - start for start, end in zip(before, after, strict=True)))


def sum_server_cpu(server: psutil.Process) -> float:
    """CPU seconds of a server so far; those of a process that ended are in its parent's sum of children."""
    while True:
        before = server.cpu_times()
        living = []
        for child in server.children():
            with suppress(psutil.NoSuchProcess):
                living.append(child.cpu_times())
        own = server.cpu_times()
        # Else one of them ended meanwhile, and would count twice or not at all.
        if (own.children_user, own.children_system) == (before.children_user, before.children_system):
            break
    return float(own.children_user + own.children_system + sum(times.user + times.system for times in (own, *living)))


def _children_cpu() -> float:
    """CPU seconds of this process's children that have ended."""
    times = os.times()
    return times.children_user + times.children_system


@contextmanager
def measured_server(home: Path) -> Iterator[Server]:
    """The embedded server of a home folder with its process, stopped at the end."""
    with temporary_server(home) as url:
        yield Server(url, read_server_pid(home))
