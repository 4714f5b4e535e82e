"""ECS with a verifier that says what it is told: values by hand, and all that has no value."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sqlalchemy.engine import Engine

from assets.definitions.score_checks import evaluate_checks
from assets.metrics.ecs.verdicts import KeypointVerdicts
from assets.scores.pending import store_scorer
from assets.sources.base import MissingEvidence
from db.scores.quality import count_shard_scores
from metrics_core.protocols import ModelIdentity
from tests.assets.manifests import Row, candidate, keypoint, qa, reference, spans
from tests.assets.verifying import Bench, Pair, Says, ToldVerifier, ecs, entailed, make_kind, no_model, score_rows

EVENTS, CAMERA = "segment_detail", "camera_state"
IDS = {"caption_id", "keypoint_id"}


@pytest.fixture
def bench(engine: Engine, tmp_path: Path) -> Bench:
    return Bench(engine, tmp_path)


def points(video: str, dimension: str, *texts: str, segment: int | None = None) -> list[Row]:
    """Keypoints of a dimension, whose ids are their texts."""
    return [keypoint(f"{video} {text}", video, dimension=dimension, text=text, segment_index=segment) for text in texts]


# Flat

FLAT = points("v", EVENTS, "e0", "e1", "e2", "e3") + points("v", CAMERA, "c0")
SAID = "One thing. Another thing."
# Two of four events and the only camera keypoint, as in case G of the specification.
TOLD = entailed(("One thing.", "e0"), ("Another thing.", "e3"), ("One thing.", "c0"))


def test_the_share_of_covered_keypoints(bench: Bench) -> None:
    bench.ingest(["v"], captions=[candidate("c", "v", SAID)], keypoints=FLAT)
    scorer = ecs(ToldVerifier(TOLD))
    row = bench.run(scorer)["c"]
    assert (row.value, row.status, row.error) == (pytest.approx(0.6, abs=1e-12), "ok", None)
    parts = {
        "mode": "flat_micro",
        "outcome": "ok",
        "by_dimension": {EVENTS: 0.5, CAMERA: 1.0},
        "covered": {EVENTS: 2, CAMERA: 1},
        "keypoints": {EVENTS: 4, CAMERA: 1},
        "thresholds": {EVENTS: 0.5, CAMERA: 0.5},
        "calibrated": [],
        "n_sentences": 2,
    }
    assert row.components == parts
    assert bench.passes(scorer) == {"c": 10}
    verdicts = {keypoint: row for (_, keypoint), row in bench.verdicts(scorer).items()}
    assert {key: row.probability for key, row in verdicts.items()} == {
        "v e0": 0.9, "v e1": 0.1, "v e2": 0.1, "v e3": 0.9, "v c0": 0.9
    }  # fmt: skip
    assert (verdicts["v e0"].sentence_index, verdicts["v e0"].sentence) == (0, "One thing.")
    assert (verdicts["v e3"].sentence_index, verdicts["v e3"].sentence) == (1, "Another thing.")
    # Another mode counts otherwise, and asks nothing that is not known.
    macro = bench.run(ecs(no_model(), ecs_mode="flat_macro"))["c"]
    assert macro.value == pytest.approx(0.75, abs=1e-12)
    assert macro.components == {**parts, "mode": "flat_macro"}
    assert bench.run(ecs(no_model(), ecs_mode="flat_micro"))["c"].components == parts


def test_a_keypoint_is_covered_from_its_threshold_on() -> None:
    model = ToldVerifier(lambda _, hypothesis: {"a": 0.7, "b": math.nextafter(0.7, 0)}[hypothesis])
    scorer = ecs(model, ecs_threshold=0.7)
    (row,) = score_rows(scorer, [candidate("c", "v", "Said.")], keypoints=points("v", EVENTS, "a", "b")).values()
    assert (row.value, row.components["thresholds"]) == (0.5, {EVENTS: 0.7})


def test_equal_keypoints_count_each(bench: Bench) -> None:
    twice = [keypoint(f"k{i}", "v", text="A pan.") for i in range(2)]
    bench.ingest(["v"], captions=[candidate("c", "v", "Said.")], keypoints=[*twice, *points("v", EVENTS, "other")])
    model = ToldVerifier(entailed(("Said.", "A pan.")))
    scorer = ecs(model)
    (row,) = bench.run(scorer).values()
    assert row.value == pytest.approx(2 / 3, abs=1e-12)
    assert bench.passes(scorer) == {"c": 3}
    assert sorted(model.asked) == [("Said.", "A pan."), ("Said.", "other")]
    assert len(bench.verdicts(scorer)) == 3


def test_field_tags_and_lines_are_no_sentences() -> None:
    text = "[segment_detail]\tA man sits. He waves.\n[speech]\tHi!\n..."
    model = ToldVerifier()
    row = score_rows(ecs(model), [candidate("c", "v", text)], keypoints=points("v", EVENTS, "k"))["c"]
    assert row.components["n_sentences"] == 3
    assert sorted(model.asked) == [("A man sits.", "k"), ("He waves.", "k"), ("Hi!", "k")]


# SodaM: case A of the specification. Four reference segments, four predicted ones, in 0:{0, 1} 1:{2} 2:{3}.

TIMES = ((0, 10), (10, 20), (20, 30), (30, 40))
PREDICTED = ((0, 5), (5, 10), (10, 22), (22, 30))
SENTENCES = ("Zero.", "First.", "Second.", "Third.")
TIMED_POINTS = [
    *points("v", EVENTS, "e00", "e01", "e02", segment=0),
    *points("v", CAMERA, "c0", segment=0),
    *points("v", EVENTS, "e10", "e11", "e12", "e13", segment=1),
    *points("v", CAMERA, "c1", segment=1),
    *points("v", EVENTS, "e20", segment=2),
    *points("v", EVENTS, "e30", "e31", segment=3),
]
COVERED: list[Pair] = [
    ("Zero.", "e00"),
    ("First.", "e01"),
    ("First.", "c0"),
    ("Second.", "e10"),
    ("Third.", "e20"),
    # Said at another time, or of a segment that nobody tells of: these do not count where times do.
    ("Third.", "e11"),
    ("Zero.", "c1"),
    ("Second.", "e30"),
]


def timed(**more: Any) -> list[Row]:
    """Reference and caption of case A; `more` are fields of the caption."""
    told = candidate("c", "v", " ".join(SENTENCES), segments=spans(*PREDICTED, texts=SENTENCES))
    return [reference("r", "v", "What is seen.", segments=spans(*TIMES)), {**told, **more}]


def test_the_f1_of_an_alignment_where_both_have_times(bench: Bench) -> None:
    bench.ingest(["v"], captions=timed(), keypoints=TIMED_POINTS)
    model = ToldVerifier(entailed(*COVERED))
    scorer = ecs(model)
    row = bench.run(scorer)["c"]
    parts = row.components
    assert (row.status, parts["mode"], parts["outcome"]) == ("ok", "sodam", "ok")
    assert row.value == pytest.approx(0.557142857, abs=1e-9)
    assert parts["precision"] == pytest.approx(0.65, abs=1e-12)
    assert parts["recall"] == pytest.approx(0.4875, abs=1e-12)
    assert parts["by_dimension"] == {EVENTS: pytest.approx(0.547619048, abs=1e-9), CAMERA: 0.5}
    assert parts["covered"] == {EVENTS: 4, CAMERA: 1}
    assert parts["keypoints"] == {EVENTS: 10, CAMERA: 2}
    # Two sentences for each of segment 0, one for each of 1 and 2, none for segment 3.
    assert (parts["n_sentences"], bench.passes(scorer)["c"], len(model.asked)) == (4, 4 * 2 + 5 + 1, 14)
    verdicts = bench.verdicts(scorer)
    assert (verdicts["c", "v e01"].sentence, verdicts["c", "v e01"].sentence_index) == ("First.", 1)
    assert (verdicts["c", "v e30"].probability, verdicts["c", "v e30"].sentence) == (None, None)
    asked_for = bench.run(ecs(no_model(), ecs_mode="sodam"))["c"]
    assert (asked_for.value, asked_for.components) == (row.value, parts)


def test_a_flat_mode_holds_timed_captions_whole_against_keypoints() -> None:
    for mode, value in (("flat_micro", 8 / 12), ("flat_macro", (6 / 10 + 2 / 2) / 2)):
        model = ToldVerifier(entailed(*COVERED))
        row = score_rows(ecs(model, ecs_mode=mode), timed(), keypoints=TIMED_POINTS)["c"]
        assert (row.value, row.components["mode"]) == (pytest.approx(value, abs=1e-12), mode)
        assert len(model.asked) == 12 * 4


def test_the_order_of_segments_does_not_matter() -> None:
    order = (2, 0, 3, 1)
    segments = spans(*(PREDICTED[i] for i in order), texts=[SENTENCES[i] for i in order])
    scorer = ecs(ToldVerifier(entailed(*COVERED)))
    row = score_rows(scorer, timed(segments=segments), keypoints=TIMED_POINTS)["c"]
    assert row.value == pytest.approx(3.9 / 7, abs=1e-12)


def test_predictions_that_meet_no_reference_count_against_the_caption() -> None:
    captions = [
        reference("r", "v", "Seen.", segments=spans((0, 10))),
        candidate("c", "v", "Zero. Late.", segments=spans((0, 10), (50, 60), texts=["Zero.", "Late."])),
        candidate("late", "v", "Late.", segments=spans((50, 60), texts=["Late."])),
    ]
    model = ToldVerifier(entailed(("Zero.", "e00"), ("Late.", "e00")))
    rows = score_rows(ecs(model), captions, keypoints=points("v", EVENTS, "e00", segment=0))
    assert rows["c"].value == pytest.approx(2 / 3, abs=1e-12)
    assert (rows["late"].value, rows["late"].status, rows["late"].components["mode"]) == (0.0, "ok", "sodam")
    assert rows["late"].components["n_sentences"] == 1
    assert model.asked == [("Zero.", "e00")]


def test_the_first_reference_that_has_every_keypoint_counts() -> None:
    """Reference a has no times, b only one segment; c and d have both, with the segments the other way round."""
    captions = [
        reference("a", "v", "Seen."),
        reference("b", "v", "Seen.", segments=spans((0, 20))),
        reference("c", "v", "Seen.", segments=spans((0, 10), (10, 20))),
        reference("d", "v", "Seen.", segments=spans((10, 20), (0, 10))),
        candidate("told", "v", "Zero.", segments=spans((0, 10), texts=["Zero."])),
    ]
    keypoints = points("v", EVENTS, "k0", segment=0) + points("v", EVENTS, "k1", segment=1)
    model = ToldVerifier()
    row = score_rows(ecs(model), captions, keypoints=keypoints)["told"]
    assert (row.components["mode"], model.asked) == ("sodam", [("Zero.", "k0")])


def on_video(video: str, rows: list[Row]) -> list[Row]:
    """Captions or keypoints of another video, whose ids begin with it."""
    return [{**row, "video_id": video, **{name: f"{video} {row[name]}" for name in IDS & row.keys()}} for row in rows]


# What is lacking, on whose side: captions and keypoints.
UNTIMED: dict[str, tuple[str, list[Row], list[Row]]] = {
    "segments": ("prediction", timed(segments=None), TIMED_POINTS),
    "text of a segment": ("prediction", timed(segments=spans(*PREDICTED, texts=SENTENCES[:3])), TIMED_POINTS),
    "times of the reference": ("reference", [reference("r", "v", "Seen."), timed()[1]], FLAT),
    "reference": ("reference", [timed()[1]], FLAT),
    "segment of a keypoint": ("reference", timed(), [*TIMED_POINTS, *points("v", EVENTS, "somewhere")]),
}


def test_without_all_times_a_caption_is_read_whole_or_cannot_be_verified(bench: Bench) -> None:
    videos = {**UNTIMED, "nothing": ("", timed(), TIMED_POINTS)}
    bench.ingest(
        videos,
        captions=[row for video, (_, captions, _) in videos.items() for row in on_video(video, captions)],
        keypoints=[row for video, (_, _, keypoints) in videos.items() for row in on_video(video, keypoints)],
    )
    always = ToldVerifier(lambda *_: 1.0)
    flat = ecs(always)
    whole = bench.run(flat)
    for video, (_, _, keypoints) in UNTIMED.items():
        row = whole[f"{video} c"]
        assert (row.value, row.status, row.components["mode"]) == (1.0, "ok", "flat_micro")
        assert bench.passes(flat)[f"{video} c"] == 4 * len(keypoints)
    assert whole["nothing c"].components["mode"] == "sodam"

    scorer = ecs(always, ecs_mode="sodam")
    report = bench.verify(scorer)
    assert bench.score(scorer) == len(videos)
    rows = bench.scores(scorer)
    for video, (side, _, _) in UNTIMED.items():
        row = rows[f"{video} c"]
        assert (row.value, row.status, row.components) == (None, "unverifiable", {})
        assert row.error == f'The {side} has no times, which mode "sodam" needs: use "auto" or a flat mode.'
    assert report["unverifiable"] == len(UNTIMED)
    assert (rows["nothing c"].value, rows["nothing c"].status) == (whole["nothing c"].value, "ok")
    # It is final: no run tries again, and no check complains.
    assert bench.unverified(scorer) == bench.pending(scorer) == set()
    assert set(checks(bench, scorer).values()) == {True}


def checks(bench: Bench, scorer: Any) -> dict[str, bool]:
    """Which checks of the score asset hold on shard 0."""
    with bench.engine.connect() as connection:
        scorer_id = store_scorer(bench.engine, scorer)
        quality = count_shard_scores(connection, scorer_id, bench.dataset.dataset_id, 0)
    return evaluate_checks(quality, scorer.value_range)


# Nothing said, nothing asked


def test_what_says_nothing_covers_nothing() -> None:
    silent = [candidate("unread", "v", "", parse_error="line 3: no JSON"), candidate("dots", "v", "... !")]
    captions = [
        reference("r", "timed", "Seen.", segments=spans(*TIMES)),
        *on_video("v", silent),
        *on_video("timed", silent),
    ]
    for mode in ("auto", "flat_micro", "flat_macro", "sodam"):
        scorer = ecs(no_model(), ecs_mode=mode)
        rows = score_rows(scorer, captions, keypoints=[*FLAT, *on_video("timed", TIMED_POINTS)])
        assert len(rows) == 4
        for key, row in rows.items():
            assert (row.value, row.status, row.reason) == (0.0, "ok", None)
            assert row.components["outcome"] == "no_prediction"
            assert row.components["n_sentences"] == 0
            assert row.components["by_dimension"] == {EVENTS: 0.0, CAMERA: 0.0}
            assert row.components["covered"] == {EVENTS: 0, CAMERA: 0}
            assert row.components.get("parse_error") == ("line 3: no JSON" if "unread" in key else None)


def test_what_cannot_be_read_in_part_is_scored_by_the_rest() -> None:
    captions = [candidate("c", "v", "One thing.", parse_error="the last segment is cut")]
    row = score_rows(ecs(ToldVerifier(TOLD)), captions, keypoints=FLAT)["c"]
    assert (row.value, row.components["outcome"]) == (pytest.approx(0.4), "ok")
    assert row.components["parse_error"] == "the last segment is cut"


def test_segments_of_a_caption_without_a_text_count() -> None:
    captions = timed(text="", parse_error="the summary could not be read")
    for mode in ("auto", "sodam"):
        row = score_rows(ecs(ToldVerifier(entailed(*COVERED)), ecs_mode=mode), captions, keypoints=TIMED_POINTS)["c"]
        assert (row.value, row.components["mode"]) == (pytest.approx(3.9 / 7), "sodam")


def test_what_has_no_score_has_a_reason(bench: Bench) -> None:
    bench.ingest(["v", "bare"], captions=[candidate("c", "bare", SAID)], qa=[qa("q", "v")], keypoints=FLAT)
    scorer = ecs(no_model())
    rows = bench.run(scorer)
    assert {key: (row.value, row.status, row.error, row.components) for key, row in rows.items()} == {
        "c": (None, "no_keypoints", "the video has no keypoint to cover", {}),
        "q": (
            None,
            "not_applicable",
            "ECS compares captions with keypoints; this is a question-answer pair",
            {},
        ),
    }
    assert bench.sets(scorer) == {}
    assert bench.pending(scorer) == set()


# Retrieval


class ToldEncoder:
    """Vectors of two dimensions: the cosine with every keypoint is what it is told of a sentence."""

    identity = ModelIdentity("angles", "1", {})

    def __init__(self, cosines: dict[str, float]) -> None:
        self._cosines = cosines

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        cosines = np.array([self._cosines.get(text, 1.0) for text in texts])
        return np.stack([cosines, np.sqrt(1 - cosines**2)], axis=1).astype(np.float32)


NEAREST = {"Near.": 0.9, "Nearly.": 0.8, "Far.": 0.1}


def test_only_the_nearest_sentences_are_verified(bench: Bench) -> None:
    """Case E of the specification."""
    probability = {"Near.": 0.2, "Nearly.": 0.3, "Far.": 0.97}
    # The farthest sentence comes first in the text.
    bench.ingest(["v"], captions=[candidate("c", "v", "Far. Near. Nearly.")], keypoints=points("v", EVENTS, "k"))
    near, nearly, far = (0.2, 1, "Near."), (0.3, 2, "Nearly."), (0.97, 0, "Far.")
    for sentences, passes, best in ((1, 1, near), (2, 2, nearly), (3, 3, far), (8, 3, far), ("all", 3, far)):
        model = ToldVerifier(lambda premise, _: probability[premise], revision=str(sentences))
        scorer = ecs(model, ToldEncoder(NEAREST), ecs_sentences=sentences)
        row = bench.run(scorer)["c"]
        assert row.value == (1.0 if best is far else 0.0)
        assert bench.passes(scorer)["c"] == len(model.asked) == passes
        (verdict,) = bench.verdicts(scorer).values()
        assert (verdict.probability, verdict.sentence_index, verdict.sentence) == best
        assert {premise for premise, _ in model.asked} == set(list(NEAREST)[:passes])


def test_passes(bench: Bench) -> None:
    """Case F of the specification."""
    said = {n: " ".join(f"Sentence number {i}." for i in range(n)) or "..." for n in (5, 1, 0)}
    captions = [candidate(f"c{n}", "v", text) for n, text in said.items()]
    bench.ingest(["v"], captions=captions, keypoints=points("v", EVENTS, "a", "b", "c"))
    for sentences, passes in ((2, {"c5": 6, "c1": 3, "c0": 0}), ("all", {"c5": 15, "c1": 3, "c0": 0})):
        scorer = ecs(ToldVerifier(revision=str(sentences)), ecs_sentences=sentences)
        report = bench.verify(scorer)
        assert (report["captions"], report["keypoints"], report["passes"]) == (3, 9, sum(passes.values()))
        assert bench.score(scorer) == 3
        assert bench.passes(scorer) == passes


# What goes wrong


def test_a_keypoint_that_is_too_long_costs_only_the_captions_of_its_video(bench: Bench) -> None:
    long, longer = "a b c d e f", "one two three four five six seven"
    captions = [
        candidate("fine", "v", SAID),
        candidate("long", "w", SAID),
        candidate("longer", "x", SAID),
        candidate("silent", "w", "...", parse_error="no JSON"),
    ]
    keypoints = [*FLAT, *points("w", EVENTS, "short", long), *points("x", EVENTS, longer)]
    bench.ingest(["v", "w", "x"], captions=captions, keypoints=keypoints)
    scorer = ecs(ToldVerifier(TOLD, max_words=5))
    report = bench.verify(scorer)
    assert bench.score(scorer) == 4
    rows = bench.scores(scorer)
    assert {key: row.status for key, row in rows.items()} == {
        "fine": "ok", "long": "unverifiable", "longer": "unverifiable", "silent": "ok"
    }  # fmt: skip
    assert rows["fine"].value == pytest.approx(0.6)
    # What says nothing needs no model to cover nothing.
    assert rows["silent"].value == 0.0
    # Each caption is told of its own keypoint.
    assert (long in rows["long"].error, longer in rows["long"].error) == (True, False)
    assert (long in rows["longer"].error, longer in rows["longer"].error) == (False, True)
    assert report["unverifiable"] == 2
    assert {pair for pair in bench.verdicts(scorer) if pair[0] in ("long", "longer")} == set()
    assert bench.unverified(scorer) == bench.pending(scorer) == set()


def says_of(text: str, probability: float) -> Says:
    """This of one keypoint, 0.3 of all others."""
    return lambda _, hypothesis: probability if hypothesis == text else 0.3


def test_what_is_no_probability_is_an_error_that_quotes_the_pair(bench: Bench) -> None:
    bench.ingest(["v"], captions=[candidate("c", "v", "One thing.")], keypoints=points("v", EVENTS, "fine", "odd"))
    for answer in (math.nan, math.inf, -0.1, 1.1):
        revision = str(answer)
        model = ToldVerifier(says_of("odd", answer), revision=revision)
        with pytest.raises(ValueError, match=re.escape(f"'One thing.' entails 'odd' is {answer}: check the verifier")):
            bench.verify(ecs(model))
        # Nothing of the caption is stored, and the pair that is fine need not be judged again.
        assert bench.sets(ecs(model)) == {}
        mended = ToldVerifier(lambda *_: 0.3, revision=revision)
        bench.verify(ecs(mended))
        assert mended.asked == [("One thing.", "odd")]


def test_each_step_says_which_one_it_lacks(bench: Bench) -> None:
    bench.ingest(["v"], captions=[candidate("c", "v", SAID)], keypoints=FLAT)
    scorer = ecs(ToldVerifier())
    with pytest.raises(MissingEvidence, match=r"^The one caption has no verdicts on keypoints: materialise ecs"):
        bench.score(scorer)
    with pytest.raises(MissingEvidence, match=r"^All 7 texts have no vector of words: materialise text_embedding"):
        make_kind(bench.engine, scorer, KeypointVerdicts, bench.dataset)
    # Where all sentences are verified none is retrieved, and no text encoder needed.
    everything = ecs(ToldVerifier(TOLD), ecs_sentences="all")
    make_kind(bench.engine, everything, KeypointVerdicts, bench.dataset)
    assert bench.score(everything) == 1
    assert bench.count("text_embedding") == 0


# Identity


def test_models_and_parameters_that_move_the_score_are_the_scorers() -> None:
    plain = ecs(ToldVerifier(revision="7"), ecs_sentences=3, ecs_mode="sodam", ecs_threshold=0.25)
    assert plain.params() == {"sentences": 3, "mode": "sodam", "default_threshold": 0.25}
    assert set(plain.models()) == {"text_encoder", "verifier", "sentence_splitter"}
    assert plain.models()["verifier"] == {"model_id": "told", "revision": "7", "params": {}}
    exhaustive = ecs(ToldVerifier(), ecs_sentences="all")
    assert exhaustive.params()["sentences"] == "all"
    # No sentence is retrieved: another text encoder gives the same scores.
    assert set(exhaustive.models()) == {"verifier", "sentence_splitter"}


@pytest.mark.parametrize(
    ("verifier", "threshold", "expected"),
    [("some/model", None, 0.5), ("offline", 0.9, 0.9), ("some/model", 0.0, 0.0)],
)
def test_the_default_threshold_is_the_verifiers_own(verifier: str, threshold: float | None, expected: float) -> None:
    scorer = ecs(ToldVerifier(), ecs_verifier={"model": verifier}, ecs_threshold=threshold)
    assert scorer.params()["default_threshold"] == expected


def test_the_offline_verifier_brings_its_threshold_along() -> None:
    from metrics_core.ecs.verifier import read_default_threshold

    assert ecs(ToldVerifier(), ecs_threshold=None).params()["default_threshold"] == read_default_threshold()
    assert 0 < read_default_threshold() < 1


@pytest.mark.parametrize("given", [{"ecs_sentences": 0}, {"ecs_sentences": "none"}, {"ecs_mode": "soda"}])
def test_settings_that_cannot_be(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        ecs(ToldVerifier(), **given)
