"""A verifier that weighs the whole text: verdicts and identity change with it, stored pairs do not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.scores.base import Explanation
from assets.scores.explain import explain_score
from metrics_core.protocols import ModelIdentity
from tests.assets.manifests import candidate, keypoint
from tests.assets.verifying import Bench, Says, ToldVerifier, ecs, overlap

TEXT = "A man opens a box. A cat jumps out."
KEYPOINT = "A cat jumps out of a box."


class ShareOfWords:
    """Halfway between a sentence's probability and the share of the hypothesis's words in the whole text."""

    identity = ModelIdentity("share of words", "1", {})

    def weigh(self, probabilities: Sequence[float], sentences: Sequence[str], hypothesis: str) -> list[float]:
        return [(each + overlap(" ".join(sentences), hypothesis)) / 2 for each in probabilities]

    def list_shared_words(self, sentences: Sequence[str], hypothesis: str) -> list[str]:
        return sorted(set(hypothesis.lower().strip(".").split()) & set(" ".join(sentences).lower().split()))


class Weighed(ToldVerifier):
    """Says what it is told, and weighs the whole text."""

    def __init__(self, says: Says = overlap) -> None:
        super().__init__(says)
        self.whole_text = ShareOfWords()


@pytest.fixture
def bench(engine: Engine, tmp_path: Path) -> Bench:
    bench = Bench(engine, tmp_path)
    rows = [keypoint("k", "cat", text=KEYPOINT)]
    bench.ingest({"cat": [KEYPOINT]}, captions=[candidate("both", "cat", TEXT)], keypoints=rows)
    return bench


def test_verdicts_are_weighed_by_all_sentences_and_pairs_are_stored_as_judged(bench: Bench) -> None:
    """By the one nearest sentence: words a, cat, jumps, out of six; of and box are missing; the text has box too."""
    plain, weighed = ecs(ToldVerifier(), ecs_sentences=1), ecs(Weighed(), ecs_sentences=1)
    bench.verify(plain)
    alone = bench.verdicts(plain)["both", "k"]
    assert (alone.probability, alone.sentence_index) == (pytest.approx(4 / 6), 1)
    assert bench.verify(weighed)["pairs_judged"] == 0
    verdict = bench.verdicts(weighed)["both", "k"]
    assert verdict.probability == pytest.approx((4 / 6 + 5 / 6) / 2)
    assert verdict.sentence_index == 1
    with bench.engine.connect() as connection:
        stored = connection.scalars(sa.text("SELECT probability FROM entailment")).all()
    assert stored == [pytest.approx(4 / 6)]


def test_a_sentence_is_shown_as_proof_only_if_it_proves(bench: Bench) -> None:
    """The offline verifier's sentences prove from .335 on; with .2 the words of the whole text carry the keypoint."""

    def explained(probability: float, threshold: float = 0.5) -> Explanation:
        scorer = ecs(Weighed(lambda *_: probability), ecs_threshold=threshold)
        scorer.verification.model.identity = ModelIdentity("told", f"{probability}", {})
        bench.run(scorer)
        score = explain_score(bench.engine, scorer.metric, scorer, bench.dataset, "both")
        assert score is not None
        return score.explanation

    by_words, proven, uncovered = explained(0.2), explained(0.6), explained(0.2, threshold=0.9)
    assert [row["why"] for row in by_words.rows] == ["words of the whole text: a, cat, jumps"]
    assert by_words.lines[1] == "1 of them covered by words of the whole text, since no single sentence reaches p 0.34"
    assert [row["why"] for row in proven.rows] == ["A cat jumps out."]
    assert [row["why"] for row in uncovered.rows] == ["nearest: A cat jumps out."]
    assert len(proven.lines) == len(uncovered.lines) == 1


def test_the_weigher_is_part_of_the_scorers_identity_and_of_no_other_scorers() -> None:
    plain, weighed = ecs(ToldVerifier()).models(), ecs(Weighed()).models()
    assert weighed == {**plain, "whole_text": {"model_id": "share of words", "revision": "1", "params": {}}}
