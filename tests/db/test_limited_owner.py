"""A server of somebody else, on which our user is no superuser."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

from assets.metrics.registry import METRIC_INPUTS
from db.schema.migrate import REVISION, migrate
from db.server.backup import write_backup
from db.server.dump_rows import BackupError
from db.server.engine import open_connection, open_engine
from db.server.reader import READER_ROLE, QueryError, compute_reader_password, run_read_only
from db.server.restore import restore_backup
from db.server.urls import DatabaseUnavailable, build_sibling_url
from tests.attack.statements import CHANGES, ESCAPES, MACHINE
from tests.db.test_reader import counts


def as_superuser(url: URL, *statements: str) -> None:
    engine = open_engine(url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


@pytest.fixture(scope="module")
def limited(guarded: URL) -> Generator[URL, None, None]:
    """An empty database whose owner may create databases and roles, and nothing beyond."""
    server = build_sibling_url(guarded, "postgres")
    as_superuser(
        server,
        "CREATE ROLE limited LOGIN CREATEDB CREATEROLE PASSWORD 'limited'",
        "CREATE DATABASE limited OWNER limited",
        "GRANT CONNECT ON DATABASE dagster TO limited",
    )
    yield guarded.set(username="limited", password="limited", database="limited")
    as_superuser(server, "DROP DATABASE limited WITH (FORCE)")


def test_who_may_not_enter_dagsters_database_is_told_so(limited: URL, guarded: URL) -> None:
    server = build_sibling_url(guarded, "postgres")
    as_superuser(server, "REVOKE CONNECT ON DATABASE dagster FROM limited")
    try:
        with pytest.raises(DatabaseUnavailable, match='permission denied for database "dagster"'):
            migrate(limited, METRIC_INPUTS)
    finally:
        as_superuser(server, "GRANT CONNECT ON DATABASE dagster TO limited")


def test_a_missing_extension_is_named_with_the_remedy(limited: URL) -> None:
    with pytest.raises(DatabaseUnavailable, match=r"database limited and limited may not .* CREATE EXTENSION vector"):
        migrate(limited, METRIC_INPUTS)


def test_with_the_extension_in_place_migrations_run_again_and_again(limited: URL, guarded: URL) -> None:
    as_superuser(guarded.set(database="limited"), "CREATE EXTENSION IF NOT EXISTS vector")
    assert migrate(limited, METRIC_INPUTS) == migrate(limited, {"other": METRIC_INPUTS["vcs"]})


def test_an_owner_of_the_reader_sees_and_ends_its_sessions(limited: URL, guarded: URL) -> None:
    """Such an owner makes the reader; the one of a superuser on this server is no business of his."""
    server = build_sibling_url(guarded, "postgres")
    as_superuser(server, f"ALTER ROLE {READER_ROLE} RENAME TO other_reader")
    try:
        migrate(limited, METRIC_INPUTS)
        with open_connection(
            limited.set(username=READER_ROLE, password=compute_reader_password(limited)), autocommit=True
        ) as reader:
            pid = reader.info.backend_pid
            with open_connection(limited) as owner:
                seen = owner.execute("SELECT state FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone()
                assert seen == ("idle",)
                assert owner.execute("SELECT pg_terminate_backend(%s, 5000)", [pid]).fetchone() == (True,)
    finally:
        as_superuser(
            limited.set(username=guarded.username, password=guarded.password),
            f"DROP OWNED BY {READER_ROLE}",
            f"DROP ROLE {READER_ROLE}",
            f"ALTER ROLE other_reader RENAME TO {READER_ROLE}",
        )
    migrate(guarded, METRIC_INPUTS)


@pytest.fixture(scope="module")
def modest(guarded: URL) -> Generator[URL, None, None]:
    """A migrated database whose owner may not even create roles, so that it has no reader."""
    server = build_sibling_url(guarded, "postgres")
    as_superuser(
        server,
        "DROP ROLE IF EXISTS modest",
        "CREATE ROLE modest LOGIN CREATEDB PASSWORD 'modest'",
        "CREATE DATABASE modest OWNER modest",
        "GRANT CONNECT ON DATABASE dagster TO modest",
    )
    as_superuser(guarded.set(database="modest"), "CREATE EXTENSION vector")
    url = guarded.set(username="modest", password="modest", database="modest")
    migrate(url, METRIC_INPUTS)
    yield url
    revoke = "REVOKE CONNECT ON DATABASE dagster FROM modest"
    as_superuser(server, "DROP DATABASE modest WITH (FORCE)", revoke, "DROP ROLE modest")


def test_the_owner_stands_in_for_a_reader_that_it_could_not_make_and_says_so(modest: URL) -> None:
    notes: list[str] = []
    rows = run_read_only(modest, "SELECT current_user AS me, count(*) AS n FROM sample_scores", tell=notes.append)
    assert rows == [{"me": "modest", "n": 0}]
    (note,) = notes
    assert "modest runs the query in a read-only transaction" in note
    assert "reelsieve db migrate as a user with CREATEROLE" in note


# LOCK TABLE is a right of the owner, and the lock ends with the one statement of the transaction.
@pytest.mark.parametrize("query", [query for query in (*CHANGES, *ESCAPES, *MACHINE) if not query.startswith("LOCK")])
def test_an_owner_that_stands_in_can_change_nothing_either(modest: URL, query: str) -> None:
    owner = open_engine(modest)
    before = counts(owner)
    with pytest.raises(QueryError):
        run_read_only(modest, query, tell=lambda _note: None)
    assert counts(owner) == before
    owner.dispose()


@pytest.mark.parametrize(
    "query",
    [
        "SET TRANSACTION READ WRITE",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "SET default_transaction_read_only = off",
        "COMMIT",
        "COMMIT AND CHAIN",
        "ROLLBACK",
        "BEGIN",
    ],
)
def test_what_it_may_say_has_no_effect_on_the_next_query(modest: URL, query: str) -> None:
    with suppress(QueryError):
        run_read_only(modest, query, tell=lambda _note: None)
    with pytest.raises(QueryError, match="read-only"):
        run_read_only(modest, CHANGES[0], tell=lambda _note: None)


@pytest.mark.parametrize("power", ["pg_execute_server_program", "pg_write_server_files", "pg_read_server_files"])
def test_nobody_stands_in_who_reaches_the_machine(modest: URL, guarded: URL, power: str) -> None:
    server = build_sibling_url(guarded, "postgres")
    as_superuser(server, f"GRANT {power} TO modest")
    try:
        with pytest.raises(QueryError, match="reelsieve db migrate as a user with CREATEROLE"):
            run_read_only(modest, "SELECT 1", tell=lambda _note: None)
    finally:
        as_superuser(server, f"REVOKE {power} FROM modest")


def test_a_restore_by_no_superuser_says_what_it_lacks(limited: URL, guarded: URL, tmp_path: Path) -> None:
    as_superuser(guarded.set(database="limited"), "CREATE EXTENSION IF NOT EXISTS vector")
    migrate(limited, METRIC_INPUTS)
    source = write_backup(
        limited.set(username=guarded.username, password=guarded.password), tmp_path / "b", REVISION, print
    )
    elsewhere, template = build_sibling_url(limited, "limited_restored"), guarded.set(database="template1")
    as_superuser(guarded, "ALTER DATABASE dagster OWNER TO limited", "ALTER ROLE limited NOCREATEDB")
    try:
        with pytest.raises(BackupError, match="limited may not restore here"):
            restore_backup(elsewhere, source, METRIC_INPUTS, [], lambda _url: None, print)
        as_superuser(guarded, "ALTER ROLE limited CREATEDB")
        with pytest.raises(BackupError, match="run that in database template1"):
            restore_backup(elsewhere, source, METRIC_INPUTS, [], lambda _url: None, print)
        as_superuser(template, "CREATE EXTENSION vector")
        assert restore_backup(elsewhere, source, METRIC_INPUTS, [], lambda _url: None, print) == []
    finally:
        as_superuser(template, "DROP EXTENSION IF EXISTS vector")
        as_superuser(guarded, "DROP DATABASE IF EXISTS limited_restored", "ALTER DATABASE dagster OWNER TO owner")


def test_a_database_that_cannot_be_created_is_named_with_who_may_not(guarded: URL) -> None:
    server = build_sibling_url(guarded, "postgres")
    as_superuser(server, "DROP ROLE IF EXISTS small", "CREATE ROLE small LOGIN PASSWORD 'small'")
    with pytest.raises(DatabaseUnavailable, match="make it for small, with CREATE DATABASE small OWNER"):
        migrate(guarded.set(username="small", password="small", database="small"), METRIC_INPUTS)
    as_superuser(server, "DROP ROLE small")
