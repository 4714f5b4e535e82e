"""Dagster's own commands, as docs/dagster.md shows them: bare in the project's folder, behind `reelsieve` in any."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from orchestration.launch import run_ingest
from orchestration.platform import PROJECT, engine, instance
from tests.orchestration.conftest import Installation
from tests.orchestration.test_ui import free_port, group_lives, has_definitions, until

PAGE = (PROJECT / "docs" / "dagster.md").read_text(encoding="utf-8")
BARE, ANYWHERE = (
    block.splitlines() for block in re.findall(r"^```sh\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
)

# It gives its daemon and its server time to end.
PATIENCE_S = 60

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def ingested(installation: Installation) -> None:
    """A dataset `mine` of one shard, in a home that only REELSIEVE_HOME names."""
    run_ingest(installation.manifest, "mine", None, 1)


def fresh_environment() -> dict[str, str]:
    """An environment that knows nothing of Dagster, with the commands of this installation."""
    theirs = ("DAGSTER_", "REELSIEVE_DAGSTER_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
    return {**environment, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"}


def run(command: str, folder: Path) -> str:
    """What a command prints that ends well."""
    done = subprocess.run(shlex.split(command), cwd=folder, env=fresh_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_bare_commands_in_the_folder_of_the_project() -> None:
    """Each finds the home, and its run is one of the home's runs."""
    assert (PROJECT / ".env").is_file(), "make setup writes it"
    said = {shlex.split(command)[0] + str(place): run(command, PROJECT) for place, command in enumerate(BARE)}
    assert "Validation successful" in said["dagster0"]
    assert "vcs_score" in said["dagster1"].splitlines()
    with engine().connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM score")) == 36
    assert {run.job_name for run in instance().get_runs()} >= {"ingest_job", "dataset_job"}
    assert "All definitions loaded successfully" in said["dg4"]
    assert "vcs_score" in said["dg5"]


def test_the_web_interface_in_the_folder_of_the_project(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    with log.open("wb") as output:
        command = ["dagster", "dev", "--port", str(port)]
        server = subprocess.Popen(
            command, cwd=PROJECT, env=fresh_environment(), stdout=output, stderr=output, start_new_session=True
        )
    try:
        address = f"http://127.0.0.1:{port}"
        until(lambda: server.poll() is not None or has_definitions(address), "the web interface to answer", log)
        assert server.poll() is None, log.read_text()
        server.send_signal(signal.SIGINT)
        server.wait(PATIENCE_S)
        assert "Traceback" not in log.read_text()
    finally:
        if group_lives(server.pid):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_the_same_commands_in_any_folder(tmp_path: Path) -> None:
    assets, definitions = (run(command, tmp_path) for command in ANYWHERE)
    assert "vcs_score" in assets.splitlines()
    assert "vcs_score" in definitions


def test_their_options_and_exit_codes_are_passed_on(tmp_path: Path) -> None:
    assert "version 1.13" in run("reelsieve dagster --version", tmp_path)
    assert "materialize" in run("reelsieve dagster asset --help", tmp_path)
    with pytest.raises(AssertionError, match="No such command 'nothing'"):
        run("reelsieve dagster nothing", tmp_path)


def test_a_home_of_dagster_without_its_file_is_one_sentence(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("reelsieve")), "dagster", "asset", "list"]
    environment = {**os.environ, "DAGSTER_HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: DAGSTER_HOME is {tmp_path}, which has no dagster.yaml: put one there")
    assert done.stderr.count("\n") == 1
