"""Opening engines on servers that start, refuse or do not exist, and transactions for COPY."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine, make_url

from db.schema import dataset
from db.server.embedded import start_embedded, stop_embedded
from db.server.engine import build_connection_error, open_engine, open_psycopg_transaction
from db.server.urls import DatabaseUnavailable, build_sibling_url

ENDLESS = 1_000_000  # attempts: a test that retried what no waiting mends would never end


def refusal(url: URL, attempts: int) -> str:
    with pytest.raises(DatabaseUnavailable) as caught:
        open_engine(url, attempts=attempts)
    assert caught.value.__suppress_context__
    message = str(caught.value)
    assert "\n" not in message
    assert "Traceback" not in message
    return message


def test_a_server_that_starts_meanwhile_is_waited_for(own_home: Path) -> None:
    url = build_sibling_url(start_embedded(own_home), "postgres")
    stop_embedded(own_home)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(open_engine, url, attempts=400)
        start_embedded(own_home)
        engine = opening.result()
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT 1")) == 1
    engine.dispose()


def test_a_missing_database_is_named_without_waiting(migrated_template: URL) -> None:
    message = refusal(build_sibling_url(migrated_template, "nowhere"), ENDLESS)
    assert 'database "nowhere" does not exist' in message
    assert "Check that the server runs (reelsieve doctor)" in message
    assert "reelsieve db migrate" in message


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("127.0.0.1:1/films", "127.0.0.1:1 (Connection refused)"),
        ("/films?host=/nowhere", "/nowhere/.s.PGSQL.5432 (No such file or directory)"),
        ("nowhere.invalid/films", "nowhere.invalid ("),
    ],
)
def test_a_server_that_is_not_there_is_named_with_one_remedy(address: str, place: str) -> None:
    message = refusal(make_url(f"postgresql+psycopg://ann:hunter2@{address}"), 1)
    assert message.startswith(f"no server answers at {place}")
    assert message.endswith("): start that server, or correct CURATION_DB_URL")
    assert "hunter2" not in message


def test_a_wrong_password_is_refused_without_waiting(guarded: URL) -> None:
    message = refusal(guarded.set(password="hunter2"), ENDLESS)
    assert "password authentication failed" in message
    assert "hunter2" not in message


def test_no_password_is_refused_without_waiting(guarded: URL) -> None:
    assert "no password supplied" in refusal(guarded.set(password=""), ENDLESS)


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = URL.create("postgresql+psycopg", "ann", "hunter2", "127.0.0.1", free.getsockname()[1], "films")
        message = refusal(url, 2)
    assert "127.0.0.1" in message
    assert "refused" in message
    assert "hunter2" not in message


def test_a_host_that_does_not_exist() -> None:
    message = refusal(URL.create("postgresql+psycopg", "ann", "hunter2", "nowhere.invalid", database="films"), 1)
    assert "nowhere.invalid" in message
    assert "hunter2" not in message


def test_a_transaction_commits_at_its_end(engine: Engine) -> None:
    with open_psycopg_transaction(engine) as connection:
        connection.execute("INSERT INTO dataset (name, n_shards) VALUES ('clips', 1)")
    assert names(engine) == ["clips"]


def test_a_transaction_leaves_nothing_after_an_error(engine: Engine) -> None:
    row = "INSERT INTO dataset (name, n_shards) VALUES ('clips', 1)"
    with open_psycopg_transaction(engine) as connection:
        connection.execute(row)
        assert names(engine) == []  # another connection sees nothing of it before the end
    two_rows = "INSERT INTO dataset (name, n_shards) VALUES ('other', 1), ('clips', 1)"
    with pytest.raises(psycopg.errors.UniqueViolation), open_psycopg_transaction(engine) as connection:
        connection.execute(two_rows)
    assert names(engine) == ["clips"]


def test_a_pooled_connection_is_usable_after_a_failed_statement(engine: Engine) -> None:
    for _ in range(10):
        with pytest.raises(Exception, match="nonsense"), open_psycopg_transaction(engine) as connection:
            connection.execute("SELECT nonsense")
    assert names(engine) == []


def names(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(connection.scalars(sa.select(dataset.c.name)))


def test_a_server_on_a_full_disk_is_told_from_one_that_is_not_there() -> None:
    answer = psycopg.OperationalError("FATAL:  could not write init file: No space left on device")
    said = str(build_connection_error(URL.create("postgresql", host="h", database="d"), answer))
    assert said.startswith(
        "the disk of the database is full (FATAL:  could not write init file: No space left on device)"
    )
