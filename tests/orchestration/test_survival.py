"""It must survive: kill -9 of a command, of the database server, two commands at once; the same command mends all."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy.engine import URL

from assets.ingest.write import BATCH_SIZE
from assets.metrics.registry import list_scoring_assets
from db.server.embedded import stop_embedded
from db.server.urls import DAGSTER, build_sibling_url
from db.server.user_errors import explain_user_error
from tests.homes import copy_home
from tests.orchestration.survival import (
    N_VIDEOS,
    SCORES_OF_METRICS,
    Command,
    Home,
    connect,
    copied,
    count,
    hold,
    ingested,
    lease_holders,
    removed,
    retag_runs,
    rows,
    run_statuses,
    scored,
    slots_taken,
    until,
    warm_up,
    write_manifest,
)

pytestmark = pytest.mark.slow

BATCH = 256
N_SAMPLES = 2 * N_VIDEOS
SCORE = ("score", "--dataset", "d", "--metric", "vcs", "--json")
DELETE_HALF = (
    "DELETE FROM score USING scorer r WHERE r.scorer_id = score.scorer_id AND r.metric = 'vcs' AND sample_id % 2 = 0"
)
WENT_AWAY = (
    "error: the connection to the database was lost: run the same command again, which starts the embedded server (a "
    "server of CURATION_DB_URL must be back first); what was written stays"
)
State = dict[str, list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to ingest."""
    return write_manifest(tmp_path_factory.mktemp("survival") / "manifest")


@pytest.fixture(scope="module")
def ingested_home(
    prepared_home: Path, tmp_path_factory: pytest.TempPathFactory, manifest: Path, request: pytest.FixtureRequest
) -> Generator[Home, None, None]:
    """A home with a dataset that nobody has scored, its server stopped."""
    warm_up()
    # Asked for only now: making the encoder imports torch, and so does the process that warms up.
    encoder: Path = request.getfixturevalue("tiny_text_encoder")
    home = Home(tmp_path_factory.mktemp("ingested") / "home", encoder)
    copy_home(prepared_home, home.folder)
    yield from _kept(home, _ingest(manifest))


@pytest.fixture(scope="module")
def scored_home(tmp_path_factory: pytest.TempPathFactory, ingested_home: Home) -> Generator[Home, None, None]:
    """The same after an undisturbed scoring."""
    yield from _kept(copied(ingested_home, tmp_path_factory.mktemp("scored")), SCORE)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, scored_home: Home) -> State:
    """What an ingest and a scoring store when nothing happens to them."""
    copy = copied(scored_home, tmp_path_factory.mktemp("undisturbed"))
    try:
        return ingested(copy.url) | scored(copy.url)
    finally:
        removed(copy)


@pytest.fixture
def fresh(ingested_home: Home, tmp_path: Path) -> Generator[Home, None, None]:
    """A home with a dataset to score."""
    yield from _lent(ingested_home, tmp_path)


@pytest.fixture
def finished(scored_home: Home, tmp_path: Path) -> Generator[Home, None, None]:
    """A home with a dataset that is scored."""
    yield from _lent(scored_home, tmp_path)


def test_the_undisturbed_run_has_something_to_compare(undisturbed: State) -> None:
    sizes = {table: len(found) for table, found in undisturbed.items()}
    assert sizes["video"] == sizes["reference"] == N_VIDEOS
    assert sizes["sample"] == N_SAMPLES
    assert sizes["score"] == 3 * N_SAMPLES, "with two simple scores that come along"
    assert sizes["text_embedding"] > 2048
    assert len({row[3] for row in undisturbed["score"]}) > 10


def test_a_scoring_killed_again_and_again_ends_where_an_undisturbed_one_does(fresh: Home, undisturbed: State) -> None:
    url, dagster = fresh.url, build_sibling_url(fresh.url, DAGSTER)
    done = "dagster_event_type = 'ASSET_MATERIALIZATION' AND step_key = 'vcs_score'"

    _kill_at(fresh, url, "text_embedding", "(SELECT count(*) FROM text_embedding) > 2048")
    assert (count(url, "text_embedding"), count(url, "score")) == (2048, 0)
    assert run_statuses(url) == ["STARTED"]
    assert slots_taken(url) == 1, "the killed process held the encoder: otherwise this test shows nothing"

    _kill_at(fresh, url, "score", f"(SELECT count(*) FROM {SCORES_OF_METRICS}) > {2 * BATCH}")
    assert (count(url, "text_embedding"), count(url, "score")) == (len(undisturbed["text_embedding"]), 2 * BATCH)
    assert run_statuses(url) == ["FAILURE", "STARTED"]

    _kill_at(fresh, dagster, "event_logs", f"EXISTS (SELECT 1 FROM event_logs WHERE {done})")
    assert count(url, "score") == N_SAMPLES
    assert run_statuses(url) == ["FAILURE", "FAILURE", "STARTED"]

    assert fresh.run(*SCORE).json()["shards"] == [{"shard": "d:0000", "vcs": 0}]
    assert scored(url) == {table: undisturbed[table] for table in scored(url)}
    assert run_statuses(url) == ["FAILURE", "FAILURE", "FAILURE", "SUCCESS"]
    assert slots_taken(url) == 0


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param({"host": "another-host"}, id="on another host"),
        pytest.param(
            {"pid": str(os.getpid())}, id="its process id was given to somebody who lives", marks=pytest.mark.expensive
        ),
        pytest.param({"leased": None}, id="by a version that knew no leases", marks=pytest.mark.expensive),
    ],
)
def test_a_killed_scoring_bars_nobody_wherever_it_ran(
    fresh: Home, undisturbed: State, tags: dict[str, str | None]
) -> None:
    url = fresh.url
    _kill_at(fresh, url, "text_embedding", "true")
    assert (run_statuses(url), slots_taken(url)) == (["STARTED"], 1)
    for name, value in tags.items():
        retag_runs(url, f"dagster/reelsieve_{name}", value)
    assert fresh.run(*SCORE).json()["shards"] == [{"shard": "d:0000", "vcs": N_SAMPLES}]
    assert scored(url) == {table: undisturbed[table] for table in scored(url)}
    assert run_statuses(url) == ["FAILURE", "SUCCESS"]
    assert slots_taken(url) == 0


def test_who_waits_says_for_whom_and_goes_on_when_that_one_dies(fresh: Home, manifest: Path) -> None:
    url = fresh.url
    fresh.run("ingest", str(manifest), "--dataset", "other", "--json").json()
    with hold(url, "text_embedding", "true") as held:
        first = fresh.run(*SCORE)
        held.wait_for(1, first)
        second = fresh.run("score", "--dataset", "other", "--metric", "vcs", "--json")
        until(lambda: "has held since" in _said(second) or not second.is_running, "the second says that it waits")
        assert f"(scoring_job of d:0000) on host {socket.gethostname()}, process {first.pid}," in _said(second)
        assert run_statuses(url) == ["STARTED", "STARTED"]
        first.kill()
        until(lambda: run_statuses(url)[0] == "FAILURE" or not second.is_running, "the first is closed")
        held.release()
    assert second.json()["shards"] == [{"shard": "other:0000", "vcs": N_SAMPLES}]
    assert _said(second).count("waits for the encoder") == 1
    assert run_statuses(url) == ["FAILURE", "SUCCESS"]
    assert slots_taken(url) == 0


@pytest.mark.expensive
def test_a_scoring_that_lost_its_lease_takes_it_again_and_is_not_closed(fresh: Home) -> None:
    url = fresh.url
    with hold(url, "score", "true") as held:
        first = fresh.run(*SCORE)
        held.wait_for(1, first)
        (lost,) = lease_holders(url)
        rows(url, f"SELECT pg_terminate_backend({lost}, 60000)")
        until(lambda: lease_holders(url) not in ([], [lost]), "the lease is held again")
        second = fresh.run(*SCORE)
        waits = f"waits for shard d:0000, on which process {first.pid} on host {socket.gethostname()}"[:60]
        until(lambda: waits in _said(second) or not second.is_running, "the second says that it waits")
        assert run_statuses(url) == ["STARTED", "STARTED"]
        held.release()
    shards = [command.json()["shards"] for command in (first, second)]
    # When the second gets the shard, nothing is left to do.
    assert shards == [[{"shard": "d:0000", "vcs": N_SAMPLES}], []]
    assert run_statuses(url) == ["SUCCESS", "SUCCESS"]


def test_what_comes_in_after_the_last_look_of_a_run_is_scored_by_the_next_command(fresh: Home) -> None:
    url, checked = fresh.url, "dagster_event_type = 'STEP_SUCCESS' AND step_key = 'vcs_score_checks'"
    ledger = build_sibling_url(url, DAGSTER)
    with hold(ledger, "event_logs", f"EXISTS (SELECT 1 FROM event_logs WHERE {checked})") as held:
        first = fresh.run(*SCORE)
        held.wait_for(1, first)
        with connect(url) as connection:
            again = connection.execute(DELETE_HALF).rowcount
        second = fresh.run(*SCORE)
        until(lambda: count(url, "score") == N_SAMPLES or not second.is_running, "the second scores what came in")
        held.release()
    written = [shard["vcs"] for command in (first, second) for shard in command.json()["shards"]]
    assert written == [N_SAMPLES, again]
    assert count(url, "score") == N_SAMPLES


@pytest.mark.expensive
def test_a_scoring_killed_between_two_batches_goes_on_from_there(finished: Home, undisturbed: State) -> None:
    url = finished.url
    with connect(url) as connection:
        connection.execute("DELETE FROM score")
    command = finished.run(*SCORE)
    until(lambda: count(url, "score") >= BATCH or not command.is_running, "a batch of scores")
    command.kill()
    before = count(url, "score")
    assert before % BATCH == 0 or before == N_SAMPLES
    assert finished.run(*SCORE).json()["shards"] == [{"shard": "d:0000", "vcs": N_SAMPLES - before}]
    assert scored(url) == {table: undisturbed[table] for table in scored(url)}


def test_a_scoring_stopped_by_hand_says_so_and_goes_on_from_there(finished: Home, undisturbed: State) -> None:
    url = finished.url
    with connect(url) as connection:
        connection.execute("DELETE FROM score")
    with hold(url, "score", "true"):
        command = finished.run(*SCORE)
        until(lambda: "STARTED" in run_statuses(url) or not command.is_running, "a run")
        os.kill(command.pid, signal.SIGINT)
    assert command.wait() == 130
    assert "stopped; run the same command again to continue" in command.stderr
    assert "Traceback" not in command.stderr
    assert finished.run(*SCORE).wait() == 0
    assert scored(url) == {table: undisturbed[table] for table in scored(url)}


@pytest.mark.expensive
def test_two_scorings_of_one_shard_at_once_end_as_one_does(fresh: Home, undisturbed: State) -> None:
    url = fresh.url
    with hold(url, "score", "true") as writing:
        commands = [fresh.run(*SCORE) for _ in range(2)]
        until(lambda: sum(map(_waits_for_the_shard, commands)) == 1, "one scoring waits for the other")
        writing.wait_for(1, *commands)
        assert run_statuses(url) == ["STARTED", "STARTED"]
    written = [shard["vcs"] for command in commands for shard in command.json()["shards"]]
    assert sum(written) == N_SAMPLES
    assert scored(url) == {table: undisturbed[table] for table in scored(url)}
    assert set(run_statuses(url)) == {"SUCCESS"}
    assert slots_taken(url) == 0


@pytest.mark.expensive
def test_two_scorings_and_an_ingest_of_another_dataset_at_once_end_as_alone(
    fresh: Home, manifest: Path, undisturbed: State
) -> None:
    url = fresh.url
    ingest = ("ingest", str(manifest), "--dataset", "other", "--json")
    with hold(url, "score", "true") as scoring, hold(url, "sample", "true") as ingesting:
        commands = [fresh.run(*ingest), *[fresh.run(*SCORE) for _ in range(2)]]
        ingesting.wait_for(1, *commands)
        until(lambda: sum(map(_waits_for_the_shard, commands)) == 1, "one scoring waits for the other")
        scoring.wait_for(1, *commands)
    report, *_ = [command.json() for command in commands]
    assert report["accepted"]["captions"] == 3 * N_VIDEOS
    assert report["rejected"] == 0
    assert scored(url) == {table: undisturbed[table] for table in scored(url)}
    assert slots_taken(url) == 0


def test_an_ingest_of_the_same_dataset_during_two_scorings_ends_all_three_well(
    fresh: Home, manifest: Path, undisturbed: State
) -> None:
    url = fresh.url
    with connect(url) as connection:
        connection.execute("DELETE FROM video WHERE video_id % 2 = 0")
    with hold(url, "score", "true"), hold(url, "sample", "true") as ingesting:
        commands = [fresh.run(*_ingest(manifest)), *[fresh.run(*SCORE) for _ in range(2)]]
        ingesting.wait_for(1, *commands)
        until(lambda: sum(map(_waits_for_the_shard, commands)) == 1, "one scoring waits for the other")
    for command in commands:
        command.json()
    # What came in after the last look of both is left to the next command, as ever.
    fresh.run(*SCORE).json()
    ours, alone = scored(url)["score"], undisturbed["score"]
    assert [row[:3] for row in ours] == [row[:3] for row in alone]
    # Batches of other members round otherwise in the last digit of float32.
    assert [row[3] for row in ours] == [None if row[3] is None else pytest.approx(row[3], abs=1e-5) for row in alone]
    assert slots_taken(url) == 0


def test_a_server_killed_during_a_scoring_is_one_sentence_and_then_nothing(finished: Home, undisturbed: State) -> None:
    url = finished.url
    with connect(url) as connection:
        connection.execute("DELETE FROM score")
    with hold(url, "score", f"(SELECT count(*) FROM {SCORES_OF_METRICS}) > {2 * BATCH}") as held:
        command = finished.run(*SCORE)
        held.wait_for(1, command)
        finished.kill_server()
        assert command.wait() == 1
    _assert_one_sentence(command, WENT_AWAY)
    assert command.stdout == ""

    assert finished.run(*SCORE).json()["shards"] == [{"shard": "d:0000", "vcs": N_SAMPLES - 2 * BATCH}]
    assert scored(finished.url) == {table: undisturbed[table] for table in scored(finished.url)}
    assert run_statuses(finished.url) == ["SUCCESS", "FAILURE", "SUCCESS"]
    assert slots_taken(finished.url) == 0


@pytest.mark.expensive
def test_a_server_killed_while_a_scoring_waits_for_the_encoder_is_one_sentence(fresh: Home, manifest: Path) -> None:
    fresh.run("ingest", str(manifest), "--dataset", "other", "--json").json()
    with hold(fresh.url, "text_embedding", "true") as held:
        first = fresh.run(*SCORE)
        held.wait_for(1, first)
        second = fresh.run("score", "--dataset", "other", "--metric", "vcs", "--json")
        until(lambda: "has held since" in _said(second) or not second.is_running, "the second says that it waits")
        fresh.kill_server()
        assert (first.wait(), second.wait()) == (1, 1), second.stderr
    assert second.stderr.splitlines()[-1] == WENT_AWAY


def test_a_server_killed_before_a_scoring_is_started_again(finished: Home, undisturbed: State) -> None:
    with connect(finished.url) as connection:
        missing = connection.execute(DELETE_HALF).rowcount
    finished.kill_server()
    assert (finished.folder / "postgres" / "postmaster.pid").exists()
    command = finished.run(*SCORE)
    assert command.json()["shards"] == [{"shard": "d:0000", "vcs": missing}]
    assert scored(finished.url) == {table: undisturbed[table] for table in scored(finished.url)}


def test_a_dead_server_that_nobody_collects_does_not_bar_the_next_one(finished: Home) -> None:
    """In a container whose first process never waits for orphans a killed server stays a zombie, and keeps its id."""
    expected = count(finished.url, "score")
    finished.kill_server()
    # Postgres counts a process as alive only where it may signal it, that is under the user it runs as itself.
    zombie = subprocess.Popen(["true"], user="pgserver" if os.geteuid() == 0 else None)
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
        lock = finished.folder / "postgres" / name
        lines = lock.read_text().splitlines(keepends=True)
        lock.write_text("".join([f"{zombie.pid}\n", *lines[1:]]))
    assert count(finished.url, "score") == expected
    zombie.wait()


def test_what_a_living_server_refuses_is_told_in_its_own_words(finished: Home) -> None:
    with connect(finished.url) as connection:
        connection.execute("SET statement_timeout = 1")
        with pytest.raises(psycopg.OperationalError) as caught:
            connection.execute("SELECT pg_sleep(60)")
    reason = "canceling statement due to statement timeout"
    assert explain_user_error(caught.value) == (
        f"the database refused a statement: {reason}; fix that and run the same command again"
    )


def test_an_ingest_killed_in_the_middle_ends_where_an_undisturbed_one_does(fresh: Home, tmp_path: Path) -> None:
    # More captions than one batch takes: two thirds of them are samples.
    n_videos = 2400
    url, manifest = fresh.url, write_manifest(tmp_path / "large", n_videos)
    emptied = "TRUNCATE dataset CASCADE"
    with connect(url) as connection:
        connection.execute(emptied)
        fresh.run(*_ingest(manifest)).json()
        undisturbed = ingested(url)
        connection.execute(emptied)
    with hold(url, "sample", f"(SELECT count(*) FROM sample) > {BATCH_SIZE}") as held:
        command = fresh.run(*_ingest(manifest))
        held.wait_for(1, command)
        command.kill()
        held.release()
    assert 0 < count(url, "sample") < 2 * n_videos
    report = fresh.run(*_ingest(manifest)).json()
    assert report["unchanged"]["videos"] == n_videos
    assert report["accepted"]["captions"] + report["unchanged"]["captions"] == 3 * n_videos
    assert report["unchanged"]["captions"] == BATCH_SIZE
    assert ingested(url) == undisturbed


def test_a_selection_killed_while_it_is_written_is_not_there(finished: Home) -> None:
    url = finished.url
    select = ("select", "--dataset", "d", "--keep", "0.5", "--json")
    with hold(url, "selection_item", "true") as held:
        command = finished.run(*select)
        held.wait_for(1, command)
        command.kill()
        held.release()
    assert (count(url, "selection"), count(url, "selection_item")) == (0, 0)
    answer = finished.run(*select).json()
    per_selection = "SELECT s.selection_id, s.n, count(*) FROM selection s JOIN selection_item USING (selection_id)"
    items = rows(url, f"{per_selection} GROUP BY 1")
    # The hasty captions are too short for a score.
    assert items == [(answer["selection_id"], N_VIDEOS // 2, N_VIDEOS // 2)]


def _kill_at(home: Home, url: URL, table: str, when: str) -> None:
    """Score until the point that `hold` describes, and kill -9 there."""
    with hold(url, table, when) as held:
        command = home.run(*SCORE)
        held.wait_for(1, command)
        command.kill()
        held.release()


def _said(command: Command) -> str:
    """What a command has said so far, without the line breaks of a narrow terminal."""
    return " ".join(command.stderr.split())


def _waits_for_the_shard(command: Command) -> bool:
    return "waits for shard d:0000" in _said(command)


def _assert_one_sentence(command: Command, sentence: str) -> None:
    """After the progress of the assets there is one sentence of ours, no trace, and of Dagster at most its own line."""
    assets = tuple(f"{name}: " for name in list_scoring_assets(["vcs"]))
    said = [line for line in command.stderr.splitlines() if not line.startswith(assets)]
    of_dagster = "Exception while writing logger call to event log: too many retries for DB connection"
    assert [line for line in said if line != of_dagster] == [sentence], command.stderr


def _ingest(manifest: Path) -> tuple[str, ...]:
    return ("ingest", str(manifest), "--dataset", "d", "--json")


def _kept(home: Home, arguments: tuple[str, ...]) -> Generator[Home, None, None]:
    """A home after a command, at rest, so that it can be copied."""
    home.run(*arguments).json()
    stop_embedded(home.folder)
    yield home
    removed(home)


def _lent(home: Home, folder: Path) -> Generator[Home, None, None]:
    copy = copied(home, folder)
    yield copy
    removed(copy)
