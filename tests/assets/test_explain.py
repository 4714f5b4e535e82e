"""Why a sample has its score: what each metric says from its own evidence, and what is said where there is nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy.engine import Engine

from assets.home.folder import DEMO_DATASET
from assets.metrics.evqa.scorer import EVQAScorer
from assets.metrics.evqa.settings import EVQASettings
from assets.metrics.vcs.scorer import VCSScorer, VCSSettings
from assets.scores.base import Explanation, Scorer
from assets.scores.explain import ExplainedScore, explain_score
from assets.scores.pending import store_scorer
from demo.encoder import make_demo_encoder
from metrics_core.frames import get_shared_worker
from metrics_core.keywords import RuleKeywords
from metrics_core.models.sentence_splitter import RuleSplitter
from tests.assets.manifests import Row, candidate, keypoint, label, qa, reference, write_clip
from tests.assets.verifying import Bench, HashEncoder, ToldVerifier, ecs
from tests.db.builders import put_label_thresholds

REFERENCE = ["A man opens a red box.", "He lifts a cat out of it.", "The cat runs away.", "He closes the door."]
SHUFFLED = ["The cat runs off.", "A man opens a red box.", "He closes a door.", "He lifts the cat out of it."]
LONGER = [*REFERENCE, "Everybody laughs loudly."]
LEAVES_OUT = ["A man opens a box.", "He lifts the cat.", "He closes a door.", "Everybody laughs."]
LATE = ["Everybody laughs.", "A man opens a red box.", "He lifts a cat out of it.", "He closes the door."]
CAPTIONS = [
    reference("poor", "v", "A dog sleeps. Rain falls. Nobody is there. It is dark."),
    reference("told", "v", " ".join(REFERENCE)),
    candidate("copy", "v", " ".join(REFERENCE)),
    candidate("shuffled", "v", " ".join(SHUFFLED)),
    reference("longer", "x", " ".join(LONGER)),
    candidate("leaves out", "x", " ".join(LEAVES_OUT)),
    candidate("late", "x", " ".join(LATE)),
    candidate("alone", "w", "A bird sings."),
]


@pytest.fixture
def bench(engine: Engine, tmp_path: Path) -> Bench:
    bench = Bench(engine, tmp_path)
    bench.ingest(["v", "w", "x"], captions=CAPTIONS)
    return bench


def vcs(**settings: Any) -> VCSScorer:
    return VCSScorer(VCSSettings(**settings), HashEncoder(), RuleSplitter())


def explained(bench: Bench, scorer: Scorer, key: str) -> ExplainedScore:
    """The score of a sample that is there."""
    score = explain_score(bench.engine, scorer.metric, scorer, bench.dataset, key)
    assert score is not None
    return score


# VCS


def meetings(explanation: Explanation) -> list[tuple[str, str, str]]:
    """Chunk, the chunk it met, and what is wrong with the order."""
    return [(row["caption"], row["meets in the reference"], row["order"]) for row in explanation.rows]


def test_vcs_tells_which_chunk_met_which_and_where_the_order_breaks(bench: Bench) -> None:
    scorer = vcs()
    bench.run(scorer)
    first, second, third, fourth = (f"{i} {text}" for i, text in enumerate(REFERENCE, start=1))
    found = explained(bench, scorer, "shuffled").explanation
    assert meetings(found) == [
        ("1 The cat runs off.", third, "expected at 1"),
        ("2 A man opens a red box.", first, "expected at 2, goes back"),
        ("3 He closes a door.", fourth, "expected at 3"),
        ("4 He lifts the cat out of it.", second, "expected at 4, goes back"),
    ]
    vector = HashEncoder().vector
    for row, met in zip(found.rows, (2, 0, 3, 1), strict=True):
        cosines = [float(vector(text) @ vector(row["caption"][2:])) for text in REFERENCE]
        assert row["similarity"] == pytest.approx(max(cosines), abs=1e-6)
        assert int(np.argmax(cosines)) == met
    # The reference that decided comes first. Every chunk of it was met.
    assert (found.reference, len(found.lines)) == ("told", 2)
    assert found.lines[0] == f"reference told, the best of 2: {' '.join(REFERENCE)}"
    assert meetings(explained(bench, scorer, "copy").explanation) == [
        (text, text, "") for text in (first, second, third, fourth)
    ]


def test_vcs_names_the_chunks_that_nobody_met(bench: Bench) -> None:
    scorer = vcs()
    rows = bench.run(scorer)
    found = explained(bench, scorer, "leaves out").explanation
    # Four chunks for five: each is expected at one of two places, and there it is.
    assert [(met, order) for _, met, order in meetings(found)] == [(f"{i} {LONGER[i - 1]}", "") for i in (1, 2, 4, 5)]
    parts = rows["leaves out"].components
    for name, text in (("sas", "(SAS)"), ("nas", "(NAS)"), ("gas", "whole texts"), ("las", "chunk by chunk")):
        assert f"{text} {parts[name]:.4f}" in found.lines[1]
    assert found.lines[0] == f"reference longer: {' '.join(LONGER)}"
    assert list(found.lines[2:]) == ["no chunk of the caption matches chunk 3 of the reference: The cat runs away."]
    late = explained(bench, scorer, "late").explanation
    assert [(met[0], order) for _, met, order in meetings(late)] == [
        ("5", "expected at 1 to 2"),
        ("1", "expected at 2 to 3, goes back"),
        ("2", "expected at 3 to 4"),
        ("4", ""),
    ]


def test_vcs_is_explained_by_the_parameters_that_it_was_made_with(bench: Bench) -> None:
    scorer = vcs(vcs_chunk_size=2, vcs_shape_zeros=True)
    bench.run(scorer)
    score = explained(bench, scorer, "shuffled")
    assert (score.metric, score.sample, score.system) == ("vcs", "shuffled", "sys")
    assert score.models == ["words", "sentencex"]
    rows = [row["caption"] for row in score.explanation.rows]
    assert rows == [f"1 {SHUFFLED[0]} {SHUFFLED[1]}", f"2 {SHUFFLED[2]} {SHUFFLED[3]}"]


# EVQAScore


def test_evqa_shows_the_best_frame_of_every_keyword(engine: Engine, tmp_path: Path) -> None:
    bench = Bench(engine, tmp_path, DEMO_DATASET)
    (tmp_path / DEMO_DATASET).mkdir()
    path = write_clip(tmp_path / DEMO_DATASET / "videos" / "dark.avi", n_frames=23, brightness=200)
    text = "A red circle stands in the middle. A blue square slides to the left."
    bench.ingest(
        [{"video_id": "dark", "path": "videos/dark.avi"}, "told"],
        captions=[candidate("c", "dark", text), candidate("no file", "told", text)],
        qa=[qa("q", "dark", "What colour is the circle?", "The red circle is red.")],
    )
    settings = EVQASettings(frames_every=5)
    encoder = make_demo_encoder()
    scorer = EVQAScorer(settings, encoder, RuleKeywords(), RuleSplitter())
    rows = bench.run(scorer)

    frames = get_shared_worker().read_frames(path, every=5)
    pictures = unit(encoder.encode_images(list(frames.pixels)))
    for key, keywords in (
        ("c", ["red circle", "stands", "middle", "blue square", "slides", "left"]),
        ("q", ["colour", "circle", "red circle", "red"]),
    ):
        found = explained(bench, scorer, key).explanation
        cosines = unit(encoder.encode_texts(keywords)) @ pictures.T
        assert [row["keyword"] for row in found.rows] == keywords
        for row, of_frames in zip(found.rows, cosines, strict=True):
            assert row["cosine"] == pytest.approx(of_frames.max(), abs=1e-6)
            # Frames 0, 5, 10, 15 and 20 of 12 per second.
            assert row["best frame at s"] == pytest.approx(5 * int(of_frames.argmax()) / 12, abs=1e-6)
        numbers = rows[key].components
        assert found.lines[0].startswith("5 frames; ")
        assert all(f"{name} {numbers[name]:.4f}" in found.lines[0] for name in ("precision", "recall", "f1", "coarse"))
    # The check is worth something: not every keyword has the same best frame.
    assert len({row["best frame at s"] for key in "cq" for row in explained(bench, scorer, key).explanation.rows}) > 1
    assert explained(bench, scorer, "no file").explanation == Explanation()


def unit(rows: Any) -> Any:
    """Rows of length 1, in float64."""
    exact = np.asarray(rows, dtype=np.float64)
    return exact / np.linalg.norm(exact, axis=1, keepdims=True)


# ECS


def checklist(bench: Bench) -> None:
    """A caption whose first sentence covers two of three keypoints, one of which a person has labelled otherwise."""
    keypoints: list[Row] = [
        keypoint("k1", "v", dimension="segment_detail", text="A box is opened."),
        keypoint("k2", "v", dimension="segment_detail", text="It rains."),
        keypoint("k3", "v", dimension="camera_state", text="The camera pans."),
    ]
    bench.ingest(
        ["v"],
        captions=[candidate("c", "v", "A man opens a box. The camera pans.", parse_error="the end is cut")],
        keypoints=keypoints,
        keypoint_labels=[label("k1", "c"), label("k3", "c", covered=False)],
    )


TOLD = {
    ("A man opens a box.", "A box is opened."): 0.9,
    ("The camera pans.", "The camera pans."): 0.8,
    ("A man opens a box.", "It rains."): 0.2,
}


def told(premise: str, hypothesis: str) -> float:
    return TOLD.get((premise, hypothesis), 0.1)


def test_ecs_shows_every_keypoint_with_the_sentence_that_decided(engine: Engine, tmp_path: Path) -> None:
    bench = Bench(engine, tmp_path)
    checklist(bench)
    scorer = ecs(ToldVerifier(told))
    bench.run(scorer)
    score = explained(bench, scorer, "c")
    assert score.value == pytest.approx(2 / 3)
    assert list(score.explanation.lines) == [
        "2 of 3 keypoints covered; mode flat_micro",
        "the output of the caption's model could not be read: the end is cut",
    ]
    columns = ("covered", "p", "from", "label", "keypoint", "why")
    assert [tuple(row[name] for name in columns) for row in score.explanation.rows] == [
        ("yes", 0.8, 0.5, "no", "camera_state: The camera pans.", "The camera pans."),
        ("yes", 0.9, 0.5, "yes", "segment_detail: A box is opened.", "A man opens a box."),
        ("no", 0.2, 0.5, None, "segment_detail: It rains.", "nearest: A man opens a box."),
    ]


# Whatever the metric


def test_what_is_not_there_has_no_score(bench: Bench) -> None:
    scorer = vcs()
    assert explain_score(bench.engine, scorer.metric, scorer, bench.dataset, "nobody") is None
    # Before the metric has scored anything at all.
    before = explained(bench, scorer, "copy")
    assert before.as_dict() == {
        "metric": "vcs",
        "sample": "copy",
        "system": "sys",
        "text": " ".join(REFERENCE),
        "value": None,
        "status": None,
        "error": None,
        "models": [],
        "explanation": {"lines": (), "rows": (), "reference": None, "marks": ()},
    }
    bench.run(scorer)
    refused = explained(bench, scorer, "alone")
    assert (refused.value, refused.status) == (None, "no_reference")
    assert refused.error == "the video has no reference to compare with"
    assert refused.explanation == Explanation()
    # A caption that came in later.
    bench.ingest(["v", "w", "x"], captions=[*CAPTIONS, candidate("new", "v", "A cat runs.")])
    new = explained(bench, scorer, "new")
    assert (new.value, new.status, new.explanation) == (None, None, Explanation())


def test_a_stale_score_is_not_explained(bench: Bench) -> None:
    scorer = vcs()
    bench.run(scorer)
    assert explained(bench, scorer, "copy").status == "ok"
    changed = [{**row, "text": "Somebody else."} if row["caption_id"] == "copy" else row for row in CAPTIONS]
    bench.ingest(["v", "w", "x"], captions=changed)
    stale = explained(bench, scorer, "copy")
    assert (stale.text, stale.value, stale.status, stale.explanation) == (
        "Somebody else.", None, "stale", Explanation()
    )  # fmt: skip
    assert stale.error
    assert explained(bench, scorer, "shuffled").status == "ok"


def test_a_score_by_other_settings_says_so(bench: Bench) -> None:
    first = vcs()
    rows = bench.run(first)
    now = vcs(vcs_lct=1.0)
    score = explained(bench, now, "shuffled")
    assert (score.value, score.status) == (rows["shuffled"].value, "ok")
    said = ["no explanation: this score was made with settings that are no longer in force. Set them again"]
    assert (list(score.explanation.lines), list(score.explanation.rows)) == (said, [])
    bench.run(now)
    assert list(explained(bench, first, "shuffled").explanation.lines) == said
    assert explained(bench, now, "shuffled").explanation.rows


def test_a_threshold_that_changed_makes_the_score_stale(engine: Engine, tmp_path: Path) -> None:
    bench = Bench(engine, tmp_path)
    checklist(bench)
    scorer = ecs(ToldVerifier(told))
    bench.run(scorer)
    put_label_thresholds(engine, store_scorer(engine, scorer), bench.dataset, segment_detail=0.05)
    assert (explained(bench, scorer, "c").value, explained(bench, scorer, "c").status) == (None, "stale")
    bench.score(scorer)
    score = explained(bench, scorer, "c")
    assert score.value == 1.0
    assert {row["from"] for row in score.explanation.rows} == {0.5, 0.05}
