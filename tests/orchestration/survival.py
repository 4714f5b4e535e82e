"""Commands in processes of their own that can be stopped at a known point and killed, and what they left behind."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import psycopg
from sqlalchemy.engine import URL

from db.scores.sample_scores import SIMPLE_SCORES
from db.server.embedded import start_embedded, stop_embedded
from db.server.processes import is_embedded_running
from db.server.urls import DAGSTER, build_sibling_url
from tests.homes import copy_home

# Far beyond what any step takes, also on a busy machine: reaching it is a failure.
DEADLINE_S = 180.0
_POLL_S = 0.01
# Imported once in a server process from which every command is forked: a command then starts in a moment.
PRELOADED = ["tests.orchestration.preloaded"]
_CONTEXT = multiprocessing.get_context("forkserver")
N_VIDEOS = 500
# So short that the tiny encoder, which takes 126 letters, need not divide what is made of them.
_WHO = ("A cook", "A swimmer", "A child", "An old man", "A dancer", "A dog", "A painter")
_DOES = ("opens the red door", "crosses the street", "lifts a box", "pours hot water", "waves at the crowd")
_PLACES = ("in a yard", "by a lake", "at home", "on stage")


# What a command was asked for; simple scores come along.
SCORES_OF_METRICS = (
    f"(SELECT s.* FROM score s JOIN scorer USING (scorer_id) WHERE metric NOT IN {SIMPLE_SCORES}) AS of_metrics"
)


class Command:
    """`reelsieve ARGUMENTS` with these environment variables, started at once; its output goes to a folder."""

    def __init__(self, variables: Mapping[str, str], output: Path, *arguments: str) -> None:
        self._output = output
        self._output.mkdir()
        for stream in ("stdout", "stderr"):
            (self._output / stream).touch()
        self._process = _CONTEXT.Process(target=_run, args=(list(arguments), dict(variables), self._output))
        self._process.start()

    @property
    def pid(self) -> int:
        """Of the process that runs the command."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.is_alive()

    @property
    def stdout(self) -> str:
        """What it has printed."""
        return (self._output / "stdout").read_text()

    @property
    def stderr(self) -> str:
        """What it has said besides."""
        return (self._output / "stderr").read_text()

    def wait(self) -> int:
        """Its exit code."""
        self._process.join(DEADLINE_S)
        if self._process.exitcode is None:
            self.kill()
            raise AssertionError(f"the command did not end in {DEADLINE_S:g} s; it said:\n{self.stderr}")
        return self._process.exitcode

    def runs_after(self, seconds: float) -> bool:
        """Whether it still runs when so much time has passed; returns at once when it ends."""
        self._process.join(seconds)
        return self.is_running

    def kill(self) -> None:
        """kill -9, and wait until the process is gone, and what it had started to show the logs of its steps.

        Dagster starts a `tail` for every log, and then a process that ends it: killed in between, it leaves the tail.
        """
        family: list[psutil.Process] = []
        with suppress(psutil.Error):
            command = psutil.Process(self.pid)
            command.suspend()  # so that it starts no further one meanwhile
            family = command.children()
        self._process.kill()
        self._process.join(DEADLINE_S)
        assert self._process.exitcode is not None
        for child in family:
            with suppress(psutil.Error):
                if child.name() == "tail":
                    child.kill()

    def json(self) -> Any:
        """What it printed with --json, after it ended well."""
        assert self.wait() == 0, self.stderr
        return json.loads(self.stdout)


@dataclass(frozen=True, slots=True)
class Home:
    """A home folder of a test's own, with its server running; without a verifier its commands have the default one."""

    folder: Path
    encoder: Path
    verifier: Path | None = None

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that lead here."""
        variables = {"REELSIEVE_HOME": str(self.folder), "REELSIEVE_TEXT_ENCODER": str(self.encoder)}
        return variables | ({"REELSIEVE_ECS_VERIFIER": str(self.verifier)} if self.verifier else {})

    def run(self, *arguments: str, **further: str) -> Command:
        """Start `reelsieve ARGUMENTS` here, with further environment variables."""
        return Command(self.variables | further, self.folder.parent / f"output_{time.monotonic_ns()}", *arguments)

    @property
    def url(self) -> URL:
        """The curation database; starts the server if need be."""
        return start_embedded(self.folder)

    def kill_server(self) -> None:
        """kill -9 of the server's first process; the others end by themselves."""
        os.kill(int(self._pid_file.read_text().split()[0]), signal.SIGKILL)
        until(lambda: not is_embedded_running(self.folder), "the server is gone")

    @property
    def _pid_file(self) -> Path:
        return self.folder / "postgres" / "postmaster.pid"


def copied(home: Home, folder: Path) -> Home:
    """The home once more, in this folder; its server must be stopped."""
    copy_home(home.folder, folder / "home")
    return replace(home, folder=folder / "home")


def removed(home: Home) -> None:
    """Stop its server and remove all of it."""
    stop_embedded(home.folder)
    shutil.rmtree(home.folder)


def warm_up() -> None:
    """Start the process that commands are forked from; its imports go on while this one does other things."""
    _CONTEXT.set_forkserver_preload(PRELOADED)
    ensure_running()


def _run(arguments: list[str], variables: dict[str, str], output: Path) -> None:
    """In the new process: become the command."""
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(output / name, os.O_WRONLY | os.O_APPEND)
        os.dup2(file, descriptor)
        os.close(file)
    # The standard streams of a forked process are those of its parent: these are the files just opened.
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  (they live as long as the process)
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    os.environ.pop("CURATION_DB_URL", None)
    os.environ.update(variables)
    sys.argv = ["reelsieve", *arguments]
    from orchestration.cli import main

    main()


def until(condition: Callable[[], bool], what: str) -> None:
    """Poll until the condition holds; an AssertionError naming `what` after the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {DEADLINE_S:g} s for this: {what}"
        time.sleep(_POLL_S)


class Hold:
    """A point in the work at which processes stop for as long as the hold lasts."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def wait_for(self, n: int, *commands: Command) -> None:
        """Wait until n sessions of the server stand still, while every command still runs."""

        def held() -> bool:
            for command in commands:
                assert command.is_running, f"the command ended before the hold:\n{command.stderr}"
            return self._waiting() >= n

        until(held, f"{n} sessions stopped at the hold")

    def release(self) -> None:
        """Let everyone go on; sessions whose client was killed find that out and roll back."""
        self._connection.execute("SELECT pg_advisory_unlock_all()")
        until(lambda: self._waiting() == 0, "sessions released")

    def _waiting(self) -> int:
        row = self._connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
        assert row is not None
        return int(row[0])


@contextmanager
def hold(url: URL, table: str, when: str) -> Iterator[Hold]:
    """Stop every session that has just inserted into `table`, before it commits, if the SQL condition `when` holds.

    Of table `score` none is stopped as long as it has simple scores only.
    It is a trigger that wants a lock, and the lock: the trigger stays, harmless, when the lock is gone.
    """
    if table == "score":
        when = f"{when} AND EXISTS (SELECT 1 FROM {SCORES_OF_METRICS})"
    with connect(url) as connection:
        connection.execute(f"SELECT pg_advisory_lock(hashtext('hold {table}'))".encode())
        connection.execute(
            f"CREATE FUNCTION hold_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF {when} THEN "
            f"PERFORM pg_advisory_xact_lock_shared(hashtext('hold {table}')); END IF; RETURN NULL; END $$".encode()
        )
        connection.execute(
            f"CREATE TRIGGER hold AFTER INSERT ON {table} FOR EACH STATEMENT EXECUTE FUNCTION hold_{table}()".encode()
        )
        yield Hold(connection)


def connect(url: URL) -> psycopg.Connection[Any]:
    """A connection on which every statement is a transaction."""
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    return psycopg.connect(plain, autocommit=True)


def rows(url: URL, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    with connect(url) as connection:
        return connection.execute(query.encode()).fetchall()


def count(url: URL, table: str) -> int:
    """The number of committed rows of a table; of `score` those of metrics."""
    return int(rows(url, f"SELECT count(*) FROM {SCORES_OF_METRICS if table == 'score' else table}")[0][0])


def ingested(url: URL) -> dict[str, list[tuple[Any, ...]]]:
    """All that an ingest stored, without the numbers that the database hands out."""
    queries = {
        "dataset": "SELECT name, n_shards FROM dataset ORDER BY name",
        "video": "SELECT key, shard, status, extra, row_sha256 FROM video ORDER BY key",
        "reference": "SELECT r.key, v.key, r.annotator, r.text, r.text_sha256, r.row_sha256 FROM reference r "
        "JOIN video v USING (video_id) ORDER BY r.key",
        "sample": "SELECT s.key, v.key, s.shard, s.kind, s.system, s.text, s.text_sha256, s.row_sha256 FROM sample s "
        "JOIN video v USING (video_id) ORDER BY s.key",
        "ingest_reject": "SELECT source, line, code, reason, raw FROM ingest_reject ORDER BY source, line",
    }
    return {table: rows(url, query) for table, query in queries.items()}


def scored(url: URL) -> dict[str, list[tuple[Any, ...]]]:
    """All that scoring stored, without the numbers that the database hands out and the time of day."""
    queries = {
        "model": "SELECT fingerprint, name, revision, params::text FROM model ORDER BY 1",
        "text_embedding": "SELECT text_sha256 FROM text_embedding ORDER BY 1",
        "scorer": "SELECT metric, fingerprint, status FROM scorer ORDER BY fingerprint",
        "score": "SELECT s.kind, s.key, r.fingerprint, c.value, c.status, c.error, c.components::text, c.input_sha256 "
        "FROM score c JOIN sample s USING (sample_id) JOIN scorer r USING (scorer_id) "
        "ORDER BY s.kind, s.key, r.fingerprint",
    }
    return {table: rows(url, query) for table, query in queries.items()}


def concluded(url: URL) -> dict[str, list[tuple[Any, ...]]]:
    """All that checklists, calibration and selection stored, likewise, and without what a verdict has cost."""
    of_caption = "JOIN sample s USING (sample_id) JOIN scorer r USING (scorer_id)"
    queries = {
        "keypoint": "SELECT k.key, v.key, k.dimension, k.text FROM keypoint k JOIN video v USING (video_id) ORDER BY 1",
        "keypoint_label": "SELECT k.key, s.key, l.source, l.covered FROM keypoint_label l "
        "JOIN keypoint k USING (keypoint_id) JOIN sample s USING (sample_id) ORDER BY 1, 2, 3",
        "entailment": "SELECT m.fingerprint, pair_sha256, round(probability::numeric, 6), truncated FROM entailment "
        "JOIN model m USING (model_id) ORDER BY 1, 2",
        "verdict_set": f"SELECT s.key, r.fingerprint, c.status, c.error, c.n_sentences FROM verdict_set c {of_caption} "
        "ORDER BY 1, 2",
        "ecs_verdict": "SELECT s.key, k.key, round(c.probability::numeric, 6), c.sentence_index, c.sentence "
        f"FROM ecs_verdict c {of_caption} JOIN keypoint k USING (keypoint_id) ORDER BY 1, 2",
        "keypoint_threshold": "SELECT r.fingerprint, shard, dimension, method, objective, "
        "round(threshold::numeric, 6), n, n_positive FROM keypoint_threshold JOIN scorer r USING (scorer_id) "
        "ORDER BY 1, 2, 3, 4, 5, 6",
        "score_threshold": "SELECT r.fingerprint, shard, method, objective, round(at_least::numeric, 6), n, "
        "n_good FROM score_threshold JOIN scorer r USING (scorer_id) ORDER BY 1, 2, 3, 4, 5",
        "selection": "SELECT spec::text, n, cutoff, score_hash FROM selection ORDER BY 1, 4",
        "selection_item": "SELECT c.spec::text, i.rank, i.value, i.sample, i.text, i.scores FROM selection_item i "
        "JOIN selection c USING (selection_id) ORDER BY 1, 2",
    }
    return {table: rows(url, query) for table, query in queries.items()}


def run_statuses(url: URL) -> list[str]:
    """How Dagster sees the scoring runs of this home, oldest first."""
    query = "SELECT status FROM runs WHERE pipeline_name = 'scoring_job' ORDER BY id"
    return [row[0] for row in rows(build_sibling_url(url, DAGSTER), query)]


def slots_taken(url: URL) -> int:
    """How many runs hold a place in one of Dagster's pools."""
    query = "SELECT count(*) FROM concurrency_slots WHERE run_id IS NOT NULL AND NOT deleted"
    return int(rows(build_sibling_url(url, DAGSTER), query)[0][0])


def lease_holders(url: URL) -> list[int]:
    """The sessions that hold a lease on a run."""
    query = (
        "SELECT pid FROM pg_locks JOIN runs ON (classid::bigint << 32) | objid::bigint = "
        "hashtextextended('reelsieve lease dagster: run ' || run_id, 0) WHERE locktype = 'advisory' AND granted"
    )
    return [row[0] for row in rows(build_sibling_url(url, DAGSTER), query)]


def retag_runs(url: URL, name: str, value: str | None) -> None:
    """Change a tag of every run, or take it away with None, as if they had been started elsewhere."""
    entry = f'"{re.escape(name)}": "[^"]*"'
    with connect(build_sibling_url(url, DAGSTER)) as connection:
        if value is None:
            connection.execute("UPDATE runs SET run_body = regexp_replace(run_body, %s, '')", [f", {entry}"])
            connection.execute("DELETE FROM run_tags WHERE key = %s", [name])
        else:
            new = f'"{name}": "{value}"'
            connection.execute("UPDATE runs SET run_body = regexp_replace(run_body, %s, %s)", [entry, new])
            connection.execute("UPDATE run_tags SET value = %s WHERE key = %s", [value, name])


def write_manifest(folder: Path, n_videos: int = N_VIDEOS) -> Path:
    """A text-only dataset of so many videos, each with one reference and two candidates."""
    captions = (
        {
            "caption_id": f"clip_{number:04d}_{system}",
            "video_id": f"clip_{number:04d}",
            "role": "reference" if system == "person" else "candidate",
            "system": system,
            "text": text,
        }
        for number in range(n_videos)
        for system, text in _stories(number).items()
    )
    videos = ({"video_id": f"clip_{number:04d}"} for number in range(n_videos))
    folder.mkdir()
    for name, lines in (("videos", videos), ("captions", captions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def _stories(number: int) -> dict[str, str]:
    """What a person, a careful and a hasty system say of a video."""
    who, place = _WHO[number % len(_WHO)], _PLACES[number % len(_PLACES)]
    first, second, third = (
        f"{who} number {number} {_DOES[(number + step) % len(_DOES)]} {place}." for step in range(3)
    )
    return {
        "person": f"{first} {second} {third}",
        "careful": f"{first} {second} Then the day number {number} ends.",
        "hasty": f"{third} {first}",
    }
