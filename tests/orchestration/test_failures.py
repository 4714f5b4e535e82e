"""What a team is told when a run failed, by command and by URL, on Dagster's real storage and a server on loopback."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dagster as dg
import pytest

from assets.definitions.evidence import source_assets
from assets.definitions.model_pool import build_pool_name
from assets.definitions.one_dataset import build_dataset_assets
from assets.definitions.partitions import build_range_tags
from assets.ingest.run import ingest_folder
from assets.metrics.registry import METRICS
from assets.models.settings import DEVICE_VARIABLE
from db.selection.recipes import parse_recipe
from orchestration.dead_runs import build_run_tags
from orchestration.installation import get_installation
from orchestration.runs import get_definitions
from orchestration.sensors.failures import NoticeNotDelivered, failures, post_notice
from orchestration.settings import get_settings
from tests.orchestration.conftest import Installation

SECRET = "b5f1-the-token-of-the-channel"
TOLD = {"text": "told"}


@pytest.fixture(autouse=True)
def _here(installation: Installation) -> None:
    """Every test works on the installation."""


class Listener(BaseHTTPRequestHandler):
    """Answers with the server's status and keeps what it was told."""

    server: Channel

    def do_POST(self) -> None:
        self.server.heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.server.status)
        self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing on standard error."""


class Channel(ThreadingHTTPServer):
    """A server of messages on loopback."""

    def __init__(self, status: int) -> None:
        super().__init__(("127.0.0.1", 0), Listener)
        self.status = status
        self.heard: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hooks/{SECRET}?token={SECRET}"


@contextmanager
def channel(status: int = 204) -> Iterator[Channel]:
    with Channel(status) as opened:
        threading.Thread(target=opened.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield opened
        opened.shutdown()


@contextmanager
def variables(**named: str) -> Iterator[None]:
    with patch.dict(os.environ, named):
        get_settings.cache_clear()
        yield
    get_settings.cache_clear()


def tick(cursor: str | None) -> Any:
    with dg.build_sensor_context(get_installation().instance, cursor=cursor, definitions=get_definitions()) as context:
        return failures.evaluate_tick(context)


def failed_ingest(folder: Path) -> str:
    """A run that fails with the asset's own error; its id."""
    config = {"ops": {"ingest": {"config": {"folder": str(folder)}}}}
    get_installation().instance.add_dynamic_partitions("dataset", ["failing"])
    job = get_definitions().resolve_job_def("ingest_job")
    done = job.execute_in_process(config, get_installation().instance, "failing", raise_on_error=False)
    assert not done.success
    return done.run_id


def find_sentence(done: dg.ExecuteInProcessResult) -> str:
    """The sentence of the only failed step, whose event must have no traceback that Dagster's page shows."""
    (failed,) = [event.step_failure_data for event in done.all_events if event.is_step_failure]
    name, _, sentence = failed.error.cause.message.partition(": ")
    assert (name, failed.error.cause.stack) == ("assets.definitions.step_errors.StepRefused", [])
    assert 'File "' not in failed.error_display_string
    return sentence.strip()


def test_every_asset_check_and_op_explains_its_failure(tmp_path: Path) -> None:
    nodes = {node.name: node for job in get_definitions().resolve_all_job_defs() for node in job.nodes}
    assert {"ingest", "vcs_score", "vcs_score_checks", "qeva_question_checks", "prune_runs"} < nodes.keys()
    operations = {name: node.definition for name, node in nodes.items() if isinstance(node.definition, dg.OpDefinition)}
    assert operations.keys() == nodes.keys()
    of_component = build_dataset_assets("mine", tmp_path, list(METRICS), parse_recipe({"by": "vcs", "count": 1}))
    operations |= {asset.key.to_user_string(): asset.op for asset in of_component}
    assert {"mine/sample", "mine/text_embedding", "mine/vcs_score", "mine/training_subset"} < operations.keys()
    unwrapped = {name for name, op in operations.items() if not hasattr(op.compute_fn.decorated_fn, "__wrapped__")}
    assert unwrapped == set()


def test_a_wrong_recipe_fails_with_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "videos.jsonl").write_text('{"video_id": "v"}\n')
    (tmp_path / "captions.jsonl").touch()
    ingest_folder(get_installation().engine, tmp_path, "wrong")
    instance = get_installation().instance
    instance.add_dynamic_partitions("dataset", ["wrong"])
    done = (
        get_definitions()
        .resolve_job_def("subset_job")
        .execute_in_process(
            {"ops": {"training_subset": {"config": {"recipe": {"by": "vsc"}}}}}, instance, "wrong", raise_on_error=False
        )
    )
    assert find_sentence(done).startswith("the recipe's by: there is no column 'vsc', did you mean 'vcs'?")


def test_a_failed_run_is_told_to_command_and_url(tmp_path: Path) -> None:
    heard_by_command = tmp_path / "heard.json"
    program = f"import sys; open({str(heard_by_command)!r}, 'w').write(sys.stdin.read())"
    command = shlex.join([sys.executable, "-c", program])
    with channel() as server, variables(REELSIEVE_FAILURE_COMMAND=command, REELSIEVE_FAILURE_URL=server.url):
        cursor = tick(None).cursor
        run_id = failed_ingest(tmp_path / "no such folder")
        found = tick(cursor)
        assert [reaction.error for reaction in found.dagster_run_reactions] == [None]
        (told,) = server.heard
        assert tick(found.cursor).dagster_run_reactions == []
        assert len(server.heard) == 1, "once"
    assert json.loads(heard_by_command.read_text()) == told
    assert (told["run_id"], told["job"], told["partitions"]) == (run_id, "ingest_job", "failing")
    assert told["error"].endswith("/no such folder: no such folder: give the folder that holds the manifest's tables")
    assert told["text"].startswith("Reelsieve: ingest_job of failing failed: ")


@pytest.mark.parametrize(
    ("command", "status", "reasons"),
    [
        ("false", 204, ["the command of REELSIEVE_FAILURE_COMMAND ended with exit code 1"]),
        ("no-such-program", 204, ["REELSIEVE_FAILURE_COMMAND cannot be run (No such file or directory): correct it"]),
        ("true", 500, ["the server of REELSIEVE_FAILURE_URL answered with status 500"]),
        (
            "false",
            500,
            [
                "the command of REELSIEVE_FAILURE_COMMAND ended with exit code 1",
                "the server of REELSIEVE_FAILURE_URL answered with status 500",
            ],
        ),
    ],
)
def test_a_receiver_that_fails_keeps_the_notice_from_no_other(
    command: str, status: int, reasons: list[str], tmp_path: Path
) -> None:
    with channel(status) as server, variables(REELSIEVE_FAILURE_COMMAND=command, REELSIEVE_FAILURE_URL=server.url):
        cursor = tick(None).cursor
        failed_ingest(tmp_path / "no such folder")
        (reaction,) = tick(cursor).dagster_run_reactions
    assert len(server.heard) == 1
    assert reaction.error is not None
    assert "; ".join(reasons) in str(reaction.error)


def test_a_score_without_its_evidence_fails_with_one_sentence_that_names_the_job(tmp_path: Path) -> None:
    captions = [
        {"caption_id": "r", "video_id": "v", "role": "reference", "text": "A dog runs. It jumps. It swims to a duck."},
        {
            "caption_id": "c",
            "video_id": "v",
            "role": "candidate",
            "system": "s",
            "text": "A dog is running. Then it leaps. It swims up to a duck.",
        },
    ]
    (tmp_path / "videos.jsonl").write_text('{"video_id": "v"}\n')
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in captions))
    ingest_folder(get_installation().engine, tmp_path, "alone")
    instance = get_installation().instance
    instance.add_dynamic_partitions("shard", ["alone:0000"])
    job = get_definitions().resolve_job_def("scoring_job")
    program = f"import sys; open({str(tmp_path / 'heard.json')!r}, 'w').write(sys.stdin.read())"
    with variables(REELSIEVE_FAILURE_COMMAND=shlex.join([sys.executable, "-c", program])):
        cursor = tick(None).cursor
        done = job.execute_in_process(
            {}, instance, "alone:0000", asset_selection=[dg.AssetKey("vcs_score")], raise_on_error=False
        )
        assert not done.success
        tick(cursor)
    sentence = find_sentence(done)
    assert re.fullmatch(
        r"All \d+ texts have no vector of \S+: materialise text_embedding for this shard first, or launch "
        "scoring_job, which makes both",
        sentence,
    )
    assert json.loads((tmp_path / "heard.json").read_text())["error"] == sentence


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_server_that_refuses_is_named_without_its_url(
    tmp_path: Path, status: int, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with channel(status) as server, variables(REELSIEVE_FAILURE_URL=server.url):
        cursor = tick(None).cursor
        failed_ingest(tmp_path / "no such folder")
        (reaction,) = tick(cursor).dagster_run_reactions
        assert len(server.heard) == 1, "a redirect is not followed"
    shown = dg.serialize_value(reaction.error)
    assert f"the server of REELSIEVE_FAILURE_URL answered with status {status}" in shown
    assert SECRET not in shown + caplog.text + "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (f"http://127.0.0.1:1/{SECRET}", "does not answer"),
        (f"file:///{SECRET}", "is not the address of a web server"),
        (SECRET, "does not answer"),
    ],
)
def test_an_address_that_cannot_be_used_is_not_repeated(url: str, why: str) -> None:
    with pytest.raises(NoticeNotDelivered, match=why) as raised:
        post_notice(url, TOLD)
    assert SECRET not in str(raised.value)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_without_a_variable_nobody_is_told(tmp_path: Path) -> None:
    cursor = tick(None).cursor
    failed_ingest(tmp_path / "no such folder")
    assert [reaction.error for reaction in tick(cursor).dagster_run_reactions] == [None]


def test_machines_and_devices_have_pools_of_their_own() -> None:
    """A step waits for the steps of its own machine, or device, only."""
    assert {asset.op.pool for asset in source_assets} == {build_pool_name()}
    for device in ("gpu 0", "gpu 1"):
        with patch.dict(os.environ, {DEVICE_VARIABLE: device}):
            assert build_pool_name() == f"encoder_{device.replace(' ', '_')}"


def test_runs_of_a_dead_process_are_retried_and_those_of_the_command_line_are_not() -> None:
    """Dagster's own decision about a run, on this installation's configuration."""
    from dagster._core.events import RunFailureReason
    from dagster._core.execution.retries import auto_reexecution_should_retry_run

    job = get_definitions().resolve_job_def("scoring_job")
    get_installation().instance.add_dynamic_partitions("shard", ["a:0000", "a:0001"])
    decided = []
    for tags in ({}, build_run_tags("some run")):
        run = get_installation().instance.create_run_for_job(job, tags={**tags, **build_range_tags("a:0000", "a:0001")})
        get_installation().instance.report_run_failed(run)
        failed = get_installation().instance.get_run_by_id(run.run_id)
        assert failed is not None
        decided += [
            auto_reexecution_should_retry_run(get_installation().instance, failed, reason)
            for reason in (RunFailureReason.RUN_EXCEPTION, RunFailureReason.STEP_FAILURE)
        ]
    assert decided == [True, False, False, False]
