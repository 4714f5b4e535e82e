"""Verifying a shard: what is judged is judged once, whatever stops a run, and early exit changes no score."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from assets.metrics.ecs.scorer import ECSScorer
from assets.metrics.ecs.verdicts import CAPTIONS_PER_QUEUE
from assets.scores.pending import store_scorer
from assets.sources.cached_models import CachingVerifier
from assets.sources.memo import CHUNK
from tests.assets.manifests import Row, candidate, keypoint
from tests.assets.verifying import Bench, Crash, Pair, Says, ToldVerifier, ecs, no_model
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


# Crashes

N_MANY = CAPTIONS_PER_QUEUE + 88
N_POINTS = 5


@pytest.mark.parametrize(("judged", "n_sets"), [(CHUNK, 0), (CAPTIONS_PER_QUEUE * N_POINTS, CAPTIONS_PER_QUEUE)])
def test_a_crash_costs_what_was_not_stored_yet(engine: Engine, tmp_path: Path, judged: int, n_sets: int) -> None:
    """In the middle of the first queue of pairs, and between the first and the second."""
    bench = Bench(engine, tmp_path)
    bench.ingest(
        ["v"],
        captions=[candidate(f"c{i}", "v", f"Number {i} is shown.") for i in range(N_MANY)],
        keypoints=[keypoint(f"k{i}", "v", text=f"Number {i}.") for i in range(N_POINTS)],
    )
    model = ToldVerifier(limit=judged)
    with pytest.raises(Crash):
        bench.verify(ecs(model))
    assert len(model.asked) == bench.count("entailment") == judged
    assert len(bench.sets(ecs(model))) == n_sets
    assert bench.count("ecs_verdict") == n_sets * N_POINTS
    rest = ToldVerifier()
    report = bench.verify(ecs(rest))
    assert (report["captions"], report["pairs_judged"]) == (N_MANY - n_sets, N_MANY * N_POINTS - judged)
    assert len(rest.asked) == N_MANY * N_POINTS - judged
    assert not set(rest.asked) & set(model.asked)
    assert bench.unverified(ecs(rest)) == set()


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


# Early exit


def random_says(seed: int) -> Says:
    """A probability for every pair, the same for the same pair."""
    return lambda *pair: random.Random(f"{seed} {pair}").random()


@pytest.fixture(scope="module")
def drawn(module_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The captions of above in a database that the examples of a property share, each with a verifier of its own."""
    bench = Bench(module_engine, tmp_path_factory.mktemp("drawn"))
    bench.ingest(POINTS, captions=CAPTIONS, keypoints=KEYPOINTS)
    return bench


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32), st.floats(0, 1), st.sampled_from([2, "all"]))
def test_early_exit_decides_alike_in_fewer_passes(
    drawn: Bench, seed: int, threshold: float, sentences: int | str
) -> None:
    says = random_says(seed)
    how: dict[str, Any] = {"ecs_threshold": threshold, "ecs_sentences": sentences}
    models = [ToldVerifier(says, revision=f"{name} {seed} {threshold} {sentences}") for name in ("plain", "early")]
    plain, early = (ecs(model, **how) for model in models)
    in_full, cut_short = drawn.run(plain), drawn.run(early, early_exit=True)
    assert {key: (row.value, row.components["covered"]) for key, row in in_full.items()} == {
        key: (row.value, row.components["covered"]) for key, row in cut_short.items()
    }
    assert set(models[1].asked) <= set(models[0].asked)
    assert len(models[1].asked) == len(set(models[1].asked))
    verdicts = drawn.verdicts(plain)
    for key, bound in drawn.verdicts(early).items():
        verdict = verdicts[key]
        assert bound.n_passes <= verdict.n_passes
        assert bound.is_lower_bound == (bound.n_passes < verdict.n_passes)
        assert (bound.probability == verdict.probability) or (threshold <= bound.probability < verdict.probability)
        assert (bound.probability >= threshold) == (verdict.probability >= threshold)
        if not bound.is_lower_bound:
            assert (bound.sentence, bound.sentence_index) == (verdict.sentence, verdict.sentence_index)
    assert drawn.unverified(early, in_full=False) == set()


def graded(premise: str, _: str) -> float:
    """0.8 of a laugh, 0.6 of a cat, else 0.3: to stop at 0.5 is not to stop at 0.7."""
    return 0.8 if "laughs" in premise else 0.6 if "cat" in premise else 0.3


def bounds(bench: Bench, scorer: ECSScorer) -> set[Pair]:
    return {key for key, row in bench.verdicts(scorer).items() if row.is_lower_bound}


def test_what_an_early_exit_left_is_completed_by_a_run_without(bench: Bench) -> None:
    model = ToldVerifier(graded)
    scorer = ecs(model)
    before = bench.run(scorer, early_exit=True)
    left = bounds(bench, scorer)
    assert left
    assert len(model.asked) < len(PAIRS)
    assert sum(bench.passes(scorer).values()) < N_PASSES
    # Nothing is lacking for scores, nor for another early exit.
    assert bench.unverified(scorer, in_full=False) == bench.pending(scorer) == set()
    assert bench.verify(ecs(no_model()), early_exit=True)["captions"] == 0
    assert bench.unverified(scorer) == {caption for caption, _ in left}

    rest = ToldVerifier(graded)
    assert bench.verify(ecs(rest))["captions"] == len({caption for caption, _ in left})
    assert {*model.asked, *rest.asked} == PAIRS
    assert not set(model.asked) & set(rest.asked)
    assert bounds(bench, scorer) == set()
    assert bench.unverified(scorer) == set()
    assert sum(bench.passes(scorer).values()) == N_PASSES
    assert bench.pending(scorer) == set()
    assert bench.scores(scorer) == before


def raise_threshold(bench: Bench, scorer: ECSScorer, value: float) -> None:
    """As a calibration does it."""
    put_label_thresholds(bench.engine, store_scorer(bench.engine, scorer), bench.dataset, segment_detail=value)


def test_a_raised_threshold_makes_an_early_exit_verify_the_undecided(bench: Bench) -> None:
    model = ToldVerifier(graded)
    scorer = ecs(model)
    bench.run(scorer, early_exit=True)
    verdicts = bench.verdicts(scorer)
    undecided = {pair[0] for pair in bounds(bench, scorer) if verdicts[pair].probability < 0.7}
    assert undecided
    raise_threshold(bench, scorer, 0.7)
    assert bench.pending(scorer) == set(SAID)
    assert bench.unverified(scorer, in_full=False) == undecided

    # Scored without verifying: what nobody can say is no number, and is tried again.
    bench.score(scorer)
    rows = bench.scores(scorer)
    assert {key for key, row in rows.items() if row.status == "failed"} == bench.pending(scorer) == undecided
    for key in undecided:
        assert rows[key].value is None
        assert "which does not decide the higher threshold 0.7000: verify it without early exit" in rows[key].error

    rest = ToldVerifier(graded)
    assert bench.verify(ecs(rest), early_exit=True)["captions"] == len(undecided)
    assert not set(rest.asked) & set(model.asked)
    bench.score(scorer)
    plain = ecs(ToldVerifier(graded, revision="plain"))
    bench.verify(plain)
    raise_threshold(bench, plain, 0.7)
    bench.score(plain)
    assert bench.values(scorer) == bench.values(plain)
    assert {row.components["thresholds"]["segment_detail"] for row in bench.scores(scorer).values()} == {0.7}
    assert bench.unverified(scorer, in_full=False) == set()


def test_a_lowered_threshold_needs_no_model(bench: Bench) -> None:
    scorer = ecs(ToldVerifier(graded))
    bench.run(scorer, early_exit=True)
    raise_threshold(bench, scorer, 0.2)
    assert bench.unverified(scorer, in_full=False) == set()
    assert bench.score(ecs(no_model())) == len(SAID)
    assert set(bench.values(scorer).values()) == {1.0}
