"""Which home a command takes, whose it may be, and the note before it starts a second server."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from assets.home.folder import find_home, locate_home
from assets.home.settings import SettingsError, apply_settings_file
from db.server.embedded import stop_embedded
from db.server.processes import is_embedded_running, list_running_homes
from orchestration.second_server import explain_second_server
from orchestration.settings import get_settings
from tests.command_line import run_command, run_successfully
from tests.homes import copy_home
from tests.orchestration.conftest import forget_installation
from tests.ordinary_user import NOBODY, open_folder, ordinary_user

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user")


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path, None, None]:
    """The home that commands take unless another one is named, of an account that stands in a folder `project`."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("REELSIEVE_HOME", "")  # as good as unset, and reset after the test
    monkeypatch.delenv("CURATION_DB_URL", raising=False)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    forget_installation()
    yield tmp_path / "data" / "reelsieve"
    apply_settings_file({})
    forget_installation()
    stop_embedded(tmp_path / "data" / "reelsieve")


def test_without_a_name_the_home_is_in_the_accounts_folder_for_data(
    account: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".reelsieve").mkdir()
    (tmp_path / "project" / ".reelsieve").mkdir()
    assert get_settings().home_folder == find_home() == account
    for name in ("data", ""):
        monkeypatch.setenv("XDG_DATA_HOME", name)
        assert find_home().is_absolute()
        assert not find_home().is_relative_to(tmp_path / "project"), "a relative folder is none"


def test_an_account_without_a_folder_for_data_needs_a_name(account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> Path:
        raise RuntimeError

    monkeypatch.setattr("assets.home.folder.user_data_path", fail)
    done = run_command("dataset", "list")
    assert (done.returncode, done.stderr) == (
        1,
        "error: this account has no folder for data: name a home by --home or REELSIEVE_HOME\n",
    )
    assert run_command("--home", "h", "dataset", "list", COLUMNS="80").returncode == 0


def test_the_option_wins_over_the_variable_and_the_variable_over_the_file(account: Path, tmp_path: Path) -> None:
    own = tmp_path / "config" / "reelsieve" / "reelsieve.toml"
    own.parent.mkdir(parents=True)
    own.write_text('home = "h"\n')
    project = tmp_path / "project"
    for arguments, variable, home in (
        ([], "", own.parent / "h"),
        ([], "by_variable", project / "by_variable"),
        (["--home", "by_option"], "by_variable", project / "by_option"),
    ):
        apply_settings_file({})
        done = run_command(*arguments, "dataset", "list", REELSIEVE_HOME=variable)
        assert f"no dataset yet in home {home}: try" in done.stdout
    assert list(project.iterdir()) == []


def test_no_program_that_a_named_home_names_is_run(account: Path, migrated_home: Path, tmp_path: Path) -> None:
    home, trace = tmp_path / "project" / ".reelsieve", tmp_path / "trace"
    copy_home(migrated_home, home)
    with (home / "postgres" / "postgresql.auto.conf").open("a") as file:
        file.write(f"archive_mode = on\narchive_command = 'touch {trace}'\narchive_timeout = 1\n")
    assert "no dataset" in run_successfully("--home", ".reelsieve", "dataset", "list", COLUMNS="80").stdout
    assert run_successfully("--home", ".reelsieve", "db", "stop", COLUMNS="80").stdout == "stopped\n"
    assert not trace.exists()


@ROOT_ONLY
def test_a_home_of_another_account_is_refused(account: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    refusal = f"home folder {home} is not this account's: set REELSIEVE_HOME to one that is"
    for command in ("dataset list", "db start", "db stop", "db url", "sql SELECT", "ui", "demo"):
        done = run_command("--home", str(home), *command.split(), COLUMNS="80")
        assert (done.returncode, done.stderr) == (1, f"error: {refusal}\n"), command
    assert list(home.iterdir()) == []


@ROOT_ONLY
def test_a_home_that_root_made_for_an_account_is_the_accounts_with_its_data() -> None:
    with open_folder() as folder:
        with ordinary_user():
            assert locate_home(folder) == folder
        (folder / "postgres").mkdir()
        assert locate_home(folder) == folder
        with ordinary_user(), pytest.raises(SettingsError, match="is not this account's"):
            locate_home(folder)
        os.chown(folder / "postgres", NOBODY, NOBODY)
        with ordinary_user():
            assert locate_home(folder) == folder
        folder.chmod(0o700)
        with ordinary_user(), pytest.raises(SettingsError, match="is not this account's"):
            locate_home(folder)


def test_a_file_is_no_home(account: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run_command("--home", str(tmp_path / "file"), "dataset", "list", COLUMNS="80")
    refusal = f"home {tmp_path / 'file'} is not a folder: name one by --home or REELSIEVE_HOME"
    assert (done.returncode, done.stderr) == (1, f"error: {refusal}\n")


def test_a_home_of_an_account_that_does_not_exist_is_refused(account: Path) -> None:
    done = run_command("--home", "~no_such_account/home", "dataset", "list", COLUMNS="80")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "since there is no folder ~no_such_account: name another one by --home" in done.stderr


@ROOT_ONLY
def test_a_server_of_another_user_is_passed_over(server_home: Path) -> None:
    with ordinary_user():
        assert server_home not in list_running_homes()


def test_a_command_says_that_it_starts_a_second_server(account: Path, server_home: Path, tmp_path: Path) -> None:
    assert server_home in list_running_homes()
    assert explain_second_server(server_home) is None
    first = run_command("db", "start")
    assert (first.returncode, is_embedded_running(account)) == (0, True)
    assert "a second server" in first.stderr.replace("\n", " ")
    forget_installation()
    again = run_command("db", "start")
    assert (again.returncode, again.stderr) == (0, "")
    assert run_command("db", "stop").stdout == "stopped\n"


def test_status_without_a_home_starts_no_server(account: Path, server_home: Path) -> None:
    done = run_command("dataset", "list")
    assert (done.returncode, f"no dataset yet in home {account}: try" in done.stdout) == (0, True)
    assert "this command finds no data in" in done.stderr
    assert run_command("dataset", "list", "--json").stdout == "[]\n"
    assert not account.exists()


def test_another_server_is_named_by_its_variable(tmp_path: Path) -> None:
    named = tmp_path / "my home"
    assert explain_second_server(tmp_path / "h", lambda: [named]) == (
        f"this command starts a second server in {tmp_path}/h, and another one runs in {named}: to use that, set "
        f"REELSIEVE_HOME='{named}'"
    )
    assert explain_second_server(tmp_path / "h", list) is None
