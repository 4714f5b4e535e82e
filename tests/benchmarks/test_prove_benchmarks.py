"""The worlds of the controls of a trial, the counts of their results, and the noise that is planted in VATEX-EVAL."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.measure import DATA
from benchmarks.prove_controls import (
    EQUAL_PAIRS,
    WorldSettings,
    build_world,
    run_planted_order,
    run_tasks,
    summarise_equal_arms,
    summarise_planted_order,
)
from benchmarks.prove_vatex import Caption, spoil_texts, write_manifest
from metrics_core.trial.student import compute_chance


def test_a_world_has_test_videos_that_no_caption_is_of() -> None:
    size = WorldSettings(training_videos=20, captions=3, validation_videos=5, test_videos=7)
    world = build_world(np.random.default_rng(0), size)
    assert world.captions.shape == (60, 128)
    assert world.videos.shape == (20, 128)
    assert [len(pairs.texts) for pairs in (world.validation, world.test)] == [5, 7]
    assert world.numbers.tolist() == [number for number in range(20) for _ in range(3)]
    for vectors in (world.captions, world.videos, world.validation.videos, world.test.texts):
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)


@pytest.mark.expensive
def test_clear_captions_train_students_and_swapped_ones_do_not() -> None:
    size = WorldSettings(training_videos=100, test_videos=40, rows=130, caption_noise=0.3, clean_noise=0.3)
    found = run_planted_order(0, size)
    assert found["mrr"] == sorted(found["mrr"], reverse=True)
    assert found["mrr"][0] > 5 * compute_chance(40)
    assert found["neighbours"][0]["conclusion"] == "better"


def test_equal_arms_are_counted_by_conclusion() -> None:
    def compare(conclusion: str) -> dict[str, Any]:
        return {"value": -0.01, "low": -0.03, "high": 0.01, "conclusion": conclusion}

    conclusions = ["better", "worse", "open", "no difference"]
    trials = [{"mrr": 0.5, **{name: compare(each) for name in EQUAL_PAIRS}} for each in conclusions]
    for name in EQUAL_PAIRS:
        found = summarise_equal_arms(trials)[name]
        assert found["called_different"]["trials"] == 2
        assert found["no_difference"]["share"] == 0.25
        assert found["half_width"]["median"] == pytest.approx(0.02)
        assert found["size"]["median"] == pytest.approx(0.01)


def test_an_order_counts_only_where_all_means_fall_and_all_steps_are_better() -> None:
    def order(means: list[float], *conclusions: str) -> dict[str, Any]:
        return {"mrr": means, "neighbours": [{"conclusion": each} for each in conclusions]}

    trials = [
        order([0.5, 0.4, 0.3, 0.2], "better", "better", "better"),
        order([0.5, 0.4, 0.3, 0.2], "better", "open", "better"),
        order([0.5, 0.4, 0.2, 0.3], "better", "better", "worse"),
        order([0.5, 0.5, 0.3, 0.2], "open", "better", "better"),
    ]
    found = summarise_planted_order(trials)
    assert found["means_in_order"]["trials"] == 2
    assert found["all_called_better"]["trials"] == 1
    assert [each["trials"] for each in found["called_better"].values()] == [3, 3, 3]


def test_finished_trials_of_a_log_are_not_run_again(tmp_path: Path) -> None:
    log = tmp_path / "trials.jsonl"
    lines = [{"kind": "equal", "trial": trial, "mrr": trial / 10} for trial in range(3)]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert run_tasks([("equal", 0), ("equal", 2)], log) == [lines[0], lines[2]]


def test_noise_keeps_every_text_swaps_videos_cuts_or_negates() -> None:
    captions = [Caption(f"v{place // 6}", place % 6, f"a dog runs in field {place} .") for place in range(20)]
    swapped = spoil_texts(captions, "swapped", random.Random(0))
    owner = {caption.text: caption.video_id for caption in captions}
    assert sorted(swapped) == sorted(owner)
    assert all(owner[text] != caption.video_id for text, caption in zip(swapped, captions, strict=True))
    keywords = spoil_texts([*captions, Caption("v9", 0, "it is .")], "keyword", random.Random(0))
    assert set(keywords[:-1]) <= {"dog", "runs", "field", *[f"field {place}" for place in range(20)]}
    assert keywords[-1] == "it is ."
    negated = spoil_texts(
        [Caption("v0", 0, "a dog is running"), Caption("v1", 0, "no dog runs")], "negated", random.Random(0)
    )
    assert negated == ["a dog is not running.", "no dog runs"]


@pytest.mark.skipif(not (DATA / "vatex_eval").is_dir(), reason="needs VATEX-EVAL, which REELSIEVE_TEST_DATA names")
def test_all_kinds_of_noise_are_in_the_same_captions(tmp_path: Path) -> None:
    texts = {}
    for kind, noise in (("swapped", 0.0), ("keyword", 0.4), ("negated", 0.4)):
        n_changed = write_manifest(tmp_path / kind, kind, noise)
        lines = (tmp_path / kind / "captions.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [row for row in map(json.loads, lines) if row["role"] == "candidate"]
        texts[kind] = {row["caption_id"]: row["text"] for row in rows}
        assert n_changed == sum(texts["swapped"][key] != text for key, text in texts[kind].items())
    clean = texts["swapped"]
    cut, negated = ({key for key, text in texts[kind].items() if text != clean[key]} for kind in ("keyword", "negated"))
    assert len(cut) == 1320
    assert negated <= cut
