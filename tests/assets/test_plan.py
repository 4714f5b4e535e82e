"""The plan: what it promises of a stored dataset is what a scoring then gives, for every metric."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import Engine

from assets.home.folder import DEMO_DATASET
from assets.ingest.run import ingest_folder
from assets.metrics.registry import METRICS, SCORERS
from assets.metrics.vcs.scorer import VCSScorer, VCSSettings, VCSShortScorer, VCSShortSettings
from assets.planning.holdings import Holdings, load_dataset_holdings
from assets.planning.plan import Plan, build_plan, list_scorer_inputs
from assets.scores.base import Refusing, Scorer
from assets.scores.pending import count_refusals
from metrics_core.models.sentence_splitter import RuleSplitter
from orchestration.settings import get_settings
from tests.assets.examiner import qeva
from tests.assets.manifests import Row, candidate, keypoint, qa, reference, spans, write_clip, write_manifest
from tests.assets.verifying import Bench, HashEncoder, ToldVerifier, dataset_of, ecs

EVENTS = ["A man opens a red door.", "A small dog runs outside.", "The man closes the door again.", "He waters a tree."]
TOLD = " ".join(EVENTS)
TIMES = [(0, 2), (2, 4), (4, 6), (6, 8)]


def timed(video: str, n: int) -> Row:
    """A reference of so many events with times."""
    return reference(f"{video} r{n}", video, " ".join(EVENTS[:n]), segments=spans(*TIMES[:n], texts=EVENTS[:n]))


def in_whole(video: str, n: int) -> Row:
    """A reference of so many sentences without times."""
    return reference(f"{video} w{n}", video, " ".join(EVENTS[:n]))


def points(video: str, n: int, n_placed: int = 0) -> list[Row]:
    """Keypoints, of which the first have the places of their segments."""
    return [
        keypoint(f"{video} k{i}", video, text=text, **({"segment_index": i} if i < n_placed else {}))
        for i, text in enumerate(EVENTS[:n])
    ]


# What people may have written of a video: references without times, with few and with more events; and keypoints.
REFERENCES: Mapping[str, Any] = {
    "none": lambda video: [],
    "brief": lambda video: [in_whole(video, 1)],
    "whole": lambda video: [in_whole(video, 4)],
    "one event": lambda video: [timed(video, 1)],
    "two events": lambda video: [timed(video, 2)],
    "events": lambda video: [timed(video, 4)],
    "mixed": lambda video: [in_whole(video, 4), timed(video, 3)],
}
KEYPOINTS: Mapping[str, Any] = {
    "none": lambda video, n_segments: [],
    "one": lambda video, n_segments: points(video, 1),
    "unplaced": lambda video, n_segments: points(video, 4),
    "placed": lambda video, n_segments: points(video, 4, n_segments),
}
SEGMENTS = {"one event": 1, "two events": 2, "events": 4, "mixed": 3}
CAPTIONS = {"full": TOLD, "two": " ".join(EVENTS[:2]), "brief": EVENTS[0], "wow": "Wow!", "empty": " ... "}


def own_scorers(mode: str) -> dict[str, Scorer]:
    """The metrics that need no video, with models that find a text in itself and nothing else."""
    return {
        "vcs": VCSScorer(VCSSettings(), HashEncoder(), RuleSplitter()),
        "vcs_short": VCSShortScorer(VCSShortSettings(), HashEncoder()),
        "ecs": ecs(ToldVerifier(), ecs_mode=mode),
        "qeva": qeva(verifier=ToldVerifier(lambda premise, hypothesis: 0.9 if premise == hypothesis else 0.1)),
    }


@pytest.fixture(scope="module")
def scorers() -> dict[str, Scorer]:
    get_settings.cache_clear()
    return {metric: SCORERS[metric].from_settings(get_settings()) for metric in METRICS}


def needs(plan: Plan, metric: str) -> str:
    """What a metric lacks, which the lines of the plan have."""
    assert any(metric in line and line.endswith(plan.needs[metric]) for line in plan.format_lines())
    return f"{metric} needs {plan.needs[metric]}"


def plan_of(
    engine: Engine,
    folder: Path,
    scorers: Mapping[str, Scorer],
    *,
    dataset: str = "mine",
    videos: Sequence[str | Row] = ("v",),
    **tables: Any,
) -> Plan:
    """The plan of a dataset of these rows; a video with a path has a clip there."""
    for video in videos:
        if not isinstance(video, str):
            write_clip(folder / video["path"], n_frames=96)
    ingest_folder(engine, write_manifest(folder, videos, **tables), dataset, n_shards=1)
    with engine.connect() as connection:
        inputs = list_scorer_inputs(scorers.values())
        return build_plan(load_dataset_holdings(connection, dataset_of(engine, dataset), inputs), scorers)


@pytest.mark.parametrize("mode", ["auto", "sodam"])
def test_the_plan_promises_what_a_scoring_gives(engine: Engine, tmp_path: Path, mode: str) -> None:
    worlds = {f"{i:02} {name} {kind}": (name, kind) for i, (name, kind) in enumerate(product(REFERENCES, KEYPOINTS))}
    bench = Bench(engine, tmp_path)
    bench.ingest(
        worlds,
        captions=[
            *(row for video, (name, _) in worlds.items() for row in REFERENCES[name](video)),
            *(candidate(f"{video} {key}", video, text) for video in worlds for key, text in CAPTIONS.items()),
        ],
        keypoints=[
            row for video, (name, kind) in worlds.items() for row in KEYPOINTS[kind](video, SEGMENTS.get(name, 0))
        ],
        qa=[qa(f"{video} qa", video) for video in worlds],
    )
    scorers = own_scorers(mode)
    with engine.connect() as connection:
        held = load_dataset_holdings(connection, bench.dataset, list_scorer_inputs(scorers.values()))
    assert len(held.first_samples) == held.samples == 28 * 6
    for metric, scorer in scorers.items():
        assert isinstance(scorer, Refusing)
        scores = bench.run(scorer)
        refused = {sample.key: scorer.refusal(sample) for sample in held.first_samples}
        for key, outcome in refused.items():
            # What rules say before holds whatever models say then; and these models agree with everything true.
            if outcome is not None:
                assert scores[key].value is None, (metric, key)
            elif scores[key].status != "too_short":
                assert scores[key].value is not None, (metric, key, scores[key].error)
        if metric != "qeva":
            for key, outcome in refused.items():
                assert outcome is None or (scores[key].status, scores[key].error) == (outcome.status, outcome.reason)
        for video in worlds:
            of_video = [sample for sample in held.first_samples if sample.key.startswith(video)]
            is_promised = count_refusals(scorer, of_video) is None
            assert is_promised == any(scores[sample.key].value is not None for sample in of_video), (metric, video)


@pytest.mark.parametrize(("n_events", "n_questions"), [(0, 0), (1, 0), (2, 3)])
def test_qeva_is_promised_where_its_rules_can_write_questions_about_order(
    engine: Engine, scorers: dict[str, Scorer], tmp_path: Path, n_events: int, n_questions: int
) -> None:
    story = [timed("v", n_events), in_whole("v", 4)] if n_events else [in_whole("v", 4)]
    captions = [*story, *(candidate(f"c{i}", "v", TOLD) for i in range(15))]
    plan = plan_of(engine, tmp_path, scorers, captions=captions)
    assert ("qeva" in plan.metrics) == (n_questions >= 3)
    if n_questions < 3:
        assert needs(plan, "qeva") == (
            "qeva needs other samples than these 15: no questions, chronology gets 0 of the 3 questions that it needs: "
            "give the video more events, in segments of a reference or in keypoints with segment_index"
        )


def test_a_mixture_is_promised_and_what_it_lacks_is_the_commonest_reason(
    engine: Engine, scorers: dict[str, Scorer], tmp_path: Path
) -> None:
    mixed = [in_whole("a", 4), timed("b", 4), candidate("1", "a", TOLD), candidate("2", "b", EVENTS[0])]
    plan = plan_of(engine, tmp_path / "without", scorers, videos=["a", "b"], captions=mixed)
    assert "qeva" not in plan.metrics
    assert "(1 of them)" in needs(plan, "qeva")
    good = [*mixed, candidate("3", "b", TOLD)]
    after = plan_of(engine, tmp_path / "with", scorers, dataset="more", videos=["a", "b"], captions=good)
    assert "qeva" in after.metrics


def test_more_videos_than_are_looked_at_are_said(
    engine: Engine, scorers: dict[str, Scorer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assets.planning.holdings.FIRST_VIDEOS", 2)
    captions = [row for video in "cba" for row in (in_whole(video, 4), candidate(f"{video}1", video, TOLD))]
    plan = plan_of(engine, tmp_path, scorers, videos=["c", "b", "a"], captions=captions)
    assert {sample.key for sample in plan.holdings.first_samples} == {"b1", "a1"}
    assert needs(plan, "qeva").startswith("qeva needs other samples than the 2 of the first 2 videos: no questions, ")


def test_of_bare_captions_no_metric_can_say_anything(
    engine: Engine, scorers: dict[str, Scorer], tmp_path: Path
) -> None:
    plan = plan_of(engine, tmp_path, scorers, videos=[FILE], captions=[candidate("c", "v", TOLD)])
    assert plan.metrics == ()
    assert set(plan.needs) == set(METRICS)
    assert needs(plan, "vcs") == "vcs needs references: none found"
    assert "vcs and vcs_short need references: none found" in list(plan.format_lines())
    assert "REELSIEVE_IMAGE_TEXT_ENCODER" in needs(plan, "evqa")
    assert needs(plan, "qeva").startswith("qeva needs references or keypoints or a model that sees videos")
    assert "REELSIEVE_QEVA_VIDEO_MODEL" in needs(plan, "qeva")


FILE = {"video_id": "v", "path": "v.avi"}
SHOWN = [candidate("c", "v", TOLD)]
EVERYTHING = {"captions": [*SHOWN, timed("v", 4)], "keypoints": points("v", 4, 4)}


@pytest.mark.parametrize(
    ("video", "tables", "dataset", "metrics"),
    [
        ("v", {"captions": [*SHOWN, timed("v", 4)]}, "mine", {"vcs", "vcs_short", "qeva"}),
        ("v", {"captions": [*SHOWN, in_whole("v", 4)]}, "mine", {"vcs", "vcs_short"}),
        (
            "v",
            {"captions": [*SHOWN, timed("v", 2)], "keypoints": points("v", 4, 2)},
            "mine",
            {"vcs_short", "ecs", "qeva"},
        ),
        ("v", {"captions": SHOWN, "keypoints": points("v", 4)}, "mine", {"ecs"}),
        # Ingest refuses keypoints of segments that no reference has.
        ("v", {"captions": SHOWN, "keypoints": points("v", 4, 4)}, "mine", set()),
        (FILE, {**EVERYTHING, "captions": [timed("v", 4)]}, "mine", set()),
        (FILE, EVERYTHING, "mine", {"vcs", "vcs_short", "ecs", "qeva"}),
        (FILE, EVERYTHING, DEMO_DATASET, {*METRICS} - {"judge"}),
        (FILE, {"captions": [candidate("c", "v", "...")]}, DEMO_DATASET, set()),
    ],
)
def test_a_metric_can_score_where_its_inputs_are(
    engine: Engine,
    scorers: dict[str, Scorer],
    tmp_path: Path,
    video: str | Row,
    tables: Mapping[str, Any],
    dataset: str,
    metrics: Collection[str],
) -> None:
    plan = plan_of(engine, tmp_path, scorers, dataset=dataset, videos=[video], **tables)
    assert set(plan.metrics) == metrics
    assert set(plan.needs) == set(METRICS) - set(metrics)


def test_a_model_that_sees_videos_needs_videos_too(engine: Engine, scorers: dict[str, Scorer], tmp_path: Path) -> None:
    plan = plan_of(engine, tmp_path, scorers, captions=SHOWN)
    assert needs(plan, "evqa").startswith(
        "evqa needs videos and another encoder: the built-in encoder only works on the demo. Set "
    )
    assert needs(plan, "qeva").startswith("qeva needs references or keypoints or videos and a model that sees videos")
    assert "facts: 7 about each caption; no model needed" in list(plan.format_lines())


@pytest.mark.parametrize(
    ("files", "models", "lines"),
    [
        (0, "m 1", []),
        (1, "m 1", ["text on screen and speech: 3 more facts about each video, by m 1"]),
        (
            1,
            None,
            [
                "text on screen and speech: not measured; install the extra `facts` (pip install 'reelsieve[facts]')",
            ],
        ),
    ],
)
def test_one_sentence_shows_whether_text_and_speech_are_measured(
    files: int, models: str | None, lines: list[str]
) -> None:
    plan = Plan(Holdings(1, files, 1), (), {}, models)
    assert [line for line in plan.format_lines() if line.startswith("text on screen")] == lines
    assert any("24 about each video; no model needed" in line for line in plan.format_lines()) == bool(files)
