"""Leases: held by one, provably free when the holder's connection ends, and taken again after it was lost."""

from __future__ import annotations

import psycopg
import pytest
from sqlalchemy.engine import URL

from db.engine import connect
from db.leases import Lease, lease, lease_if_free
from db.server import sibling_url
from tests.orchestration.survival import until

NAME = "run 1"


def is_free(url: URL, name: str = NAME) -> bool:
    with lease_if_free(url, name) as free:
        return free


def end_sessions(url: URL) -> int:
    """End the sessions that hold a lease in this database, as a network or an administrator may."""
    with connect(url) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'reelsieve lease' "
            "AND datname = current_database()"
        ).fetchall()
    return len(ended)


def test_a_lease_is_free_before_and_after_but_not_while_it_is_held(database: URL) -> None:
    assert is_free(database)
    with lease(database, NAME):
        assert not is_free(database)
        assert is_free(database, "run 2")
    assert is_free(database)


def test_only_one_finds_it_free(database: URL) -> None:
    with lease_if_free(database, NAME) as first:
        assert first
        assert not is_free(database)


def test_a_lease_ends_with_its_connection_and_is_taken_again(database: URL) -> None:
    with lease(database, NAME) as held:
        assert held.renew()
        assert end_sessions(database) == 1
        assert is_free(database)
        assert held.renew()
        assert not is_free(database)
        assert held.renew()
    assert is_free(database)


def test_a_lost_lease_that_somebody_took_comes_back_when_they_are_done(database: URL) -> None:
    with lease(database, NAME) as held:
        end_sessions(database)
        with lease_if_free(database, NAME):
            assert not held.renew()
        until(held.renew, "the lease is back")
        assert not is_free(database)


def test_no_server_is_no_lease(database: URL) -> None:
    nowhere = sibling_url(database, "nowhere")
    with pytest.raises(psycopg.OperationalError):
        Lease(nowhere, NAME)


def test_a_server_that_asks_for_a_password_gets_it(guarded: URL) -> None:
    with lease(guarded, NAME):
        assert not is_free(guarded)
