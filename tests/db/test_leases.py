"""Leases: held by one, provably free when the holder's connection ends, and taken again after it was lost."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import URL

from db.server.engine import open_connection
from db.server.leases import LeaseLost, Leases, hold_lease, hold_lease_if_free
from db.server.urls import DAGSTER, build_sibling_url
from tests.db.conftest import OWNER
from tests.orchestration.survival import until

NAME = "run 1"


def is_free(url: URL, name: str = NAME) -> bool:
    with hold_lease_if_free(url, name) as free:
        return free


def end_sessions(url: URL) -> int:
    """End the sessions that hold a lease, as a network or an administrator may."""
    with open_connection(build_sibling_url(url, DAGSTER)) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
            "WHERE application_name LIKE 'reelsieve lease%' AND datname = current_database()"
        ).fetchall()
    return len(ended)


def test_a_lease_is_free_before_and_after_but_not_while_it_is_held(database: URL) -> None:
    assert is_free(database)
    with hold_lease(database, NAME):
        assert not is_free(database)
        assert is_free(database, "run 2")
    assert is_free(database)


def test_only_one_finds_it_free(database: URL) -> None:
    with hold_lease_if_free(database, NAME) as first:
        assert first
        assert not is_free(database)


def test_a_shared_lease_keeps_only_those_out_who_want_it_for_themselves(database: URL, other: Leases) -> None:
    with Leases(database) as first:
        first.take(NAME, is_shared=True)
        other.take(NAME, is_shared=True)
        first.give_back(NAME)
        assert not is_free(database), "the other one shares it still"
        assert end_sessions(database) == 2
        assert other.renew(), "a lost one is shared again"
        with hold_lease_if_free(database, NAME) as is_own:
            assert not is_own
        other.give_back(NAME)
        assert is_free(database)


def test_a_lease_ends_with_its_connection_and_is_taken_again(database: URL) -> None:
    with hold_lease(database, NAME) as held:
        assert held.renew()
        assert end_sessions(database) == 1
        assert is_free(database)
        assert held.renew()
        assert not is_free(database)
        assert held.renew()
    assert is_free(database)


def test_a_lost_lease_that_somebody_took_comes_back_when_they_are_done(database: URL) -> None:
    with hold_lease(database, NAME) as held:
        end_sessions(database)
        with hold_lease_if_free(database, NAME):
            assert not held.renew()
        until(held.renew, "the lease is back")
        assert not is_free(database)


def test_no_server_is_no_lease(database: URL, tmp_path: Path) -> None:
    with pytest.raises(psycopg.OperationalError):
        Leases(database.set(query={"host": str(tmp_path)}))


def test_a_name_is_of_one_database(database: URL) -> None:
    with hold_lease(database, NAME):
        assert is_free(build_sibling_url(database, "another"))
        assert not is_free(database)


def test_a_server_that_asks_for_a_password_gets_it(guarded: URL) -> None:
    with hold_lease(guarded, NAME):
        assert not is_free(guarded)


@pytest.fixture
def other(database: URL) -> Generator[Leases, None, None]:
    """The leases of another process."""
    with Leases(database) as leases:
        yield leases


def test_all_leases_of_a_connection_end_with_it(database: URL, other: Leases) -> None:
    with Leases(database) as leases:
        assert [leases.take_if_free(name) for name in ("a", "b")] == [True, True]
        leases.give_back("a")
        assert [other.take_if_free(name) for name in ("a", "b")] == [True, False]
    assert other.take_if_free("b")


def test_free_names_come_first_and_the_others_when_they_are_let_go(database: URL, other: Leases) -> None:
    other.take("a")
    other.take("c")
    waited, done = [], []

    def waits(name: str) -> None:
        waited.append(name)
        other.give_back("c")

    with Leases(database) as leases:
        for (name,) in leases.take_in_turn("abcd", waits):
            done.append(name)
            if name == "c":
                other.give_back("a")
        assert all(other.take_if_free(name) for name in "abcd"), "each was given back"
    assert (done, waited) == (["b", "d", "c", "a"], ["a"])


def test_a_group_has_the_free_names_up_to_its_size_and_passes_over_others(database: URL, other: Leases) -> None:
    other.take("b")
    groups = []
    with Leases(database) as leases:
        for group in leases.take_in_turn("abcdefg", lambda _: other.give_back("b"), lambda n_left: -(-n_left // 2)):
            groups.append(group)
            assert not any(other.take_if_free(name) for name in group), "all are held at once"
        assert all(other.take_if_free(name) for name in "abcdefg"), "each was given back"
    assert groups == [["a", "c", "d", "e"], ["f", "g"], ["b"]]


def test_no_name_is_with_two_at_a_time(database: URL) -> None:
    names = [f"shard {number}" for number in range(40)]
    visits: Counter[str] = Counter()
    under_way: set[str] = set()
    guard, begin = threading.Lock(), threading.Barrier(4)

    def work() -> None:
        with Leases(database) as leases:
            begin.wait()
            for (name,) in leases.take_in_turn(names):
                with guard:
                    assert name not in under_way
                    under_way.add(name)
                    visits[name] += 1
                with guard:
                    under_way.remove(name)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work) for _ in range(4)]:
            done.result()
    assert visits == dict.fromkeys(names, 4)


def test_a_killed_process_holds_nothing(database: URL, other: Leases) -> None:
    code = (
        "import sys; from db.server.leases import Leases; from db.server.urls import parse_url; "
        "leases = Leases(parse_url(sys.argv[1])); leases.take('a'); print('holds', flush=True); sys.stdin.read()"
    )
    url = database.render_as_string(hide_password=False)
    holder = subprocess.Popen(
        [sys.executable, "-c", code, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "holds\n"
    assert not other.take_if_free("a")
    held_by = other.find_holder("a") or ""
    assert held_by.startswith(f"process {holder.pid} on host {socket.gethostname()} (server process ")
    assert f", role {database.username}, since 2" in held_by
    holder.kill()
    holder.communicate()
    until(lambda: other.take_if_free("a"), "the lease is free")
    assert (other.find_holder("a") or "").startswith(f"process {os.getpid()} on host {socket.gethostname()} (server ")
    assert other.find_holder("b") is None


def test_a_check_takes_lost_leases_again_unless_somebody_else_has_one(database: URL) -> None:
    with Leases(database) as leases:
        leases.take("a")
        leases.take("b")
        assert end_sessions(database) == 1
        leases.check()
        assert not is_free(database, "a")
        end_sessions(database)
        with hold_lease_if_free(database, "b") as free:
            assert free
            with pytest.raises(LeaseLost, match="the lease on 'b' was lost"):
                leases.check()
        leases.check()
        assert not is_free(database, "b")


def test_work_goes_on_with_the_next_name_after_the_connection_was_lost(database: URL) -> None:
    done = []
    with Leases(database) as leases:
        for (name,) in leases.take_in_turn("abc"):
            done.append(name)
            if name == "a":
                end_sessions(database)
    assert done == ["a", "b", "c"]


def test_a_server_that_ends_silent_sessions_keeps_a_lease(guarded: URL) -> None:
    limits = ("idle_session_timeout", "statement_timeout", "lock_timeout")
    with open_connection(guarded, autocommit=True) as connection:
        for limit in limits:
            connection.execute(f"ALTER ROLE {OWNER} SET {limit} = '60s'".encode())
        try:
            with hold_lease(guarded, NAME) as held:
                shown = [held._connection.execute(f"SHOW {limit}".encode()).fetchone() for limit in limits]
        finally:
            connection.execute(f"ALTER ROLE {OWNER} RESET ALL".encode())
    assert shown == [("0",)] * 3
