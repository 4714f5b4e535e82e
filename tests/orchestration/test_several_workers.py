"""Three `reelsieve score` processes on one data set: every sample once, and the same end as one, also after a kill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

from db.server import stop_embedded
from orchestration.sharing import AT_LEAST
from tests.orchestration.conftest import write_manifest
from tests.orchestration.survival import (
    Command,
    Home,
    concluded,
    connect,
    copied,
    count,
    hold,
    removed,
    rows,
    run_statuses,
    scored,
    slots_taken,
    until,
    warm_up,
)

pytestmark = pytest.mark.slow

N_VIDEOS, N_SHARDS = 30, 3 * AT_LEAST
SCORE = ("score", "--dataset", "d", "--metric", "vcs", "--metric", "ecs", "--json")
# What is computed once for each row; a text may stand in two shards, and two workers may then both embed it.
COUNTED = {"score": "scorer_id::text || ' ' || sample_id", "verdict_set": "scorer_id::text || ' ' || sample_id"}
State = dict[str, list[tuple[object, ...]]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Generator[Home, None, None]:
    """A home with a dataset of shards for three workers that nobody has scored, its server stopped."""
    warm_up()
    # Asked for only now: making the models imports torch, and so does the process that warms up.
    encoder, verifier = (request.getfixturevalue(name) for name in ("tiny_text_encoder", "tiny_verifier"))
    ingested = Home(tmp_path_factory.mktemp("ingested") / "home", encoder, verifier)
    manifest = write_manifest(tmp_path_factory.mktemp("manifest"), n_videos=N_VIDEOS)
    ingested.run("ingest", str(manifest), "--dataset", "d", "--shards", str(N_SHARDS), "--json").json()
    stop_embedded(ingested.folder)
    yield ingested
    removed(ingested)


@pytest.fixture(scope="module")
def alone(home: Home, tmp_path_factory: pytest.TempPathFactory) -> State:
    """What one worker stores."""
    copy = copied(home, tmp_path_factory.mktemp("alone"))
    try:
        assert len(copy.run(*SCORE).json()["shards"]) == N_SHARDS
        return stored(copy.url)
    finally:
        removed(copy)


@pytest.fixture
def shared(home: Home, tmp_path: Path) -> Generator[Home, None, None]:
    """A home of a test's own, in which every row that is computed is counted."""
    copy = copied(home, tmp_path)
    for table, key in COUNTED.items():
        count_computed(copy.url, table, key)
    yield copy
    removed(copy)


def stored(url: URL) -> State:
    found = scored(url) | concluded(url)
    # Batches of other members round otherwise in the last digit of float32.
    found["score"] = [(*row[:3], row[3] and round(row[3], 5), *row[4:6], row[7]) for row in found["score"]]
    return found


def count_computed(url: URL, table: str, key: str) -> None:
    """Note each row that is about to be inserted and is committed, also where the table has it already."""
    with connect(url) as connection:
        connection.execute(f"CREATE TABLE computed_{table} (key text)".encode())
        connection.execute(
            f"CREATE FUNCTION note_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"INSERT INTO computed_{table} SELECT {key} FROM (SELECT NEW.*) AS new; RETURN NEW; END $$".encode()
        )
        connection.execute(
            f"CREATE TRIGGER note BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION note_{table}()".encode()
        )


def computed(url: URL, table: str) -> Counter[str]:
    return Counter(key for (key,) in rows(url, f"SELECT key FROM computed_{table}"))


def shards_of(*commands: Command) -> list[list[str]]:
    return [[row["shard"] for row in command.json()["shards"]] for command in commands]


def assert_each_once(url: URL) -> None:
    for table in COUNTED:
        found = computed(url, table)
        assert len(found) == count(url, table) > 0, table
        assert set(found.values()) == {1}, table


def test_three_workers_score_every_sample_once_and_end_where_one_does(shared: Home, alone: State) -> None:
    with hold(shared.url, "verdict_set", "true") as held:
        workers = [shared.run(*SCORE) for _ in range(3)]
        held.wait_for(1, *workers)
        until(lambda: len(run_statuses(shared.url)) == 3, "each worker has shards of its own")
    shards = shards_of(*workers)
    assert sorted(key for of_worker in shards for key in of_worker) == [f"d:{n:04d}" for n in range(N_SHARDS)]
    assert all(shards), "each had a part in it"
    assert_each_once(shared.url)
    assert stored(shared.url) == alone
    assert set(run_statuses(shared.url)) == {"SUCCESS"}
    assert slots_taken(shared.url) == 0


def test_the_shard_of_a_killed_worker_goes_to_another(shared: Home, alone: State) -> None:
    with hold(shared.url, "score", "true") as held:
        workers = [shared.run(*SCORE) for _ in range(3)]
        held.wait_for(3, *workers)
        assert run_statuses(shared.url) == ["STARTED"] * 3, "three workers have shards at once"
        workers[0].kill()
        held.release()
    shards = shards_of(*workers[1:])
    assert sorted(key for of_worker in shards for key in of_worker) == [f"d:{n:04d}" for n in range(N_SHARDS)]
    # The batch under way was rolled back with its count; all that was committed before is not computed again.
    assert_each_once(shared.url)
    assert stored(shared.url) == alone
    statuses = Counter(run_statuses(shared.url))
    assert (set(statuses), statuses["FAILURE"]) == ({"SUCCESS", "FAILURE"}, 1)
    assert slots_taken(shared.url) == 0
