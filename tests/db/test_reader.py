"""The read-only role: it sees everything of ours, and nothing it sends changes anything or reaches the machine."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine

from assets.metrics.registry import METRIC_INPUTS
from db.manifest.datasets import Dataset, find_or_create_dataset, list_datasets
from db.manifest.store import open_ingest_store
from db.schema import METADATA
from db.schema.migrate import migrate
from db.schema.views import VIEWS
from db.selection.recipes import parse_recipe
from db.server.engine import open_connection, open_engine
from db.server.reader import MAX_SESSIONS, READER_ROLE, QueryError, compute_reader_password, run_read_only
from db.server.urls import DAGSTER, DatabaseUnavailable, build_sibling_url
from tests.attack.statements import CHANGES, ESCAPES, LOCKS, MACHINE, OF_ITSELF
from tests.db.builders import add_sample, add_video, make_dataset, set_scores
from tests.db.freezing import freeze_recipe


@pytest.fixture(scope="module")
def filled(migrated_template: URL) -> URL:
    """A database with one scored sample, which all these tests try to change in vain."""
    url = build_sibling_url(migrated_template, "filled")
    migrate(url, METRIC_INPUTS)
    owner = open_engine(url)
    clips = make_dataset(owner)
    set_scores(owner, {add_sample(owner, clips, add_video(owner, clips, "v"), "s"): 0.5})
    owner.dispose()
    return url


@pytest.fixture(scope="module")
def owner(filled: URL) -> Iterator[Engine]:
    """The same database as its owner sees it."""
    engine = open_engine(filled)
    yield engine
    engine.dispose()


def ask(url: URL, query: str) -> list[dict[str, Any]]:
    """The rows, from the reader itself."""
    notes: list[str] = []
    rows = run_read_only(url, query, tell=notes.append)
    assert notes == []
    return rows


def refusal(url: URL, query: str) -> str:
    with pytest.raises(QueryError) as caught:
        ask(url, query)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    message = str(caught.value)
    assert message
    assert "\n" not in message
    assert "Traceback" not in message
    return message


def counts(engine: Engine) -> dict[str, int]:
    counted = " UNION ALL ".join(f"SELECT '{name}', count(*) FROM {name}" for name in METADATA.tables)
    with engine.connect() as connection:
        return dict(map(tuple, connection.exec_driver_sql(counted)))


def test_every_table_and_view_can_be_read(filled: URL) -> None:
    for name in (*METADATA.tables, *VIEWS):
        ask(filled, f"SELECT * FROM {name}")
    assert ask(filled, "SELECT sample, vcs FROM sample_scores") == [{"sample": "s", "vcs": 0.5}]
    assert ask(filled, "SELECT current_user AS me") == [{"me": READER_ROLE}]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT 1 AS one, 'a%b %s' AS text, NULL AS nothing;", [{"one": 1, "text": "a%b %s", "nothing": None}]),
        ("WITH t AS (SELECT 2 AS n) SELECT * FROM t -- done", [{"n": 2}]),
        ("VALUES (1), (2)", [{"column1": 1}, {"column1": 2}]),
        ("SELECT '{\"a\": [1]}'::jsonb AS data", [{"data": {"a": [1]}}]),
        ("SELECT 1 AS a WHERE false", []),
        ("", []),
        ("-- nothing", []),
    ],
)
def test_what_a_query_gives(filled: URL, query: str, expected: list[dict[str, Any]]) -> None:
    assert ask(filled, query) == expected


@pytest.mark.parametrize("query", [*CHANGES, *ESCAPES, *MACHINE, *LOCKS, *OF_ITSELF])
def test_nothing_can_be_changed_or_escaped(filled: URL, owner: Engine, query: str) -> None:
    before = counts(owner)
    refusal(filled, query)
    assert counts(owner) == before


@pytest.mark.parametrize(
    "query",
    ["RESET ROLE", "RESET SESSION AUTHORIZATION", "SET ROLE NONE", "COMMIT", "BEGIN"],
)
def test_harmless_statements_leave_no_trace_in_the_next_query(filled: URL, query: str) -> None:
    assert ask(filled, query) == []
    assert ask(filled, "SELECT current_user AS me, session_user AS who") == [{"me": READER_ROLE, "who": READER_ROLE}]
    assert "read-only" in refusal(filled, CHANGES[0])


@pytest.fixture
def unbound(filled: URL) -> Iterator[psycopg.Connection[Any]]:
    """The reader's role on a connection that would let it write, as psql could: its rights alone hold it back."""
    with open_connection(filled.set(username=READER_ROLE), autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        yield connection


# What is no matter of rights: files that are absent, a grant that grants nothing.
NOT_OF_RIGHTS = ("hstore", "GRANT", "LOCK", "STDOUT")


@pytest.mark.parametrize(
    "query",
    [
        *[query for query in [*CHANGES, *MACHINE, *LOCKS] if not any(word in query for word in NOT_OF_RIGHTS)],
        "SET ROLE postgres",
        "SET SESSION AUTHORIZATION postgres",
        f"ALTER ROLE {READER_ROLE} SUPERUSER",
        "CREATE ROLE x",
        "CREATE DATABASE x",
        "CREATE SCHEMA x",
        "SELECT * FROM pg_authid",
        "ALTER DEFAULT PRIVILEGES FOR ROLE postgres GRANT ALL ON TABLES TO PUBLIC",
    ],
)
def test_the_role_alone_has_no_right_to_it(unbound: psycopg.Connection[Any], query: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        unbound.execute(query.encode())


def test_tables_made_later_can_be_read_too(filled: URL, owner: Engine) -> None:
    with owner.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE later AS SELECT 1 AS a")
    assert ask(filled, "SELECT * FROM later") == [{"a": 1}]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELEC 1", 'syntax error at or near "SELEC"'),
        ("SELECT * FROM nowhere", 'relation "nowhere" does not exist'),
        ("SELECT vsc FROM sample_scores", 'column "vsc" does not exist'),
        ("SELECT 1 / 0", "division by zero"),
        ("SELECT 1 AS a, 2 AS a", "several columns are named 'a'"),
        ("COPY score TO STDOUT", "write a SELECT"),
        ("SELECT '\udcff'", "cannot be encoded"),
    ],
)
def test_errors_are_one_sentence(filled: URL, query: str, message: str) -> None:
    assert message in refusal(filled, query)


def test_a_copy_that_has_begun_says_nothing_besides(filled: URL, caplog: pytest.LogCaptureFixture) -> None:
    assert "COPY" in refusal(filled, "/* not at the beginning */ COPY score TO STDOUT")
    assert caplog.messages == []


def test_a_server_that_does_not_answer_is_not_blamed_on_rights(filled: URL, tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable) as caught:
        ask(filled.set(query={"host": str(tmp_path)}), "SELECT 1")
    assert str(tmp_path) in str(caught.value)
    assert str(caught.value).startswith("no server answers at ")
    assert READER_ROLE not in str(caught.value)


def test_the_readers_password_is_derived_from_the_owners() -> None:
    url = URL.create("postgresql", "ann", "s@crt", "db")
    expected = hmac.new(b"s@crt", b"reelsieve_reader", hashlib.sha256).hexdigest()
    assert compute_reader_password(url) == expected
    assert compute_reader_password(url.set(username="bob", host="other")) == expected
    assert compute_reader_password(url.set(password="s@crT")) != expected


@pytest.mark.parametrize("password", [None, ""])
def test_without_an_owners_password_the_reader_has_none_either(password: str | None) -> None:
    """One derived from nothing would be the same everywhere, and so open every such server to anyone."""
    assert compute_reader_password(URL.create("postgresql", "ann", password, "db")) is None


def test_a_reader_without_password_has_none_stored(owner: Engine) -> None:
    with owner.connect() as connection:
        stored = sa.text(
            "SELECT rolpassword, rolsuper OR rolcreaterole OR rolcreatedb FROM pg_authid WHERE rolname = :me"
        )
        assert connection.execute(stored, {"me": READER_ROLE}).one() == (None, False)


def test_a_server_that_asks_for_passwords(guarded: URL) -> None:
    assert ask(guarded, "SELECT current_user AS me") == [{"me": READER_ROLE}]
    with pytest.raises(DatabaseUnavailable, match="password authentication failed"):
        ask(guarded.set(password="hunter2"), "SELECT 1")


def test_a_transaction_is_read_only_also_where_the_role_has_lost_that_setting(guarded: URL) -> None:
    owner = open_engine(guarded)
    with owner.begin() as connection:
        connection.exec_driver_sql(f"ALTER ROLE {READER_ROLE} RESET default_transaction_read_only")
    owner.dispose()
    assert "read-only" in refusal(guarded, "CREATE TEMPORARY TABLE x (a int)")
    migrate(guarded, METRIC_INPUTS)


def settings_of_reader(url: URL) -> dict[str, list[str]]:
    """By database; '' for all of them."""
    query = (
        "SELECT coalesce(datname, ''), setconfig FROM pg_db_role_setting "
        "LEFT JOIN pg_database d ON d.oid = setdatabase WHERE setrole = 'reelsieve_reader'::regrole"
    )
    with open_connection(url) as connection:
        return dict(connection.execute(query.encode()).fetchall())


def test_what_the_reader_sets_for_itself_reaches_no_query_and_ends_with_a_migration(filled: URL) -> None:
    as_made = settings_of_reader(filled)
    changes = ["search_path = nowhere", "client_encoding = 'LATIN1'", "bytea_output = 'escape'", "lock_timeout = '1s'"]
    with open_connection(filled.set(username=READER_ROLE), autocommit=True) as reader:
        reader.execute("SET default_transaction_read_only = off")
        for change in changes:
            reader.execute(f"ALTER ROLE {READER_ROLE} SET {change}".encode())
            reader.execute(f"ALTER ROLE {READER_ROLE} IN DATABASE {filled.database} SET {change}".encode())
    shown = "SELECT sample, 'é' AS text, '\\x00'::bytea::text AS bytes, current_setting('lock_timeout') AS locks "
    assert ask(filled, f"{shown} FROM sample_scores") == [{"sample": "s", "text": "é", "bytes": "\\x00", "locks": "0"}]
    assert "read-only" in refusal(filled, "CREATE TABLE x (a int)")
    with open_connection(filled.set(username=READER_ROLE), autocommit=True) as reader:
        reader.execute("SET default_transaction_read_only = off")
        reader.execute(f"ALTER ROLE {READER_ROLE} SET local_preload_libraries = 'nowhere'".encode())
    assert "reelsieve db migrate" in refusal(filled, "SELECT 1")
    migrate(filled, METRIC_INPUTS)
    assert settings_of_reader(filled) == as_made != {}
    assert ask(filled, "SELECT 1 AS one") == [{"one": 1}]


@pytest.mark.parametrize("change", [f"ALTER ROLE {READER_ROLE} PASSWORD 'mine'", f"DROP OWNED BY {READER_ROLE}"])
def test_a_reader_that_changes_itself_all_the_time_holds_up_no_migration(filled: URL, change: str) -> None:
    as_made, ended = settings_of_reader(filled), threading.Event()

    def change_again() -> None:
        while not ended.is_set():
            with suppress(psycopg.Error), open_connection(filled.set(username=READER_ROLE)) as reader:
                reader.execute("SET TRANSACTION READ WRITE")
                reader.execute(f"ALTER ROLE {READER_ROLE} SET search_path = nowhere".encode())

    with ThreadPoolExecutor(2) as pool, open_connection(filled.set(username=READER_ROLE)) as reader:
        try:
            reader.execute("SET TRANSACTION READ WRITE")
            reader.execute(change.encode())
            changing = [pool.submit(change_again) for _ in range(2)]
            migrate(filled, METRIC_INPUTS)
        finally:
            ended.set()
        with pytest.raises(psycopg.OperationalError):
            reader.execute("SELECT 1")
    for one in changing:
        one.result()
    migrate(filled, METRIC_INPUTS)
    assert settings_of_reader(filled) == as_made


def test_the_reader_leaves_room_for_others(filled: URL) -> None:
    with ExitStack() as stack:
        for _ in range(MAX_SESSIONS):
            stack.enter_context(open_connection(filled.set(username=READER_ROLE)))
        with pytest.raises(psycopg.OperationalError, match="too many connections for role"):
            open_connection(filled.set(username=READER_ROLE))


def test_migrating_again_renews_the_readers_password(guarded: URL) -> None:
    owner = open_engine(guarded)
    with owner.begin() as connection:
        connection.exec_driver_sql(f"ALTER ROLE {READER_ROLE} PASSWORD 'other'")
    message = refusal(guarded, "SELECT 1")
    assert "password authentication failed" in message
    assert "reelsieve db migrate" in message
    migrate(guarded, METRIC_INPUTS)
    assert ask(guarded, "SELECT 1 AS one") == [{"one": 1}]
    owner.dispose()


def test_the_reader_can_hold_up_neither_an_ingest_nor_a_selection(filled: URL) -> None:
    """With any lock that it may take of our rows and tables."""
    impatient = open_engine(filled.update_query_dict({"options": "-c lock_timeout=10s"}))
    clips = find(impatient)
    with open_connection(filled.set(username=READER_ROLE)) as reader:
        reader.execute("SET default_transaction_read_only = off")
        reader.commit()
        for lock in ("SELECT * FROM dataset FOR KEY SHARE", "LOCK TABLE selection IN ROW EXCLUSIVE MODE"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), reader.transaction():
                reader.execute(lock.encode())
        reader.execute("LOCK TABLE dataset, selection IN ACCESS SHARE MODE")
        with open_ingest_store(impatient, clips) as store:
            assert store.load_videos(["v"])
        with impatient.begin() as connection:
            assert freeze_recipe(connection, clips, parse_recipe({"by": "vcs", "keep": 1.0, "where": None})).n == 1
    impatient.dispose()


def test_the_reader_cannot_enter_the_database_of_the_leases(filled: URL, guarded: URL) -> None:
    for url in (filled, guarded.set(password=compute_reader_password(guarded))):
        with pytest.raises(psycopg.OperationalError, match='permission denied for database "dagster"'):
            open_connection(url.set(username=READER_ROLE, database=DAGSTER))


def find(engine: Engine) -> Dataset:
    with engine.connect() as connection:
        (dataset,) = list_datasets(connection)
    return dataset


def test_a_second_ingest_of_a_dataset_waits_and_one_of_another_does_not(filled: URL, owner: Engine) -> None:
    impatient = open_engine(filled.update_query_dict({"options": "-c lock_timeout=50ms"}))
    clips = find(owner)
    with owner.begin() as connection:
        other = find_or_create_dataset(connection, "other", 1)
    with open_ingest_store(owner, clips):
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"), open_ingest_store(impatient, clips):
            pass
        with open_ingest_store(impatient, other):
            pass
    with open_ingest_store(impatient, clips):
        pass
    impatient.dispose()
