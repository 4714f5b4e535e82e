"""Verifying a shard: what is judged is judged once, whatever stops a run, and a new threshold asks no model."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from assets.scores.pending import store_scorer
from assets.sources.cached_models import CachingVerifier
from tests.assets.manifests import Row, candidate, keypoint
from tests.assets.verifying import Bench, Pair, ToldVerifier, ecs, no_model
from tests.db.builders import put_label_thresholds

# The sentences of every caption, split by hand, and the keypoints of every video.
SAID = {
    "full": ["A man opens a box.", "A cat jumps out.", "He laughs."],
    "brief": ["A cat jumps out."],
    "copy": ["A man opens a box.", "A cat jumps out.", "He laughs."],
    "rice": ["A cook boils rice.", "He laughs."],
}
VIDEO_OF = {"full": "cat", "brief": "cat", "copy": "cat", "rice": "rice"}
POINTS = {"cat": ["A man opens a box.", "An animal jumps."], "rice": ["Someone boils rice."]}
CAPTIONS = [candidate(name, video, " ".join(SAID[name])) for name, video in VIDEO_OF.items()]
KEYPOINTS = [
    keypoint(f"{video}{i}", video, text=text) for video, texts in POINTS.items() for i, text in enumerate(texts)
]
PAIRS = {(sentence, text) for name, video in VIDEO_OF.items() for sentence in SAID[name] for text in POINTS[video]}
N_PASSES = sum(len(SAID[name]) * len(POINTS[video]) for name, video in VIDEO_OF.items())


@pytest.fixture
def bench(engine: Engine, tmp_path: Path) -> Bench:
    bench = Bench(engine, tmp_path)
    bench.ingest(POINTS, captions=CAPTIONS, keypoints=KEYPOINTS)
    return bench


# Judged once


def test_every_pair_is_judged_once(bench: Bench) -> None:
    model = ToldVerifier()
    report = bench.verify(ecs(model))
    # Three captions share sentences: 16 passes, 8 pairs.
    assert sorted(model.asked) == sorted(PAIRS)
    assert (report["captions"], report["keypoints"]) == (4, 7)
    assert (report["passes"], report["pairs_judged"]) == (N_PASSES, len(PAIRS)) == (16, 8)
    assert bench.count("entailment") == len(PAIRS)
    assert report["unverifiable"] == 0


def test_a_second_run_asks_nothing_and_writes_nothing(bench: Bench) -> None:
    before = bench.run(ecs(ToldVerifier()))
    sets, verdicts = bench.sets(ecs(no_model())), bench.verdicts(ecs(no_model()))
    report = bench.verify(ecs(no_model()))
    assert (report["captions"], report["passes"], report["pairs_judged"]) == (0, 0, 0)
    assert bench.score(ecs(no_model())) == 0
    assert bench.scores(ecs(no_model())) == before
    assert (bench.sets(ecs(no_model())), bench.verdicts(ecs(no_model()))) == (sets, verdicts)


def test_another_scorer_asks_only_for_what_nobody_judged(bench: Bench) -> None:
    """One sentence per keypoint, then two, then all; then other modes and thresholds."""
    asked: set[Pair] = set()
    for sentences, n_passes in ((1, 7), (2, 7 + 5), ("all", N_PASSES)):
        model = ToldVerifier()
        report = bench.verify(ecs(model, ecs_sentences=sentences))
        assert report["passes"] == n_passes
        assert not asked & set(model.asked)
        asked |= set(model.asked)
    assert asked == PAIRS
    for other in ({"ecs_mode": "flat_macro"}, {"ecs_threshold": 0.9}, {"ecs_sentences": 3}):
        report = bench.verify(ecs(no_model(), **other))
        assert (report["passes"], report["pairs_judged"]) == (N_PASSES, 0)
    assert bench.count("verdict_set") == 6 * len(SAID)


def test_another_dataset_asks_only_for_what_nobody_judged(bench: Bench) -> None:
    bench.verify(ecs(ToldVerifier()))
    other = Bench(bench.engine, bench.folder, "other")
    more = [*CAPTIONS, candidate("new", "rice", "Water boils.")]
    other.ingest(POINTS, captions=more, keypoints=KEYPOINTS, n_shards=2)
    model = ToldVerifier()
    assert len(other.run(ecs(model))) == 5
    assert model.asked == [("Water boils.", "Someone boils rice.")]


def test_another_verifier_judges_for_itself(bench: Bench) -> None:
    bench.verify(ecs(ToldVerifier()))
    model = ToldVerifier(revision="2")
    bench.verify(ecs(model))
    assert sorted(model.asked) == sorted(PAIRS)
    assert bench.count("entailment") == 2 * len(PAIRS)


# What changes


def test_a_changed_text_costs_only_its_own_sentences(bench: Bench) -> None:
    before = bench.run(ecs(ToldVerifier()))
    old = bench.sets(ecs(no_model()))
    captions = [{**row, "text": "He laughs. A dog barks."} if row["caption_id"] == "copy" else row for row in CAPTIONS]
    bench.ingest(POINTS, captions=captions, keypoints=KEYPOINTS)
    model = ToldVerifier()
    scorer = ecs(model)
    assert bench.unverified(scorer) == bench.pending(scorer) == {"copy"}
    assert bench.verify(scorer)["captions"] == 1
    assert sorted(model.asked) == sorted(("A dog barks.", text) for text in POINTS["cat"])
    assert bench.score(scorer) == 1
    after = bench.scores(scorer)
    assert {key for key in after if after[key] != before[key]} == {"copy"}
    assert {key for key, row in bench.sets(scorer).items() if row != old[key]} == {"copy"}


@pytest.mark.parametrize(
    ("change", "new"),
    [
        (keypoint("rice1", "rice", text="Water boils."), "Water boils."),
        (keypoint("rice0", "rice", text="Someone cooks rice."), "Someone cooks rice."),
        (keypoint("rice0", "rice", text="Someone boils rice.", dimension="camera_state"), None),
    ],
    ids=["added", "another text", "another dimension"],
)
def test_a_changed_keypoint_costs_only_the_captions_of_its_video(bench: Bench, change: Row, new: str | None) -> None:
    before = bench.run(ecs(ToldVerifier()))
    keypoints = {row["keypoint_id"]: row for row in [*KEYPOINTS, change]}
    bench.ingest(POINTS, captions=CAPTIONS, keypoints=keypoints.values())
    model = ToldVerifier()
    scorer = ecs(model)
    assert bench.unverified(scorer) == bench.pending(scorer) == {"rice"}
    assert bench.verify(scorer)["captions"] == 1
    assert sorted(model.asked) == sorted((sentence, new) for sentence in SAID["rice"] if new)
    assert bench.score(scorer) == 1
    after = bench.scores(scorer)
    assert {key for key in after if after[key] != before[key]} == {"rice"}
    assert change["dimension"] in after["rice"].components["keypoints"]


def test_a_remembering_model_answers_in_the_order_of_its_pairs(engine: Engine) -> None:
    said: dict[Pair, float] = {("a longer premise", "h"): 0.1, ("b", "h"): 0.2, ("c", "long hypothesis"): 0.3}
    pairs = [*said, *reversed(said)]
    model = ToldVerifier(lambda *pair: said[pair])
    told: list[str] = []
    remembering = CachingVerifier(engine, model, "captions 1 to 9 of 9", told.append)
    assert remembering.identity == model.identity
    for _ in range(2):
        found = remembering.entailment(pairs)
        assert found.probabilities.tolist() == [said[pair] for pair in pairs]
        assert found.truncated.tolist() == [False] * 6
        assert remembering.n_verified == 3
    # The longest first; told before and after there is something to judge.
    assert model.asked == [("a longer premise", "h"), ("c", "long hypothesis"), ("b", "h")]
    assert told == [f"captions 1 to 9 of 9: {done} of 3 pairs judged" for done in (0, 3)]
    assert remembering.entailment([]).probabilities.shape == (0,)


# Thresholds


@pytest.mark.parametrize(("threshold", "score"), [(0.2, 1.0), (0.9, 0.0)])
def test_another_threshold_needs_no_model(bench: Bench, threshold: float, score: float) -> None:
    scorer = ecs(ToldVerifier(lambda *_: 0.6))
    bench.run(scorer)
    put_label_thresholds(bench.engine, store_scorer(bench.engine, scorer), bench.dataset, segment_detail=threshold)
    assert bench.unverified(scorer) == set()
    assert bench.pending(scorer) == set(SAID)
    assert bench.score(ecs(no_model())) == len(SAID)
    assert set(bench.values(scorer).values()) == {score}
