"""`reelsieve score --facts` measures facts in the pass that decodes frames, and then the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assets.home.folder import DEMO_DATASET
from assets.home.settings import read_settings
from assets.media.decoders import MEMORY_SHARING, choose_decoder_pool, count_cores, read_free_memory
from assets.media.settings import MediaSettings
from orchestration.cluster.worker import RayWorker
from orchestration.installation import get_installation
from orchestration.launch import run_facts, run_ingest
from tests.assets.manifests import candidate, write_clip, write_manifest
from tests.command_line import run_command
from tests.orchestration.conftest import Installation

pytestmark = pytest.mark.slow


def run(*arguments: str) -> Any:
    done = run_command(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_score_with_facts_leaves_nothing_to_measure(installation: Installation) -> None:
    names = ("first", "second", "without a caption")
    # The demo's encoder scores only the demo's dataset, which lies there.
    folder = installation.home / DEMO_DATASET
    for number in range(len(names)):
        write_clip(folder / f"{number}.avi", n_frames=12 + number, brightness=40 + 60 * number)
    videos: list[Any] = [{"video_id": name, "path": f"{number}.avi"} for number, name in enumerate(names)]
    captions = [candidate(name, name, f"A red circle of the {name} clip slides left.") for name in names[:2]]
    run_ingest(get_installation(), write_manifest(folder, videos, captions=captions), DEMO_DATASET, None, 1)
    scored = run("score", "--dataset", DEMO_DATASET, "--metric", "evqa", "--facts")
    assert sum(shard["evqa"] for shard in scored["shards"]) == 2
    assert run("facts", "--dataset", DEMO_DATASET)["described"] == {"text_fact": 0, "video_fact": 0}
    query = (
        "SELECT v.key, f.status, f.measured_at <= e.encoded_at AS before_frames FROM video v "
        "JOIN video_fact f USING (video_id) LEFT JOIN frame_set e USING (video_id) ORDER BY v.key"
    )
    rows = run("sql", query)
    assert [(row["key"], row["status"], row["before_frames"]) for row in rows] == [
        ("first", "ok", True),
        ("second", "ok", True),
        ("without a caption", "ok", None),
    ]


def test_facts_are_measured_in_the_chosen_shards_only(installation: Installation, tmp_path: Path) -> None:
    names = [str(number) for number in range(6)]
    for number, name in enumerate(names):
        write_clip(tmp_path / f"{name}.avi", n_frames=12, brightness=20 + 30 * number)
    videos: list[Any] = [{"video_id": name, "path": f"{name}.avi"} for name in names]
    captions = [candidate(name, name, f"A red circle of clip {name} slides left.") for name in names]
    run_ingest(get_installation(), write_manifest(tmp_path, videos, captions=captions), "divided", None, 3)
    # Without a reference no model is asked.
    run("score", "--dataset", "divided", "--metric", "vcs", "--shard", "0", "--shard", "2", "--facts")
    n_left = 0
    for row in run("sql", "SELECT shard, language, brightness FROM sample_scores WHERE dataset = 'divided'"):
        assert (row["language"] is None) == (row["brightness"] is None) == (row["shard"] == 1), row
        n_left += row["shard"] == 1
    assert 0 < n_left < len(names)
    assert run_facts(get_installation(), "divided") == {"text_fact": n_left, "video_fact": n_left}


def test_an_actor_decodes_by_its_cores_where_no_setting_says_otherwise(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REELSIEVE_DECODERS", "5")
    RayWorker(3)
    assert read_settings(MediaSettings).decoders == 5
    monkeypatch.delenv("REELSIEVE_DECODERS")
    RayWorker()
    assert read_settings(MediaSettings).decoders is None
    RayWorker(3)
    assert read_settings(MediaSettings).decoders == 3


def test_actors_of_a_machine_share_the_memory_of_its_decoders(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REELSIEVE_DECODERS", "1")
    cores = count_cores()
    shares = []
    for n_actors, cpus in ((1, 1.0), (2, 0.5), (1000, 0.25), (1000, cores), (1000, 2.0 * cores)):
        RayWorker(1, n_actors, cpus)
        shares.append(MEMORY_SHARING.n_processes)
    RayWorker(1)
    assert shares == [1, 2, 4 * cores, 1, 1], "as many as there are, or as its cores have room for"
    free = read_free_memory()
    assert free is not None
    MEMORY_SHARING.n_processes = 1000
    # Other processes take and give back memory meanwhile, but not a thousand times as much.
    assert choose_decoder_pool(1, [], print).memory_bytes < free / 200
    MEMORY_SHARING.n_processes = 1
