"""Every command and door of Reelsieve runs nothing, and reads no settings, of a folder of somebody else in which it is
called.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import pytest

from metrics_core.child_processes import STARTED_IN, build_user_environment, locate_path, protect_children
from orchestration.cli.dagster import make_paths_absolute
from orchestration.installation import get_installation
from orchestration.launch import run_ingest
from orchestration.sensors.failures import run_failure_command
from tests.orchestration.conftest import Installation
from tests.orchestration.foreign import Foreign, foreign, fresh_environment
from tests.orchestration.test_ui import free_port, group_lives, has_definitions, until

__all__ = ["foreign"]  # a fixture

pytestmark = pytest.mark.slow

SELECT = """
import reelsieve as rs
try:
    rs.select({"by": "vcs_short", "keep": 0.5}, "mine")
except rs.ReelsieveError as error:
    assert "of dataset 'mine' has a vcs_short score" in str(error)
"""
COMMANDS = {
    "reelsieve dagster asset list": 0,
    "reelsieve score -d mine --metric vcs --metric vcs_short --engine ray": 0,
    "python FOLDER/choose.py": 0,
    "reelsieve try MANIFEST -d tried": 0,
    "reelsieve dg list defs": 0,
    "reelsieve dagster definitions validate": 0,
    'reelsieve dagster job execute -j dataset_job --tags {"dagster/partition":"mine"}': 0,
    "reelsieve report -d mine": 0,
    "reelsieve prove 1": None,
    "reelsieve doctor": None,
    "reelsieve demo": 0,
}
# Every way to start a process is among the first three; the others take long for what they add.
ALWAYS = 3


@pytest.fixture(scope="module", autouse=True)
def ingested(installation: Installation) -> None:
    """A dataset `mine` of one shard, in a home that only REELSIEVE_HOME names."""
    run_ingest(get_installation(), installation.manifest, "mine", None, 1)


@pytest.fixture(autouse=True)
def _untouched(foreign: Foreign) -> Iterator[None]:
    with foreign.untouched():
        yield


def build_command(command: str, **words: object) -> list[str]:
    program, *arguments = command.split()
    for word, meant in words.items():
        arguments = [argument.replace(word, str(meant)) for argument in arguments]
    return [str(Path(sys.executable).with_name(program)), *arguments]


@pytest.mark.parametrize(
    ("command", "code"),
    [pytest.param(*item, marks=[] if n < ALWAYS else pytest.mark.expensive) for n, item in enumerate(COMMANDS.items())],
)
def test_commands_and_doors(
    command: str, code: int | None, foreign: Foreign, installation: Installation, tmp_path: Path
) -> None:
    if "ray" in command and find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    (tmp_path / "choose.py").write_text(SELECT)
    arguments = build_command(command, FOLDER=tmp_path, MANIFEST=installation.manifest)
    done = subprocess.run(arguments, cwd=foreign.folder, env=fresh_environment(), capture_output=True, text=True)
    assert code is None or done.returncode == code, done.stdout + done.stderr


@pytest.mark.expensive
def test_the_web_interface_of_dagster(foreign: Foreign, tmp_path: Path) -> None:
    """That of `reelsieve ui`, which starts the same processes, serves from such a folder in test_ui.py."""
    port, log = free_port(), tmp_path / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            build_command("reelsieve dagster dev --port PORT", PORT=port),
            cwd=foreign.folder,
            env=fresh_environment(),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        until(lambda: server.poll() is not None or has_definitions(address), "the web interface to answer", log)
        assert server.poll() is None, log.read_text()
        server.send_signal(signal.SIGINT)
        until(lambda: server.poll() is not None and not group_lives(server.pid), "every process to end", log)
    finally:
        if group_lives(server.pid):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_programs_of_the_user_start_in_their_folder_with_their_environment(tmp_path: Path) -> None:
    """They may import what lies there."""
    seen = tmp_path / "seen"
    (tmp_path / "own_module.py").write_text(f"import os; open({str(seen)!r}, 'w').write(os.getcwd())\n")
    with patch.dict(os.environ, {STARTED_IN: str(tmp_path)}), protect_children():
        assert "PYTHONSAFEPATH" in os.environ
        run_failure_command(f"{sys.executable} -m own_module", {})
        assert build_user_environment().keys().isdisjoint({"PYTHONSAFEPATH", STARTED_IN})
    assert seen.read_text() == str(tmp_path)
    with patch.dict(os.environ, PYTHONSAFEPATH="1"), protect_children():
        assert build_user_environment()["PYTHONSAFEPATH"] == "1", "of the user"


def test_relative_paths_count_from_the_folder_of_the_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(("", "lib", "/usr/lib")))
    with protect_children():
        assert locate_path("clips") == Path("clips")
        assert os.environ["PYTHONPATH"] == f"{tmp_path}/lib:/usr/lib"
        os.chdir("empty")
        assert locate_path("clips") == tmp_path / "clips"
        assert locate_path("/clips") == Path("/clips")
    assert os.environ["PYTHONPATH"] == ":lib:/usr/lib"
    assert STARTED_IN not in os.environ


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ("definitions validate -w workspace.yaml", "definitions validate -w HERE/workspace.yaml"),
        ("job execute --config=run.yaml -j a", "job execute --config=HERE/run.yaml -j a"),
        ("dev -m mine", "dev -m mine --working-directory HERE"),
        ("dev -m mine -d run.yaml", "dev -m mine -d HERE/run.yaml"),
        ("debug export 1234 run.gz", "debug export 1234 HERE/run.gz"),
        ("asset list", "asset list"),
    ],
)
def test_paths_among_the_arguments_of_dagster(
    given: str, passed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("workspace.yaml", "run.yaml", "asset"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert make_paths_absolute(given.split()) == passed.replace("HERE", str(tmp_path)).split()
