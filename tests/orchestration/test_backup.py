"""A back-up into another home: everything is there, nothing is left to score, and nothing is ever overwritten."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from db.server.embedded import stop_embedded
from db.server.urls import build_sibling_url
from tests.homes import copy_home
from tests.orchestration.conftest import write_manifest
from tests.orchestration.survival import (
    Home,
    count,
    ingested,
    removed,
    rows,
    run_statuses,
    scored,
    warm_up,
)

pytestmark = pytest.mark.slow

SCORE = ("score", "--dataset", "d", "--metric", "vcs", "--json")


@pytest.fixture(scope="module")
def home(
    prepared_home: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Generator[Home, None, None]:
    """A home with a dataset that is scored, and a selection of it."""
    warm_up()
    encoder: Path = request.getfixturevalue("tiny_text_encoder")
    made = Home(tmp_path_factory.mktemp("backup") / "home", encoder)
    copy_home(prepared_home, made.folder)
    manifest = write_manifest(tmp_path_factory.mktemp("manifest"), n_videos=4)
    made.run("ingest", str(manifest), "--dataset", "d", "--json").json()
    made.run(*SCORE).json()
    made.run("select", "--dataset", "d", "--keep", "0.5", "--json").json()
    yield made
    removed(made)


@pytest.fixture(scope="module")
def backup(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("backups") / "today"
    assert home.run("db", "dump", str(target), "--json").json() == {"path": str(target.resolve())}
    return target


@pytest.fixture
def other(home: Home, tmp_path: Path) -> Generator[Home, None, None]:
    """A home that nobody has used yet."""
    made = Home(tmp_path / "home", home.encoder)
    yield made
    stop_embedded(made.folder)


def test_a_back_up_restores_all_of_it_into_another_home(home: Home, backup: Path, other: Home) -> None:
    assert other.run("db", "restore", str(backup), "--json").json()["revision"]
    assert scored(other.url) == scored(home.url)
    assert ingested(other.url) == ingested(home.url)
    assert run_statuses(other.url) == run_statuses(home.url) != []
    for table in ("selection", "selection_item"):
        assert count(other.url, table) == count(home.url, table) > 0
    assert other.run(*SCORE).json()["shards"] == [], "nothing is left to score"
    again = other.run("select", "--dataset", "d", "--keep", "0.5", "--json").json()
    assert again["selection_id"] == 1, "the selection is found again"
    answer = other.run("sql", "SELECT count(*) AS n FROM sample_scores WHERE vcs IS NOT NULL", "--json").json()
    assert answer == [{"n": count(home.url, "score") - 4}], "the reader may read"

    same = other.run("db", "restore", str(backup))
    assert same.wait() == 0
    assert "this back-up was restored here before, so nothing was restored now" in " ".join(same.stderr.split())
    other.run("db", "dump", str(other.folder.parent / "newer")).wait()
    refused = other.run("db", "restore", str(other.folder.parent / "newer"))
    assert refused.wait() == 1
    assert "database curation already holds 1 row of dataset: restore into another home" in " ".join(
        refused.stderr.split()
    )


def test_a_back_up_is_never_written_over(home: Home, backup: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in backup.iterdir()}
    refused = home.run("db", "dump", str(backup))
    assert refused.wait() == 1
    assert "exists already: give the name of a new folder" in " ".join(refused.stderr.split())
    assert {path.name: path.stat().st_mtime_ns for path in backup.iterdir()} == before
    assert sorted(before) == ["backup.json", "curation.zip", "dagster.zip"]


def test_what_is_no_back_up_is_one_sentence_and_leaves_an_empty_home(backup: Path, other: Home, tmp_path: Path) -> None:
    torn = tmp_path / "torn"
    torn.mkdir()
    (torn / "backup.json").write_bytes((backup / "backup.json").read_bytes())
    (torn / "curation.zip").write_bytes((backup / "curation.zip").read_bytes()[:-20_000])
    (torn / "dagster.zip").write_bytes((backup / "dagster.zip").read_bytes())
    for folder, sentence in (
        (tmp_path, "is not a back-up: give a folder that reelsieve db dump wrote"),
        (torn, "curation.zip has changed since it was written"),
    ):
        refused = other.run("db", "restore", str(folder))
        assert refused.wait() == 1
        (line,) = (line for line in refused.stderr.splitlines() if line.startswith("error: "))
        assert sentence in line
    found = rows(build_sibling_url(other.url, "postgres"), "SELECT datname FROM pg_database")
    assert {name for (name,) in found} == {"postgres", "template0", "template1"}
