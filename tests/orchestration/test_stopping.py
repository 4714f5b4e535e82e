"""Ctrl-C and SIGTERM end every command within seconds, whatever it waits for, and leave nothing behind."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import socketserver
import subprocess
import sys
import termios
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import typer

from assets.datasets.leases import format_lease_name
from db.server.leases import hold_lease
from db.server.processes import START_LOCK
from db.server.urls import DAGSTER, build_sibling_url
from demo import FOLDER, HASHES
from orchestration.cli.app import app
from orchestration.stopping import PATIENCE_S, SIGNALS, STOPPED_MESSAGE
from tests.assets.manifests import write_clip
from tests.assets.manifests import write_manifest as manifest
from tests.assets.media_servers import LOOPBACK
from tests.metrics_core.chat_server import Answer, loopback
from tests.orchestration.conftest import write_manifest
from tests.orchestration.survival import Command, Home, connect, removed, rows, until, warm_up
from tests.orchestration.test_ui import free_port

pytestmark = pytest.mark.slow

# Five seconds are promised. What a command waits for here never comes, so it ends by the signal or not at all; how soon
# it does, a machine that is busy with other tests cannot tell.
DEADLINE_S = 60.0
PROMISED_S = 5.0
# `init` reads them for seconds.
N_ROWS = 300_000

# What each command waits for, where a table that it reads is locked.
AT_A_TABLE = {
    "demo": "demo",
    "try": "try MANIFEST -d d",
    "ingest": "ingest MANIFEST -d d",
    "dataset rejects": "dataset rejects -d d",
    "facts": "facts -d d",
    "score": "score -d d",
    "dataset scores": "dataset scores -d d",
    "calibrate": "calibrate -d d",
    "explain": "explain clip_00_brief_0 -d d",
    "compare": "compare vcs evqa -d d",
    "stress": "stress vcs -d d",
    "promise": "promise d --by-people overall --errors-at-most 0.1 --error-below 3",
    "prove": "prove 1",
    "report": "report -d d --to FOLDER/page",
    "select": "select -d d --keep 0.5",
    "export": "export 1 --to FOLDER/best --format webdataset",
    "requests export": "requests export d --metric judge --to FOLDER/requests",
    "requests import": "requests import WRITTEN",
    "dataset holds": "dataset holds clip_00",
    "dataset drop": "dataset drop d --yes",
    "dataset list": "dataset list",
    "search": "search text",
    "sql": "sql --json TABLE_QUERY",
    "db prune": "db prune",
    "ui": "ui --port FREE_PORT",
    "look": "look d --port FREE_PORT",
    "rate": "rate d --aspect coverage --port FREE_PORT",
    "doctor": "doctor",
    "selections": "selections",
    "selections show": "selections show 1",
    "selections diff": "selections diff 1 2",
    "db url": "db url --reader",
    "db migrate": "db migrate",
    "db dump": "db dump FOLDER/dump",
}
# Those that every way to work stands for: the others are stopped by `make attack` alone.
STOPPED_ALWAYS = ("demo", "ingest", "score", "report", "sql", "ui", "look")
ELSEWHERE = {"dagster", "dg", "init", "config", "config init", "db start", "db stop", "db restore"}
# Where no table of data is read, that of the schema's revision is.
TABLES = {
    "requests import": "chat_call",
    "ui": "alembic_version",
    "db url": "alembic_version",
    "db migrate": "alembic_version",
}


def names(command: Any, before: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command of the command line."""
    for name, inner in getattr(command, "commands", {}).items():
        if hasattr(inner, "commands"):
            yield from names(inner, (*before, name))
        if not hasattr(inner, "commands") or inner.invoke_without_command:
            yield " ".join((*before, name))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Generator[Home, None, None]:
    """A home with a dataset `d`, and with a small one in place of the demo's."""
    warm_up()
    encoder, verifier = (request.getfixturevalue(name) for name in ("tiny_text_encoder", "tiny_verifier"))
    home = Home(tmp_path_factory.mktemp("stopping") / "home", encoder, verifier)
    folder = home.folder / "demo"
    folder.mkdir(parents=True)
    write_manifest(folder, n_videos=1)
    shutil.copyfile(FOLDER / HASHES, folder / HASHES)
    assert home.run("ingest", str(folder), "-d", "d").wait() == 0
    yield home
    removed(home)


@pytest.fixture(
    params=[
        pytest.param(signal.SIGINT, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, id="SIGTERM", marks=pytest.mark.expensive),
    ]
)
def number(request: pytest.FixtureRequest) -> int:
    """Either signal."""
    return int(request.param)


def write_empty_requests(folder: Path) -> None:
    """Write an export of no request, with a file for its answers."""
    folder.mkdir()
    (folder / "manifest.json").write_text('{"run_id": "export", "forms": [], "metric": "judge", "scorer": ""}')
    for name in ("ids.jsonl", "answers-00001.jsonl"):
        (folder / name).touch()


@contextmanager
def locked(home: Home, table: str, database: str | None = None) -> Iterator[None]:
    """Keep everybody else from a table."""
    url = home.url if database is None else build_sibling_url(home.url, database)
    with connect(url) as connection, connection.transaction():
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        yield


def waits(home: Home, command: Command) -> None:
    """Wait until a session of the server waits for a lock."""
    query = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    until(lambda: rows(home.url, query) != [(0,)] or not command.is_running, "a session waits for a lock")


def assert_ends(command: Command, number: int) -> None:
    """Send the signal to a command that waits: it ends, with one sentence, and with all that it started."""
    assert command.is_running, command.stderr
    before, family = command.stderr, psutil.Process(command.pid).children(recursive=True)
    os.kill(command.pid, number)
    assert not command.runs_after(DEADLINE_S), "it goes on"
    assert command.wait() == 128 + number, command.stderr
    assert command.stderr.removeprefix(before) == f"{STOPPED_MESSAGE}\n"
    _, left = psutil.wait_procs(family, DEADLINE_S)
    assert left == []


def test_every_command_is_stopped_here() -> None:
    assert {*names(typer.main.get_command(app))} == AT_A_TABLE.keys() | ELSEWHERE
    assert PATIENCE_S <= PROMISED_S - 1


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[] if each in STOPPED_ALWAYS else pytest.mark.expensive) for each in AT_A_TABLE]
)
def test_a_command_that_waits_for_a_table(home: Home, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    write_empty_requests(tmp_path / "written")
    texts = {
        "WRITTEN": str(tmp_path / "written"),
        "MANIFEST": str(home.folder / "demo"),
        "TABLE_QUERY": "SELECT * FROM dataset",
        "FREE_PORT": str(free_port()),
    }
    arguments = [texts.get(each, each.replace("FOLDER", str(tmp_path / "empty"))) for each in AT_A_TABLE[name].split()]
    number = SIGNALS[[*AT_A_TABLE].index(name) % 2]
    with locked(home, TABLES.get(name, "dataset, selection, model")):
        # Nothing answers there, and nothing is asked.
        command = home.run(*arguments, REELSIEVE_JUDGE_MODEL="judge", REELSIEVE_JUDGE_URL="http://127.0.0.1:9/v1")
        waits(home, command)
        assert_ends(command, number)
    until(lambda: rows(home.url, "SELECT 1 FROM pg_locks WHERE NOT granted") == [], "the server has seen it end")
    assert [*(tmp_path / "empty").iterdir()] == []


def test_what_waits_inside_a_library_of_c(home: Home, number: int) -> None:
    """Dagster's storage waits by psycopg2, where Python hears of no signal."""
    with locked(home, "runs", DAGSTER):
        command = home.run("score", "-d", "d")
        waits(home, command)
        assert_ends(command, number)


def test_a_scoring_that_waits_for_another_one(home: Home, number: int) -> None:
    with hold_lease(home.url, format_lease_name("text_embedding", "d:0000")):
        command = home.run("score", "-d", "d")
        until(lambda: "waits for shard d:0000" in command.stderr or not command.is_running, "it says for whom it waits")
        assert_ends(command, number)


def test_a_command_that_waits_for_the_start_of_the_server(home: Home, number: int) -> None:
    with (home.folder / START_LOCK).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        command = home.run("db", "start")
        until(lambda: is_blocked(command) or not command.is_running, "it waits for the lock of the file")
        assert_ends(command, number)


def is_blocked(command: Command) -> bool:
    """Whether the process waits for a lock of a file; /proc/locks shows waiting ones behind an arrow."""
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(each[1] == "->" and each[5] == str(command.pid) for each in locks)


@contextmanager
def silent_server() -> Iterator[tuple[int, threading.Event]]:
    """The port of a server that answers nothing, and whether anybody has asked it."""
    asked = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while self.request.recv(4096):
                asked.set()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server.server_address[1], asked
        server.shutdown()


def test_a_database_that_does_not_answer(home: Home, tmp_path: Path, number: int) -> None:
    backup = tmp_path / "backup"
    assert home.run("db", "dump", str(backup)).wait() == 0
    with silent_server() as (port, asked):
        url = f"postgresql://me@127.0.0.1:{port}/curation"
        command = home.run("db", "restore", str(backup), CURATION_DB_URL=url)
        until(lambda: asked.is_set() or not command.is_running, "the server is asked")
        assert_ends(command, number)


def test_a_web_server_that_does_not_answer(home: Home, tmp_path: Path, number: int) -> None:
    """Threads ask for videos; no signal reaches them."""
    with silent_server() as (port, asked):
        manifest(tmp_path, [{"video_id": "v", "path": f"http://127.0.0.1:{port}/v.mp4"}])
        command = home.run("ingest", str(tmp_path), "-d", "d", REELSIEVE_MEDIA_PRIVATE_NETWORKS=LOOPBACK)
        until(lambda: asked.is_set() or not command.is_running, "the server is asked")
        assert_ends(command, number)


def test_a_model_server_that_does_not_answer(home: Home, number: int) -> None:
    with loopback(lambda *_: Answer(hang=True)) as server:
        variables = {"REELSIEVE_ECS_JUDGE_MODEL": "tiny", "REELSIEVE_ECS_JUDGE_URL": server.url}
        command = home.run("calibrate", "-d", "d", "--judge", **variables)
        until(lambda: bool(server.asked) or not command.is_running, "the judge is asked")
        assert_ends(command, number)


def test_a_decoder_that_hangs(home: Home, tmp_path: Path, number: int) -> None:
    write_clip(tmp_path / "v.avi")
    manifest(tmp_path, [{"video_id": "v", "path": "v.avi"}])
    command = home.run("ingest", str(tmp_path), "-d", "d")
    until(lambda: bool(decoders(command)) or not command.is_running, "it starts a decoder")
    for decoder in decoders(command):
        decoder.suspend()
    assert_ends(command, number)


def decoders(command: Command) -> list[psutil.Process]:
    """The processes in which a command decodes."""
    children = psutil.Process(command.pid).children() if command.is_running else []
    return [child for child in children if "metrics_core.frames.worker" in child.cmdline()]


def test_a_question_at_the_terminal(home: Home, tmp_path: Path, number: int) -> None:
    ours, theirs = pty.openpty()
    command = [str(Path(sys.executable).with_name("reelsieve")), "dataset", "drop", "d"]
    said = tmp_path / "said"
    with open(ours, "rb", buffering=0) as terminal, open(theirs, "wb") as stream, said.open("wb") as errors:
        process = subprocess.Popen(command, env=os.environ | home.variables, stdin=stream, stdout=stream, stderr=errors)
        asked = b""
        while b"drop dataset d?" not in asked:
            assert select.select([terminal], [], [], DEADLINE_S)[0], f"it asks nothing: {said.read_text()}"
            asked += terminal.read(1000)
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == 128 + number
    assert said.read_text().strip() == STOPPED_MESSAGE
    assert rows(home.url, "SELECT name FROM dataset") == [("d",)]


def test_a_manifest_under_way(home: Home, tmp_path: Path, number: int) -> None:
    """`init` waits for nobody: it is at work."""
    (tmp_path / "source").mkdir()
    with (tmp_path / "source" / "table.jsonl").open("w") as table:
        for place in range(N_ROWS):
            table.write(json.dumps({"video": f"https://clips.example/{place}.mp4", "caption": "a dog runs"}) + "\n")
    command = home.run("init", str(tmp_path / "source"), "--to", str(tmp_path / "manifest"))
    until(lambda: "rows read" in command.stderr or not command.is_running, "it reads the table")
    assert_ends(command, number)
    assert not (tmp_path / "manifest").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM])
def test_a_server_that_does_not_stop(home: Home, number: int) -> None:
    server = psutil.Process(int((home.folder / "postgres" / "postmaster.pid").read_text().split()[0]))
    server.suspend()
    try:
        command = home.run("db", "stop")
        until(lambda: bool(psutil.Process(command.pid).children()), "it waits for pg_ctl")
        assert_ends(command, number)
    finally:
        server.resume()
    server.wait(DEADLINE_S)


SEMAPHORE = """
import multiprocessing, time
from orchestration.stopping import StopSignals

with StopSignals():
    semaphore = multiprocessing.get_context("spawn").Semaphore()
    print(semaphore._semlock.name.strip("/"), flush=True)
    time.sleep(600)
"""


def test_a_semaphore_is_removed(number: int, tmp_path: Path) -> None:
    """The web interface has some for every run that it starts."""
    with (tmp_path / "said").open("wb") as errors:
        process = subprocess.Popen([sys.executable, "-c", SEMAPHORE], stdout=subprocess.PIPE, stderr=errors)
        assert process.stdout is not None
        semaphore = Path("/dev/shm", f"sem.{process.stdout.readline().decode().strip()}")
        assert semaphore.exists()
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == 128 + number
        process.stdout.close()
    until(lambda: not semaphore.exists(), "the semaphore is removed")


HOLDING = """
import multiprocessing, pathlib, sys, time

semaphore = multiprocessing.get_context("spawn").Semaphore()
pathlib.Path(sys.argv[1]).write_text(semaphore._semlock.name.strip("/"))
time.sleep(600)
"""


def test_a_semaphore_of_a_process_of_dagster_is_removed(tmp_path: Path) -> None:
    """A code server has eight for every run that it started."""
    from orchestration.web.process import run_dagster_program

    name = tmp_path / "name"
    with run_dagster_program("python", "-c", HOLDING, str(name)) as started:
        until(lambda: started.poll() is not None or (name.exists() and bool(name.read_text())), "it has a semaphore")
        semaphore = Path("/dev/shm", f"sem.{name.read_text()}")
        assert semaphore.exists()
    until(lambda: not semaphore.exists(), "the semaphore is removed")


DYING = """
import subprocess, sys, time
from orchestration.stopping import clean_up_after_kill

child = subprocess.Popen(["sleep", "600"])
with clean_up_after_kill(sys.argv[1]):
    print(child.pid, flush=True)
    time.sleep(600)
"""


def test_a_killed_process_takes_its_children_and_their_folder_along(tmp_path: Path) -> None:
    """The web interface and the engine on Ray start processes that hear of nothing."""
    folder = tmp_path / "of the children"
    folder.mkdir()
    process = subprocess.Popen([sys.executable, "-c", DYING, str(folder)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    child = psutil.Process(int(process.stdout.readline()))
    process.kill()
    process.wait()
    process.stdout.close()
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "the child is gone")
    until(lambda: not folder.exists(), "the folder is gone")


def test_dagsters_helpers_hear_no_ctrl_c_and_end_after_a_kill(home: Home) -> None:
    """A terminal sends Ctrl-C to the whole group of processes of a command."""
    with hold_lease(home.url, format_lease_name("text_embedding", "d:0000")):
        command = home.run("score", "-d", "d")
        until(lambda: has_helpers(command.pid) or not command.is_running, "a step with its helpers")
        helpers = psutil.Process(command.pid).children(recursive=True)
        of_steps = [each.pid for each in helpers if re.search(r"^tail |watch_orphans", " ".join(each.cmdline()))]
        assert len(of_steps) >= 4
        assert all(map(blocks_ctrl_c, of_steps))
        command.kill()
        assert psutil.wait_procs(helpers, DEADLINE_S)[1] == []


@pytest.mark.parametrize("arguments", [("score",), ("try", "MANIFEST")], ids=lambda arguments: arguments[0])
def test_ctrl_c_at_a_terminal_prints_one_sentence(home: Home, arguments: tuple[str, ...]) -> None:
    """The terminal sends it to the command and to all that the command started, in the middle of a step."""
    given = [each.replace("MANIFEST", str(home.folder / "demo")) for each in (*arguments, "-d", "d")]
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as terminal, locked(home, "text_fact, text_embedding"):
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("reelsieve")), *given],
            env=os.environ | home.variables,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        until(lambda: has_helpers(process.pid) or process.poll() is not None, "a step with its helpers")
        os.write(ours, b"\x03")
        shown = b""
        # The last process that has the terminal open closes it.
        with suppress(OSError):
            while part := terminal.read(1000):
                shown += part
        assert process.wait(DEADLINE_S) == 128 + signal.SIGINT
    after = shown.decode().split("^C")[-1]
    assert STOPPED_MESSAGE in after
    assert "Traceback" not in shown.decode()
    assert "Error" not in after


def blocks_ctrl_c(pid: int) -> bool:
    """Whether a process has SIGINT blocked, by the status that Linux shows."""
    (mask,) = re.findall(r"SigBlk:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    return bool(int(mask, 16) >> signal.SIGINT - 1 & 1)


def has_helpers(pid: int) -> bool:
    """Whether the four processes run that copy a step's output to the terminal."""
    with suppress(psutil.Error):
        words = [" ".join(child.cmdline()) for child in psutil.Process(pid).children()]
        return sum("watch_orphans" in each for each in words) == 2
    return False
