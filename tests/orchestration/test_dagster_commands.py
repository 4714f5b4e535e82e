"""Dagster's own commands, as docs/dagster.md shows them: bare in the project's folder, behind `reelsieve` in any."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy as sa

from orchestration.installation import PROJECT_FOLDER, get_installation
from orchestration.launch import run_ingest
from reelsieve.dagster import definitions
from tests.command_line import run_command
from tests.orchestration.conftest import Installation
from tests.orchestration.foreign import fresh_environment
from tests.orchestration.test_ui import free_port, group_lives, has_definitions, until

PAGE = (PROJECT_FOLDER / "docs" / "dagster.md").read_text(encoding="utf-8")
BARE, ANYWHERE, PROJECT_OF_ANOTHER = (
    block.splitlines() for block in re.findall(r"^```sh\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
)

# It gives its daemon and its server time to end.
PATIENCE_S = 60

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def ingested(installation: Installation) -> None:
    """A dataset `mine` of one shard, in a home that only REELSIEVE_HOME names."""
    run_ingest(get_installation(), installation.manifest, "mine", None, 1)


def run(command: str, folder: Path, **variables: str) -> str:
    """What a command prints that ends well."""
    environment = {**fresh_environment(), **variables}
    done = subprocess.run(shlex.split(command), cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_bare_command_in_the_folder_of_the_project() -> None:
    """It finds the home, and its run is one of the home's runs."""
    assert (PROJECT_FOLDER / ".env").is_file(), "make setup writes it"
    _, _, materialize, *_ = BARE
    before = len(get_installation().instance.get_runs())
    # The page makes scores of a model, which takes seconds more.
    run(materialize.replace("text_embedding,vcs_score", "words_in_common_score"), PROJECT_FOLDER)
    with get_installation().engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM score")) == 36
    assert len(get_installation().instance.get_runs()) == before + 1


@pytest.mark.expensive
def test_further_bare_commands_in_the_folder_of_the_project() -> None:
    validate, listing, materialize, job, check, definitions_list = BARE
    assert "Validation successful" in run(validate, PROJECT_FOLDER)
    assert "vcs_score" in run(listing, PROJECT_FOLDER).splitlines()
    run(materialize, PROJECT_FOLDER)
    run(job, PROJECT_FOLDER)
    assert "dataset_job" in {run.job_name for run in get_installation().instance.get_runs()}
    assert "All definitions loaded successfully" in run(check, PROJECT_FOLDER)
    assert "vcs_score" in run(definitions_list, PROJECT_FOLDER)


@pytest.mark.expensive
def test_the_web_interface_in_the_folder_of_the_project(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    with log.open("wb") as output:
        command = ["dagster", "dev", "--port", str(port)]
        server = subprocess.Popen(
            command, cwd=PROJECT_FOLDER, env=fresh_environment(), stdout=output, stderr=output, start_new_session=True
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


@pytest.mark.expensive
def test_the_same_commands_in_any_folder(tmp_path: Path) -> None:
    assets, definitions = (run(command, tmp_path) for command in ANYWHERE)
    assert "vcs_score" in assets.splitlines()
    assert "vcs_score" in definitions


def test_their_options_and_exit_codes_are_passed_on(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="No such command 'nothing'"):
        run("reelsieve dagster nothing --help", tmp_path)


@pytest.mark.expensive
def test_a_project_of_somebody_else(tmp_path: Path) -> None:
    """The example: a component and Reelsieve's definitions in a project with an instance of its own, on SQLite."""
    project, home = tmp_path / "project", tmp_path / "dagster"
    shutil.copytree(PROJECT_FOLDER / "docs" / "examples" / "dagster_project", project)
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    before = len(get_installation().instance.get_runs())
    said = [run(command, project, DAGSTER_HOME=str(home), COLUMNS="200") for command in PROJECT_OF_ANOTHER]
    assert "reelsieve.Dataset" in said[0]
    assert "All definitions loaded successfully" in said[1]
    for asset in ("clips/training_subset", "trained_model", "vcs_score"):
        assert asset in said[2]
    with get_installation().engine.connect() as connection:
        scored = "SELECT vcs_short_status, count(*) FROM sample_scores WHERE dataset = 'clips' GROUP BY 1 ORDER BY 1"
        assert connection.execute(sa.text(scored)).all() == [("ok", 4), ("too_short", 2)]
        assert connection.execute(
            sa.text("SELECT dataset_name, n FROM selection WHERE dataset_name = 'clips'")
        ).all() == [("clips", 2)]
    assert len(get_installation().instance.get_runs()) == before
    with dg.DagsterInstance.from_config(str(home)) as theirs:
        assert [run.status for run in theirs.get_runs()] == [dg.DagsterRunStatus.SUCCESS]
        checked = theirs.event_log_storage.get_asset_check_summary_records(
            [dg.AssetCheckKey(dg.AssetKey(["clips", "vcs_short_score"]), "coverage")]
        )
        assert all(record.last_check_execution_record for record in checked.values())


def test_reelsieve_s_own_assets_in_the_instance_of_somebody_else(installation: Installation, tmp_path: Path) -> None:
    """They have their partitions there, beside those of that project."""
    shots = dg.DynamicPartitionsDefinition(name="shot")

    @dg.asset(partitions_def=shots, deps=["vcs_score"])
    def shot_list() -> None:
        """Somebody else's asset."""

    merged = definitions(dg.Definitions(assets=[shot_list]))
    before = len(get_installation().instance.get_runs())
    with dg.DagsterInstance.local_temp(str(tmp_path), {"telemetry": {"enabled": False}}) as theirs:
        theirs.add_dynamic_partitions("shot", ["first"])
        theirs.add_dynamic_partitions("dataset", ["theirs"])
        config = {"ops": {"ingest": {"config": {"folder": str(installation.manifest)}}}}
        ingest, scoring = (merged.resolve_job_def(name) for name in ("ingest_job", "scoring_job"))
        assert ingest.execute_in_process(config, theirs, partition_key="theirs").success
        assert theirs.get_dynamic_partitions("shard") == ["theirs:0000"]
        chosen = [dg.AssetKey(name) for name in ("text_embedding", "vcs_score")]
        done = scoring.execute_in_process(instance=theirs, partition_key="theirs:0000", asset_selection=chosen)
        assert done.success
        assert theirs.get_materialized_partitions(dg.AssetKey("vcs_score")) == {"theirs:0000"}
    with get_installation().engine.connect() as connection:
        scored = "SELECT count(vcs) FROM sample_scores WHERE dataset = 'theirs'"
        assert connection.scalar(sa.text(scored)) == 24
    assert len(get_installation().instance.get_runs()) == before


def test_a_home_of_dagster_whose_file_makes_no_instance_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text("storag: 1\n")
    done = run_command("facts", "--dataset", "mine", DAGSTER_HOME=str(tmp_path))
    assert done.returncode == 1
    said = " ".join(done.stderr.split())
    assert said.startswith(f"error: DAGSTER_HOME is {tmp_path}, whose dagster.yaml makes no instance (Errors whilst")
    assert said.endswith("): unset the variable, or correct it")


def test_another_version_of_dagster_is_one_sentence(tmp_path: Path) -> None:
    other = tmp_path / "dagster-1.12.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: dagster\nVersion: 1.12.0\n")
    command = [str(Path(sys.executable).with_name("reelsieve")), "dataset", "list"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    sentence = r"error: Reelsieve needs Dagster (\S+), but 1.12.0 is installed: pip install 'dagster\1'"
    found = re.fullmatch(sentence, " ".join(done.stderr.split()))
    assert found
    assert set(found[1].split(",")) == {">=1.13.27", "<1.14"}


def test_a_home_of_dagster_without_its_file_is_one_sentence(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("reelsieve")), "dagster", "asset", "list"]
    environment = {**os.environ, "DAGSTER_HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: DAGSTER_HOME is {tmp_path}, which has no dagster.yaml: put one there")
    assert done.stderr.count("\n") == 1
