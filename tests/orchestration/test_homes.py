"""Which home a command takes, and what it says before it starts a second server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assets.home import find_home, list_homes_nearby
from db.server.embedded import stop_embedded
from db.server.processes import is_embedded_running, list_running_homes
from orchestration.second_server import explain_second_server
from tests.command_line import run_command
from tests.orchestration.conftest import forget_installation
from tests.ordinary_user import ordinary_user


def test_the_nearest_home_upwards_is_taken(tmp_path: Path) -> None:
    outer, inner = tmp_path / ".reelsieve", tmp_path / "a" / ".reelsieve"
    below = tmp_path / "a" / "b" / "c"
    below.mkdir(parents=True)
    assert find_home(below) == below / ".reelsieve", "without any home it is in the folder itself"
    outer.mkdir()
    assert find_home(below) == outer
    inner.mkdir()
    assert find_home(below) == inner
    (below / ".reelsieve").write_text("no folder")
    assert find_home(below) == inner


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user")
def test_above_the_folder_a_home_of_another_user_does_not_count(tmp_path: Path) -> None:
    foreign = tmp_path / ".reelsieve"
    foreign.mkdir()
    os.chown(foreign, 12345, 12345)
    (tmp_path / "a").mkdir()
    assert find_home(tmp_path / "a") == tmp_path / "a" / ".reelsieve"
    assert find_home(tmp_path) == foreign


def test_homes_below_and_beside_are_near(tmp_path: Path) -> None:
    for name in ("here/below/.reelsieve", "beside/.reelsieve", "here/below/deeper/.reelsieve", "here/.reelsieve"):
        (tmp_path / name).mkdir(parents=True)
    assert list_homes_nearby(tmp_path / "here") == [
        tmp_path / "here" / "below" / ".reelsieve",
        tmp_path / "beside" / ".reelsieve",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_server_of_another_user_is_passed_over(server_home: Path) -> None:
    with ordinary_user():
        assert server_home not in list_running_homes()


def test_a_command_says_that_it_starts_a_second_server(
    server_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server_home in list_running_homes()
    assert explain_second_server(server_home) is None
    monkeypatch.delenv("REELSIEVE_HOME", raising=False)
    monkeypatch.delenv("CURATION_DB_URL", raising=False)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)
    forget_installation()
    try:
        first = run_command("db", "start")
        assert (first.returncode, is_embedded_running(tmp_path / ".reelsieve")) == (0, True)
        assert "a second server" in first.stderr.replace("\n", " ")
        monkeypatch.chdir(tmp_path / "below")
        forget_installation()
        again = run_command("db", "start")
        assert (again.returncode, again.stderr) == (0, ""), "the home above runs already"
        assert not (tmp_path / "below" / ".reelsieve").exists()
        assert run_command("db", "stop").stdout == "stopped\n"
    finally:
        forget_installation()
        stop_embedded(tmp_path / ".reelsieve")


def test_status_in_an_empty_folder_starts_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REELSIEVE_HOME", raising=False)
    monkeypatch.delenv("CURATION_DB_URL", raising=False)
    (tmp_path / "empty").mkdir()
    (tmp_path / "beside" / ".reelsieve").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "empty")
    forget_installation()
    try:
        done = run_command("dataset", "list")
        assert (done.returncode, f"no dataset yet in home {tmp_path}/empty/.reelsieve: try" in done.stdout) == (0, True)
        assert "this command finds no data in" in done.stderr
        assert run_command("dataset", "list", "--json").stdout == "[]\n"
        assert list((tmp_path / "empty").iterdir()) == []
    finally:
        forget_installation()
        stop_embedded(tmp_path / "empty" / ".reelsieve")


def test_a_new_home_beside_another_one_is_said_where_no_server_runs(tmp_path: Path) -> None:
    (tmp_path / "a" / ".reelsieve").mkdir(parents=True)
    (tmp_path / "b" / ".reelsieve" / "postgres").mkdir(parents=True)
    (tmp_path / "b" / ".reelsieve" / "postgres" / "PG_VERSION").touch()
    note = explain_second_server(tmp_path / "c" / ".reelsieve", list)
    assert note == (
        f"this command makes a new home in {tmp_path}/c/.reelsieve, and there is one in {tmp_path}/a/.reelsieve: "
        f"to use that, run the command in {tmp_path}/a, or set REELSIEVE_HOME={tmp_path}/a/.reelsieve"
    )
    named = tmp_path / "my home"
    note = explain_second_server(tmp_path / "c" / ".reelsieve", lambda: [named])
    assert note is not None
    assert note.endswith(f"another one runs in {named}: to use that, set REELSIEVE_HOME='{named}'"), (
        "no folder finds it"
    )
    assert explain_second_server(tmp_path / "b" / ".reelsieve", list) is None
