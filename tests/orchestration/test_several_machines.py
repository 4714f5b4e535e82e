"""Two homes, as of two machines, that share one Postgres by URL and a dagster.yaml of the operator's."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import pytest

from db.server.embedded import stop_embedded
from tests.command_line import Done, run_command
from tests.orchestration.conftest import forget_installation, write_manifest

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "dagster.yaml"


@dataclass(frozen=True, slots=True)
class Machine:
    """A home folder with the variables that lead to the shared server."""

    variables: dict[str, str]

    def run(self, *arguments: str) -> Done:
        """Run a command here."""
        # What a command leaves in the environment is of its own machine.
        with patch.dict(os.environ):
            return run_command(*arguments, **self.variables)


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Generator[Machine, None, None]:
    """The machine with the server."""
    home = tmp_path_factory.mktemp("server")
    with patch.dict(os.environ):
        for name in ("CURATION_DB_URL", "DAGSTER_HOME"):
            os.environ.pop(name, None)
        yield Machine({"REELSIEVE_HOME": str(home)})
        forget_installation()
        stop_embedded(home)


@pytest.fixture(scope="module")
def started(owner: Machine) -> Done:
    return owner.run("db", "start", "--listen", "--json")


@pytest.fixture(scope="module")
def machines(
    owner: Machine, started: Done, tmp_path_factory: pytest.TempPathFactory, tiny_text_encoder: Path
) -> list[Machine]:
    url = read(owner.run("db", "url", "--owner", "--json"))["url"]
    found = []
    for name in ("first", "second"):
        dagster_home = tmp_path_factory.mktemp(f"{name} dagster")
        shutil.copyfile(EXAMPLE, dagster_home / "dagster.yaml")
        variables = {
            "REELSIEVE_HOME": str(tmp_path_factory.mktemp(name)),
            "CURATION_DB_URL": url,
            "DAGSTER_HOME": str(dagster_home),
            "REELSIEVE_TEXT_ENCODER": str(tiny_text_encoder),
        }
        found.append(Machine(variables))
    return found


def read(done: Done) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_start_prints_no_password(owner: Machine, started: Done) -> None:
    shown = read(started)["url"]
    assert shown.startswith("postgresql://postgres:***@127.0.0.1:")
    assert read(owner.run("db", "url", "--json"))["url"] == shown
    assert read(owner.run("db", "start", "--listen", "--json"))["url"] == shown


def test_the_roles_urls_connect(owner: Machine, started: Done) -> None:
    for role, name in (("--owner", "postgres"), ("--reader", "reelsieve_reader")):
        done = owner.run("db", "url", role)
        with psycopg.connect(done.stdout.strip()) as connection:
            assert connection.execute("SELECT current_user").fetchone() == (name,)
    both = owner.run("db", "url", "--owner", "--reader")
    assert (both.returncode, both.stdout) == (1, "")
    assert "give one of them" in both.stderr


def test_one_machine_scores_what_the_other_ingested(machines: list[Machine], tmp_path: Path) -> None:
    first, second = machines
    folder = write_manifest(tmp_path, n_videos=4)
    assert read(first.run("ingest", str(folder), "--dataset", "shared", "--json"))["rejected"] == 0
    scored = read(second.run("score", "--dataset", "shared", "--metric", "vcs", "--json"))
    assert [shard["vcs"] for shard in scored["shards"]] == [12]
    assert "nothing to score" in first.run("score", "--dataset", "shared", "--metric", "vcs").stdout
    assert len(read(first.run("dataset", "scores", "--dataset", "shared", "--by", "vcs", "--json"))) == 12
    # Both look at one Dagster, whose runs are in the shared database; files stay with their machine.
    from orchestration import installation

    for machine in machines:
        forget_installation()
        with patch.dict(os.environ, machine.variables):
            assert {run.job_name for run in installation.get_installation().instance.get_runs()} == {
                "ingest_job",
                "scoring_job",
            }
            assert installation.get_installation().instance.root_directory == str(
                Path(machine.variables["REELSIEVE_HOME"]) / "dagster"
            )
            queue = installation.get_installation().instance.get_concurrency_config().run_queue_config
            assert queue is not None
            assert queue.max_concurrent_runs == 8, "as the example says, unlike this project's own file"
            forget_installation()


def test_a_dagster_home_without_its_file_is_named(machines: list[Machine], tmp_path: Path) -> None:
    machine = Machine({**machines[0].variables, "DAGSTER_HOME": str(tmp_path)})
    done = machine.run("score", "--dataset", "shared")
    assert done.returncode == 1
    assert f"DAGSTER_HOME is {tmp_path}, which has no dagster.yaml" in done.stderr.replace("\n", " ")


def test_a_server_in_use_is_not_started_anew(owner: Machine, machines: list[Machine]) -> None:
    with psycopg.connect(machines[0].variables["CURATION_DB_URL"]):
        done = owner.run("db", "start", "--no-listen")
    assert done.returncode == 1
    assert "open: end the commands" in " ".join(done.stderr.split())
    assert machines[0].run("db", "start", "--listen").stderr.startswith("error: CURATION_DB_URL names a server")
