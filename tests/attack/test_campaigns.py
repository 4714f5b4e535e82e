"""The small version of every campaign; `make attack` runs them in full."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy.engine import URL, Engine

from assets.metrics.registry import METRIC_INPUTS
from db.schema.migrate import migrate
from db.server.embedded import start_embedded
from tests.attack import (
    answers,
    backups,
    chat_servers,
    drops,
    filters,
    folders,
    generator,
    imports_beside_scoring,
    kills,
    manifests,
    media,
    queries,
    rater_links,
    rater_races,
    settings_files,
    stopped,
    strange_folders,
)
from tests.attack.campaign import Campaign, temporary_home
from tests.attack.chat_kinds import KINDS
from tests.attack.differences import difference
from tests.attack.statements import ENDLESS
from tests.homes import copy_home
from tests.orchestration.survival import Home, warm_up

SEED = 1


def test_spoilt_manifests(engine: Engine, tmp_path: Path) -> None:
    campaign = Campaign("manifests", SEED)
    manifests.attack(engine, tmp_path, 400, campaign)
    assert campaign.faults == []
    assert campaign.counts["lines"] >= 400
    assert campaign.counts["refused"] > 50
    for table in ("videos", "captions", "keypoints", "qa", "ratings"):
        assert campaign.counts[f"{table} accepted"], table


def test_hostile_folders(engine: Engine, tmp_path: Path) -> None:
    campaign = Campaign("folders", SEED)
    folders.attack(engine, tmp_path, 8, campaign)
    assert campaign.faults == []
    assert campaign.counts["captions ingested"] > 25
    assert campaign.counts["things left out"] > 20


@pytest.mark.expensive
def test_hostile_media_servers(engine: Engine, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp", reason="the extra `http` is not installed")
    campaign = Campaign("media", SEED)
    media.attack(engine, tmp_path, 1, campaign)
    assert campaign.faults == []
    assert campaign.counts["videos"] > len(media.KINDS) > 30
    assert campaign.counts["refused as media_unavailable"] > 20


def test_folders_of_somebody_else(migrated_home: Path, tmp_path: Path) -> None:
    campaign = Campaign("strange_folders", SEED)
    strange_folders.attack(migrated_home, tmp_path / "work", 25, campaign)
    assert campaign.faults == []
    assert campaign.counts["commands"] == 25


def test_settings_files(tmp_path: Path) -> None:
    campaign = Campaign("settings_files", SEED)
    settings_files.attack(tmp_path, 100, campaign)
    assert campaign.faults == []
    assert campaign.counts["usable: taken"] > 3
    assert campaign.counts["spoilt: refused"] > 3


def test_filters_against_raw_sql(engine: Engine, database: URL) -> None:
    campaign = Campaign("filters", SEED)
    filters.attack(engine, database, 150, campaign)
    assert campaign.faults == []
    assert campaign.counts["accepted"] > 50
    assert campaign.counts["refused"] > 30
    assert campaign.counts["rows compared"] > 500


@pytest.mark.expensive
def test_hostile_statements() -> None:
    campaign = Campaign("queries", SEED)
    with temporary_home() as home:
        url = start_embedded(home)
        migrate(url, METRIC_INPUTS)
        dataset = queries.fill_database(url, campaign.random)
        queries.attack(url, 10, campaign)
        queries.attack_directly(url, dataset, 10, campaign)
    assert campaign.faults == []
    assert campaign.counts["statements"] == 10 + len(ENDLESS)
    assert campaign.counts["times that others worked"] == 13


def test_hostile_chat_servers(engine: Engine, tmp_path: Path) -> None:
    campaign = Campaign("chat_servers", SEED)
    chat_servers.attack(engine, tmp_path, len(KINDS), 1, campaign)
    assert campaign.faults == []
    assert campaign.counts["kinds"] == len(KINDS) >= 40
    assert campaign.counts["hostile answers while scoring"] > 0
    for status in ("ok", "error", "malformed", "refused"):
        assert campaign.counts[f"replies: {status}"], status


def test_histories_against_an_oracle(engine: Engine, tmp_path: Path) -> None:
    campaign = Campaign("answers", SEED)
    answers.attack(engine, tmp_path / "manifest", 40, campaign)
    assert campaign.faults == []
    for status in ("ok", "stale", "no_reference", "too_short"):
        assert campaign.counts[f"shown: {status}"] > 10, status


def test_a_worker_that_stands_still_between_load_and_write(engine: Engine, database: URL, tmp_path: Path) -> None:
    campaign = Campaign("stopped", SEED)
    stopped.attack(engine, database, tmp_path / "manifest", 4, campaign)
    assert campaign.faults == []
    for place in stopped.PLACES:
        assert campaign.counts[f"stops before {place} are stored"], place
    assert campaign.counts["values compared"] > 40


def test_raters_beside_changed_texts(engine: Engine, tmp_path: Path) -> None:
    campaign = Campaign("rater_races", SEED)
    rater_races.attack(engine, tmp_path / "manifest", 1, campaign)
    assert campaign.faults == []
    assert campaign.counts["answers compared"] > 100
    assert campaign.counts["answers taken back"] > 0
    for view in ("current_rating", "random_rating", "current_label"):
        assert campaign.counts[f"rows of {view} compared"] > 20


def test_links_of_raters(engine: Engine) -> None:
    campaign = Campaign("rater_links", SEED)
    rater_links.attack(engine, 240, campaign)
    assert campaign.faults == []
    assert campaign.counts["attempts"] == 240
    assert campaign.counts["answers sent again"] > 0


def test_states_are_the_same_up_to_rounding() -> None:
    state = [("a", 1, 0.5, Decimal("0.1"), b"x", None, '{"x": [0.1], "y": "b"}')]
    rounded = [("a", 1, 0.500001, Decimal("0.100001"), b"x", None, '{"y": "b", "x": [0.100001]}')]
    assert difference(rounded, state, 1e-5) is None
    assert difference(rounded, state, 0.0) == "0.500001 for 0.5"
    for found in (("b", 1), ("a", 2), ("a", 0.9), ("a", None), ("a",), None):
        assert difference([found], [("a", 1)], 1e-5) is not None, found
    assert difference('{"x": 0.2, "z": 1}', '{"x": 0.2}', 1e-5) is not None


@pytest.mark.expensive
def test_backups(tmp_path: Path) -> None:
    warm_up()
    campaign = Campaign("backups", SEED)
    with temporary_home() as home:
        backups.attack(home, tampered=6, kills=1, campaign=campaign)
    assert campaign.faults == []
    assert (campaign.counts["refused"], campaign.counts["restored"]) == (5, 1)


@pytest.mark.expensive
def test_kills(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    warm_up()
    # Asked for only now: making the models imports torch, and so does the process that warms up.
    encoder, verifier = (request.getfixturevalue(name) for name in ("tiny_text_encoder", "tiny_verifier"))
    campaign = Campaign("kills", SEED)
    kills.attack(tmp_path, encoder, verifier, ("score", "server"), 2, campaign, n_videos=12)
    assert campaign.faults == []
    assert campaign.counts["kills"] == 2
    assert campaign.counts["rows compared"] > 300


@pytest.mark.expensive
def test_drops_beside_commands(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    warm_up()
    encoder, verifier = (request.getfixturevalue(name) for name in ("tiny_text_encoder", "tiny_verifier"))
    campaign = Campaign("drops", SEED)
    chosen = [
        drops.Drop("facts", "SQL", "text_fact"),
        drops.Drop("score", "reelsieve", "text_embedding"),
        drops.Drop("ingest", "reelsieve", "sample"),
        drops.Drop("ingest --dry-run", "SQL", "video"),
    ]
    drops.attack(tmp_path, encoder, verifier, chosen, campaign)
    assert campaign.faults == []
    assert campaign.counts["drops"] == len(chosen)
    assert campaign.counts["ingest --dry-run ended with 1"] == 1
    assert campaign.counts["score ended with 0"] == 1
    assert campaign.counts["drop ended with 1"] > 0


@pytest.mark.expensive
def test_imports_beside_scoring(prepared_home: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    warm_up()
    home = Home(tmp_path / "home", request.getfixturevalue("tiny_text_encoder"))
    copy_home(prepared_home, home.folder)
    campaign = Campaign("imports_beside_scoring", SEED)
    imports_beside_scoring.attack(home, tmp_path, 1, campaign)
    assert campaign.faults == []
    assert campaign.counts["numbers compared"] > 50
    assert campaign.counts["stale numbers"] > 0
    assert campaign.counts["scores compared"] == imports_beside_scoring.N_VIDEOS


@pytest.mark.expensive
def test_random_operations(prepared_home: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    warm_up()
    home = Home(tmp_path / "home", request.getfixturevalue("tiny_text_encoder"))
    copy_home(prepared_home, home.folder)
    campaign = Campaign("generator", SEED)
    generator.attack(home, tmp_path, range(12), campaign)
    assert campaign.faults == []
    assert campaign.counts["comparisons"] == 3
    assert campaign.counts["captions compared"] > 5
