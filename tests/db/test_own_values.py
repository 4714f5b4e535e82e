"""Files of a data folder make its server run, load and connect to nothing; and no server gets a password by asking."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import psycopg
import psycopg2
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import URL

from db.server.access import format_owner_url, start_listening
from db.server.embedded import start_embedded, stop_embedded
from db.server.engine import open_connection, open_engine
from db.server.urls import DatabaseUnavailable, build_sibling_url, format_psycopg2_url, format_url, parse_url
from tests.homes import copy_home

# Settings that name a program, a library, another server or a file, by their names; and what of them may stay as it is.
REACHING = re.compile(
    r"command|librar|_path$|conninfo|_file$|_dir$|director|standby|slot|provider|collector|archive_mode"
)
HARMLESS = {
    # Where this server itself is, as its command line says.
    *("config_file", "data_directory", "hba_file", "ident_file", "external_pid_file", "unix_socket_directories"),
    # Read for TLS and Kerberos only, which are off; and for logs of the collector, which is off.
    *("ssl_ca_file", "ssl_cert_file", "ssl_crl_dir", "ssl_crl_file", "ssl_dh_params_file", "ssl_key_file"),
    *("krb_server_keyfile", "log_directory", "log_filename", "ssl_passphrase_command_supports_reload"),
    # Numbers, switches and the server's own library.
    *("data_directory_mode", "ssl_library", "search_path", "idle_replication_slot_timeout", "max_replication_slots"),
    *("max_slot_wal_keep_size", "max_standby_archive_delay", "max_standby_streaming_delay", "hot_standby"),
    *("hot_standby_feedback", "in_hot_standby", "autovacuum_worker_slots", "wal_receiver_create_temp_slot"),
    "log_replication_commands",
}


@pytest.fixture
def home(migrated_home: Path, tmp_path: Path) -> Iterator[Path]:
    """A home whose server stands still."""
    home = tmp_path / "home"
    copy_home(migrated_home, home)
    yield home
    stop_embedded(home)


def hostile_values(trace: Path) -> dict[str, str]:
    """What the files of somebody else's data folder may say; a program that runs, or a library, makes `trace`."""
    program = f"touch {trace}"
    return {
        "archive_mode": "on",
        "archive_timeout": "1",
        "archive_command": program,
        "restore_command": program,
        "archive_cleanup_command": program,
        "recovery_end_command": program,
        "ssl_passphrase_command": program,
        "shared_preload_libraries": f"{trace}.so",
        "session_preload_libraries": f"{trace}.so",
        "local_preload_libraries": f"{trace}.so",
        "oauth_validator_libraries": f"{trace}.so",
        "jit_provider": f"{trace}.so",
        "dynamic_library_path": str(trace.parent),
        "extension_control_path": str(trace.parent),
        "primary_conninfo": "host=127.0.0.1 port=1",
        "primary_slot_name": "theirs",
        "sync_replication_slots": "on",
        "max_logical_replication_workers": "9",
        "synchronous_standby_names": "nobody",
        "synchronized_standby_slots": "theirs",
        "logging_collector": "on",
        "log_destination": "csvlog",
        "log_directory": str(trace.parent / "logs"),
        "external_pid_file": str(trace),
        "data_directory": str(trace.parent),
        "hba_file": str(trace.parent / "hba"),
        "ident_file": str(trace.parent / "ident"),
        "listen_addresses": "*",
        "port": "1",
        "unix_socket_directories": str(trace.parent),
    }


@pytest.mark.parametrize("name", ["postgresql.conf", "postgresql.auto.conf"])
def test_values_of_the_data_folder_do_not_count(home: Path, tmp_path: Path, name: str) -> None:
    hostile = hostile_values(tmp_path / "trace")
    with (home / "postgres" / name).open("a") as file:
        file.writelines(f"{setting} = '{value}'\n" for setting, value in hostile.items())
    before = sorted(tmp_path.iterdir())
    with open_connection(build_sibling_url(start_embedded(home), "postgres"), autocommit=True) as connection:
        connection.execute("SELECT pg_switch_wal()")
        rows = connection.execute(
            "SELECT name, setting, sourcefile FROM pg_settings WHERE name = ANY(%s)", [[*hostile]]
        ).fetchall()
    found = {setting: (value, source) for setting, value, source in rows}
    assert found.keys() == hostile.keys()
    # It sets no program and no place.
    assert found.pop("archive_timeout")[0] == "1"
    assert found.pop("log_directory")[0] == hostile["log_directory"]
    for setting, (value, source) in found.items():
        assert value != hostile[setting], setting
        assert source is None, setting
    assert sorted(tmp_path.iterdir()) == before, "nothing was written beside the home"


def test_no_setting_that_reaches_outside_is_left_to_the_files(home: Path) -> None:
    """A setting that a later Postgres adds fails here, until someone has looked at it."""
    with open_connection(build_sibling_url(start_embedded(home), "postgres")) as connection:
        rows = connection.execute("SELECT name, source FROM pg_settings").fetchall()
    reaching = {name for name, _ in rows if REACHING.search(name)}
    ours = {name for name, source in rows if source == "command line"}
    assert reaching - HARMLESS - ours == set()


def test_a_home_is_for_its_account_only(tmp_path: Path) -> None:
    home = tmp_path / "open" / "home"
    before = os.umask(0)
    try:
        start_embedded(home)
    finally:
        os.umask(before)
    try:
        # As root Postgres runs as another user, who must pass through.
        assert stat.S_IMODE(home.stat().st_mode) == (0o711 if os.geteuid() == 0 else 0o700)
        for path in home.iterdir():
            assert stat.S_IMODE(path.stat().st_mode) in (0o700, 0o600), path
    finally:
        stop_embedded(home)


# Passwords.

WAYS = ("scram-sha-256", "password", "md5", "trust")
# How libpq calls what pg_hba.conf calls trust.
ALLOWED = {"trust": "none"}


@pytest.fixture(scope="module")
def asking(migrated_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[URL]:
    """A server that listens and asks the role of each way in that way."""
    home = tmp_path_factory.mktemp("asking") / "home"
    copy_home(migrated_home, home)
    url = build_sibling_url(start_listening(home), "postgres")
    access = home / "postgres" / "pg_hba.conf"
    access.write_text("".join(f'host all "by {way}" all {way}\n' for way in WAYS) + access.read_text())
    with open_connection(url, autocommit=True) as connection:
        for way in WAYS:
            connection.execute(f"SET password_encryption = '{'md5' if way == 'md5' else 'scram-sha-256'}'".encode())
            connection.execute(f"CREATE ROLE \"by {way}\" LOGIN SUPERUSER PASSWORD 's%cret'".encode())
        connection.execute("SELECT pg_reload_conf()")
    yield url
    stop_embedded(home)


def written(asking: URL, way: str, *, is_allowed: bool = False) -> str:
    """The URL as a user writes it, without or with what allows the server's way."""
    query = {"require_auth": ALLOWED.get(way, way)} if is_allowed else {}
    url = asking.set(drivername="postgresql", username=f"by {way}", password="s%cret", query=query)
    return url.render_as_string(hide_password=False)


@pytest.mark.parametrize("way", ["password", "md5", "trust"])
def test_a_password_goes_to_no_server_that_asks_for_it_otherwise(asking: URL, way: str) -> None:
    url = parse_url(written(asking, way))
    with pytest.raises(DatabaseUnavailable, match="by scram-sha-256, or allow its way in CURATION_DB_URL") as refused:
        open_engine(url)
    assert "s%cret" not in str(refused.value)
    with pytest.raises(psycopg.OperationalError, match="authentication method requirement"):
        open_connection(url)
    with pytest.raises(psycopg2.OperationalError, match="authentication method requirement"):
        psycopg2.connect(
            sa.engine.make_url(format_psycopg2_url(url)).set(drivername="postgresql").render_as_string(False)
        )


@pytest.mark.parametrize("way", WAYS)
def test_a_url_may_allow_the_way_of_its_server(asking: URL, way: str) -> None:
    url = parse_url(written(asking, way, is_allowed=way != "scram-sha-256"))
    open_engine(url).dispose()
    for driver in (url, sa.engine.make_url(format_psycopg2_url(url))):
        engine = sa.create_engine(driver)
        with engine.connect() as connection:
            assert connection.exec_driver_sql("SELECT current_user").scalar() == f"by {way}"
        engine.dispose()
    assert parse_url(format_owner_url(url)) == url, "what is shown leads there again"
    shown = format_url(url)
    assert ("require_auth" in shown) == (way != "scram-sha-256")


def test_the_socket_of_a_home_gets_no_password(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "s%cret")
    url = start_embedded(home)
    open_engine(build_sibling_url(url, "postgres")).dispose()
    access = home / "postgres" / "pg_hba.conf"
    with open_connection(build_sibling_url(url, "postgres"), autocommit=True) as connection:
        access.write_text(f"local all all password\n{access.read_text()}")
        connection.execute("SELECT pg_reload_conf()")
        with pytest.raises(DatabaseUnavailable, match="authentication method requirement"):
            open_engine(build_sibling_url(url, "postgres"))
