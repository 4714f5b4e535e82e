"""A server of somebody else, on which our user is no superuser."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from sqlalchemy.engine import URL

from db.engine import open_engine
from db.migrate import migrate
from db.reader import QueryError, run_read_only
from db.server import DatabaseUnavailable, sibling_url


def as_superuser(url: URL, *statements: str) -> None:
    engine = open_engine(url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


@pytest.fixture(scope="module")
def limited(guarded: URL) -> Generator[URL, None, None]:
    """An empty database whose owner may create databases and roles, and nothing beyond."""
    server = sibling_url(guarded, "postgres")
    as_superuser(
        server,
        "DROP ROLE IF EXISTS limited",
        "CREATE ROLE limited LOGIN CREATEDB CREATEROLE PASSWORD 'limited'",
        "CREATE DATABASE limited OWNER limited",
    )
    yield guarded.set(username="limited", password="limited", database="limited")
    as_superuser(server, "DROP DATABASE limited WITH (FORCE)")


def test_a_missing_extension_is_named_with_the_remedy(limited: URL) -> None:
    with pytest.raises(DatabaseUnavailable, match="CREATE EXTENSION vector"):
        migrate(limited, ["vcs"])


def test_with_the_extension_in_place_migrations_run_again_and_again(limited: URL, guarded: URL) -> None:
    as_superuser(guarded.set(database="limited"), "CREATE EXTENSION IF NOT EXISTS vector")
    assert migrate(limited, ["vcs"]) == migrate(limited, ["vcs", "other"])


def test_a_reader_that_cannot_log_in_is_explained(limited: URL) -> None:
    with pytest.raises(QueryError, match="cannot log in"):
        run_read_only(limited.set(password="wrong"), "SELECT 1")
