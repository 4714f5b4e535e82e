"""Waits for locks: told once, with whom they are for, and no reader holds up anybody for long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from sqlalchemy.engine import Engine

from db.server.engine import open_connection
from db.server.reader import READER_ROLE
from db.server.waits import PATIENCE, LockWatch
from tests.db.builders import wait_for_lock
from tests.orchestration.survival import until

LOCK = "LOCK TABLE score IN ACCESS EXCLUSIVE MODE"


@pytest.fixture
def looking(engine: Engine) -> Iterator[psycopg.Connection[Any]]:
    with open_connection(engine.url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def blocked(pool: ThreadPoolExecutor, engine: Engine, **settings: Any) -> Future[None]:
    """A statement of this process that waits for the table when this returns."""

    def lock() -> None:
        with open_connection(engine.url, **settings) as connection:
            connection.execute(LOCK.encode())

    waiting = pool.submit(lock)
    wait_for_lock(engine, waiting)
    return waiting


def test_a_wait_for_a_stranger_is_told_once_with_all_that_is_known_of_him(
    engine: Engine, looking: psycopg.Connection[Any], pool: ThreadPoolExecutor
) -> None:
    said: list[str] = []
    watch = LockWatch(READER_ROLE, said.append)
    with open_connection(engine.url, application_name="vandal") as stranger:
        stranger.execute("LOCK TABLE score IN ROW SHARE MODE")
        waiting = blocked(pool, engine)
        watch.report_waits(looking)
        assert said == [], "a short wait is nobody's business"
        for _ in range(PATIENCE + 1):
            watch.report_waits(looking)
        pid = stranger.info.backend_pid
    waiting.result()
    (line,) = said
    assert line.startswith(
        f"this command waits for a lock of vandal (server process {pid}, role {engine.url.username}, since 2"
    )
    watch.report_waits(looking)
    assert len(said) == 1


def test_waits_of_other_processes_are_told_where_a_stranger_or_the_reader_has_the_lock(
    engine: Engine, looking: psycopg.Connection[Any], pool: ThreadPoolExecutor
) -> None:
    said: list[str] = []
    watch = LockWatch(READER_ROLE, said.append)
    for holder, is_told in (("vandal", True), ("reelsieve process 8 on host b", False)):
        with open_connection(engine.url, application_name=holder) as other:
            other.execute("LOCK TABLE score IN ROW SHARE MODE")
            waiting = blocked(pool, engine, application_name="reelsieve process 7 on host a")
            watch.report_waits(looking)
            watch.report_waits(looking)
            assert (len(said) == 1) is is_told
        waiting.result()
        assert all(line.startswith("process 7 on host a (server process ") for line in said)
        said.clear()


def test_a_reader_makes_way_under_whatever_name(
    engine: Engine, looking: psycopg.Connection[Any], pool: ThreadPoolExecutor
) -> None:
    said: list[str] = []
    watch = LockWatch(READER_ROLE, said.append)
    reader = open_connection(engine.url.set(username=READER_ROLE), application_name="reelsieve process 1 on host a")
    reader.execute("LOCK TABLE score IN ACCESS SHARE MODE")
    waiting = blocked(pool, engine)
    for _ in range(PATIENCE - 1):
        watch.report_waits(looking)
    assert not waiting.done()
    watch.report_waits(looking)
    waiting.result()
    told, ended = said
    assert f"role {READER_ROLE}" in told
    assert ended.startswith("Reelsieve ended process 1 on host a (server process ")
    with pytest.raises(psycopg.OperationalError):
        reader.execute("SELECT 1")


def test_a_watch_outlives_its_connection(
    engine: Engine, looking: psycopg.Connection[Any], pool: ThreadPoolExecutor
) -> None:
    said: list[str] = []
    ended = threading.Event()
    thread = threading.Thread(target=LockWatch(READER_ROLE, said.append).run, args=[engine.url, ended, 0.01])
    thread.start()
    try:
        of_watch = "FROM pg_stat_activity WHERE query LIKE '%pg_blocking_pids(w.pid)%' AND pid <> pg_backend_pid()"
        ending = f"SELECT pg_terminate_backend(pid, 60000) {of_watch}".encode()
        until(lambda: looking.execute(ending).fetchall() != [], "the watch is connected")
        with open_connection(engine.url, application_name="vandal") as stranger:
            stranger.execute("LOCK TABLE score IN ROW SHARE MODE")
            waiting = blocked(pool, engine)
            until(lambda: said != [], "the wait is told")
        waiting.result()
    finally:
        ended.set()
        thread.join()
    assert len(said) == 1
