"""Thresholds from labels on a real database: chosen as the metric's own functions choose, in force without a model."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.metrics.ecs.calibrate import TOTAL_NAME, NoLabels, calibrate_thresholds, compute_confusions
from assets.metrics.ecs.scorer import ECSScorer
from assets.scores.pending import store_scorer
from db.evidence.verdicts import LabelledVerdict
from db.scores.thresholds import load_label_thresholds
from metrics_core.calibration import Confusion, Threshold, compute_split_position, find_dimension_thresholds
from metrics_core.calibration.result import Objective
from tests.assets.manifests import Row, candidate, keypoint, label
from tests.assets.verifying import Bench, ToldVerifier, ecs, filled_bench, no_model

EVENTS, CAMERA = "segment_detail", "camera_state"
# A keypoint each. Events have labels enough in the fifth of the videos that thresholds are chosen on, the camera not.
ASPECTS = {"a": EVENTS, "b": EVENTS, "c": EVENTS, "d": EVENTS, "camera": CAMERA}
VIDEOS = [f"v{i:02d}" for i in range(60)]
CHOSEN_ON = [video for video in VIDEOS if compute_split_position(video) < 0.2]
Labels = Literal["calibration", "all"]
Item = tuple[str, str, float, bool]
Calibrated = tuple[dict[str, Threshold], dict[str, Confusion]]


def probability(_: str, hypothesis: str) -> float:
    """Of a keypoint, in steps, so that some are equal; nothing to do with any caption."""
    return round(random.Random(hypothesis).random(), 2)


def is_covered(video: str, aspect: str) -> bool:
    """What the labels say: mostly yes where the probability is great, and for the camera from lower on."""
    chance = probability("", f"{video} {aspect}") + (0.3 if aspect == "camera" else 0.0)
    return random.Random(f"label of {video} {aspect}").random() < chance


# Video, dimension, probability and label of everything that is labelled.
ITEMS: list[Item] = [
    (video, dimension, probability("", f"{video} {aspect}"), is_covered(video, aspect))
    for video in VIDEOS
    for aspect, dimension in ASPECTS.items()
]


def captions() -> list[Row]:
    return [candidate(f"{video} told", video, f"Told of {video}.") for video in VIDEOS]


def keypoints() -> list[Row]:
    return [
        keypoint(f"{video} {aspect}", video, dimension=dimension, text=f"{video} {aspect}")
        for video in VIDEOS
        for aspect, dimension in ASPECTS.items()
    ]


def labels(videos: Iterable[str] = VIDEOS) -> list[Row]:
    return [
        label(f"{video} {aspect}", f"{video} told", is_covered(video, aspect)) for video in videos for aspect in ASPECTS
    ]


def scorer() -> ECSScorer:
    return ecs(ToldVerifier(probability))


def fill(bench: Bench, n_shards: int = 2) -> None:
    """Labelled captions that are scored at the default threshold."""
    bench.ingest(VIDEOS, captions=captions(), keypoints=keypoints(), keypoint_labels=labels(), n_shards=n_shards)
    bench.run(scorer())


template = filled_bench(fill, "labelled")


@pytest.fixture
def bench(engine: Engine, tmp_path: Path) -> Bench:
    return Bench(engine, tmp_path, "labelled")


def idle() -> ECSScorer:
    """The same scorer, whose model must not be asked."""
    return ecs(no_model())


def calibrated(bench: Bench, objective: Objective = "f1", part: Labels = "calibration") -> Calibrated:
    return calibrate_thresholds(bench.engine, idle(), bench.dataset, objective, part)[:2]


def stored(bench: Bench) -> list[Any]:
    """Rows of table keypoint_threshold of the dataset, but for their time; those of shards come last."""
    query = sa.text(
        "SELECT shard, method, dimension, objective, threshold, n, n_positive, details FROM keypoint_threshold "
        "WHERE dataset_id = :id ORDER BY shard, dimension"
    )
    with bench.engine.connect() as connection:
        return list(connection.execute(query, {"id": bench.dataset.dataset_id}))


def in_force(bench: Bench) -> dict[str, float]:
    with bench.engine.connect() as connection:
        return load_label_thresholds(connection, store_scorer(bench.engine, idle()), bench.dataset.dataset_id)


def of(videos: Iterable[str]) -> list[Item]:
    return [item for item in ITEMS if item[0] in set(videos)]


def by_metric(items: Sequence[Item], objective: Objective = "f1") -> dict[str, Threshold]:
    """What metrics_core chooses on these labels."""
    videos, dimensions, probabilities, covered = zip(*items, strict=True)
    return find_dimension_thresholds(probabilities, covered, dimensions, objective, videos)[1]


def best_f1(items: Sequence[Item]) -> float:
    """The threshold of the greatest F1, of equal ones the largest, by trying them all."""

    def f1(threshold: float) -> float:
        predicted = [p >= threshold for _, _, p, _ in items]
        hits = sum(yes and covered for yes, (*_, covered) in zip(predicted, items, strict=True))
        return 2 * hits / (sum(predicted) + sum(covered for *_, covered in items))

    return max({p for _, _, p, _ in items}, key=lambda threshold: (f1(threshold), threshold))


# Which thresholds


def test_the_data_is_worth_something() -> None:
    """Enough labels of events and not of the camera, thresholds that differ, and none that is the default one."""
    assert 5 <= len(CHOSEN_ON) < 20
    events, camera = ([item for item in ITEMS if item[1] == name] for name in (EVENTS, CAMERA))
    assert len({best_f1(events), best_f1(camera), best_f1(of(CHOSEN_ON)), 0.5}) == 4


def test_thresholds_are_those_of_the_metrics_own_calibration(bench: Bench) -> None:
    found, _ = calibrated(bench)
    assert found == by_metric(of(CHOSEN_ON))
    events, camera = found[EVENTS], found[CAMERA]
    assert (events.n, camera.n) == (4 * len(CHOSEN_ON), len(CHOSEN_ON))
    assert events.at_least == best_f1([item for item in of(CHOSEN_ON) if item[1] == EVENTS])
    # Too few labels of its own.
    assert (events.pooled, camera.pooled) == (False, True)
    assert camera.at_least == best_f1(of(CHOSEN_ON))
    assert any(text.startswith("The threshold of all dimensions") for text in camera.warnings)
    assert in_force(bench) == {EVENTS: events.at_least, CAMERA: camera.at_least}
    assert {row.details["videos"] for row in stored(bench)} == {"calibration"}


def test_all_labels_may_be_used_and_what_is_stored_says_so(bench: Bench) -> None:
    found, confusions = calibrated(bench, part="all")
    assert found == by_metric(ITEMS)
    camera = [item for item in ITEMS if item[1] == CAMERA]
    assert (found[CAMERA].at_least, found[CAMERA].pooled) == (best_f1(camera), False)
    # Nothing is left that says how good they are.
    assert confusions == {}
    rows = {row.dimension: row for row in stored(bench) if row.shard is None}
    assert {(row.method, row.objective) for row in rows.values()} == {("keypoint_labels", "f1")}
    assert set(rows) == {EVENTS, CAMERA}
    for name, row in rows.items():
        want = found[name]
        assert want.counts is not None
        assert want.low is not None
        assert (row.threshold, row.n, row.n_positive) == (want.at_least, want.n, want.n_good)
        assert row.details == {
            "labels": "manifest",
            "videos": "all",
            "pooled": False,
            "interval": {
                "low": want.low,
                "high": want.high,
                "level": 0.95,
                "n_groups": len(VIDEOS),
                "n_resamples": 1000,
                "n_undefined": 0,
            },
            "f1": want.counts.f1,
            "mcc": want.counts.mcc,
            "warnings": list(want.warnings),
        }


@pytest.mark.parametrize("part", ["calibration", "all"])
def test_shards_with_labels_enough_have_thresholds_that_are_not_in_force(bench: Bench, part: Labels) -> None:
    found, _, n_of_shards = calibrate_thresholds(bench.engine, idle(), bench.dataset, "f1", part)
    of_shards = {(row.shard, row.dimension): row for row in stored(bench) if row.shard is not None}
    items = {
        (shard, name): [item for item in ITEMS if item[1] == name and bench.dataset.compute_shard(item[0]) == shard]
        for shard in (0, 1)
        for name in (EVENTS, CAMERA)
    }
    if part == "calibration":
        items = {key: [item for item in each if item[0] in CHOSEN_ON] for key, each in items.items()}
    wanted = {key for key, each in items.items() if len(each) >= 20}
    assert {name for _, name in wanted} == ({EVENTS} if part == "calibration" else {EVENTS, CAMERA})
    assert set(of_shards) == wanted
    assert n_of_shards == len(wanted)
    for key, row in of_shards.items():
        assert (row.threshold, row.n) == (best_f1(items[key]), len(items[key]))
        assert row.n_positive == sum(covered for *_, covered in items[key])
    assert in_force(bench) == {name: each.at_least for name, each in found.items()}


def test_labels_of_other_videos_do_not_count(bench: Bench) -> None:
    """Turned round they move no threshold, and what is said of how good the thresholds are follows them."""
    before, agreed = calibrated(bench)
    rows = stored(bench)
    bench.execute(
        "UPDATE keypoint_label SET covered = NOT covered FROM sample s JOIN video v USING (video_id) "
        "WHERE s.sample_id = keypoint_label.sample_id AND NOT v.key = ANY(:videos)",
        videos=CHOSEN_ON,
    )
    after, turned = calibrated(bench)
    assert after == before
    assert stored(bench) == rows
    assert turned[TOTAL_NAME].accuracy == pytest.approx(1 - (agreed[TOTAL_NAME].accuracy or 0))


def test_videos_of_one_group_belong_into_one_part(engine: Engine, tmp_path: Path) -> None:
    group = next(f"film {i}" for i in range(99) if compute_split_position(f"film {i}") < 0.2)
    # Those that the split by video would leave to the evaluation.
    others = [video for video in VIDEOS if video not in CHOSEN_ON][:10]
    bench = Bench(engine, tmp_path)
    videos: list[str | Row] = [{"video_id": video, "group_id": group} if video in others else video for video in VIDEOS]
    bench.ingest(videos, captions=captions(), keypoints=keypoints(), keypoint_labels=labels())
    bench.verify(scorer())
    found, _ = calibrated(bench)
    items = [(group if video in others else video, *rest) for video, *rest in of([*CHOSEN_ON, *others])]
    assert found == by_metric(items)  # type: ignore[arg-type]  # a star in a tuple loses the types
    assert found[EVENTS].n_videos == len(CHOSEN_ON) + 1


# In force


def by_hand(video: str, thresholds: dict[str, float]) -> float:
    """The share of a video's keypoints at these thresholds."""
    mine = of([video])
    return sum(p >= thresholds[dimension] for _, dimension, p, _ in mine) / len(mine)


def test_scores_follow_without_a_model(bench: Bench) -> None:
    default = {EVENTS: 0.5, CAMERA: 0.5}
    assert bench.values(idle()) == {f"{video} told": pytest.approx(by_hand(video, default)) for video in VIDEOS}
    assert bench.pending(idle()) == set()
    found, _ = calibrated(bench)
    thresholds = in_force(bench)
    assert bench.pending(idle()) == {f"{video} told" for video in VIDEOS}
    assert bench.unverified(idle()) == set()
    assert bench.score(idle()) == len(VIDEOS)
    rows = bench.scores(idle())
    assert {key: row.value for key, row in rows.items()} == {
        f"{video} told": pytest.approx(by_hand(video, thresholds)) for video in VIDEOS
    }
    assert rows["v00 told"].components["thresholds"] == thresholds
    assert rows["v00 told"].components["calibrated"] == sorted(thresholds)
    assert {name: each.at_least for name, each in found.items()} == thresholds
    # The same labels give the same thresholds, by which everything is scored already.
    calibrated(bench)
    assert bench.pending(idle()) == set()


def test_another_objective_takes_the_place_of_the_first(bench: Bench) -> None:
    calibrated(bench)
    first = in_force(bench)
    bench.score(idle())
    objectives: list[Objective] = ["coverage", "youden", "mcc"]
    for objective in objectives:
        found, _ = calibrated(bench, objective)
        assert found == by_metric(of(CHOSEN_ON), objective)
        assert {row.objective for row in stored(bench)} == {objective}
        assert in_force(bench) == {name: each.at_least for name, each in found.items()}
    assert len([row for row in stored(bench) if row.shard is None]) == 2
    calibrated(bench, "coverage")
    assert in_force(bench) != first
    assert bench.pending(idle()) == {f"{video} told" for video in VIDEOS}


def test_other_datasets_and_scorers_stay_as_they_are(bench: Bench) -> None:
    other = Bench(bench.engine, bench.folder, "other")
    other.ingest(VIDEOS[:3], captions=captions()[:3], keypoints=keypoints()[:15], keypoint_labels=labels(VIDEOS[:3]))
    other.run(scorer())
    strict = ecs(ToldVerifier(probability), ecs_threshold=0.9)
    bench.run(strict)
    before = other.scores(idle())
    calibrated(bench)
    assert other.pending(idle()) == bench.pending(strict) == set()
    assert len(bench.pending(idle())) == len(VIDEOS)
    assert stored(other) == []
    assert other.scores(idle()) == before


def test_a_dimension_without_labels_keeps_the_default(engine: Engine, tmp_path: Path) -> None:
    bench = Bench(engine, tmp_path)
    of_events = [row for row in labels() if not row["keypoint_id"].endswith("camera")]
    bench.ingest(VIDEOS, captions=captions(), keypoints=keypoints(), keypoint_labels=of_events)
    bench.verify(scorer())
    calibrated(bench)
    assert set(in_force(bench)) == {EVENTS}
    bench.score(idle())
    thresholds = {**in_force(bench), CAMERA: 0.5}
    parts = bench.scores(idle())["v00 told"].components
    assert (parts["thresholds"], parts["calibrated"]) == (thresholds, [EVENTS])
    assert bench.values(idle()) == {f"{video} told": pytest.approx(by_hand(video, thresholds)) for video in VIDEOS}


# No labels


def refused(bench: Bench, objective: Objective = "f1", part: Labels = "calibration") -> str:
    """The sentence; nothing is stored then, and what was in force stays."""
    before = stored(bench)
    with pytest.raises(NoLabels) as caught:
        calibrated(bench, objective, part)
    assert stored(bench) == before
    return str(caught.value)


def test_without_labels_a_sentence_says_what_to_do(engine: Engine, tmp_path: Path) -> None:
    bench = Bench(engine, tmp_path)
    others = [video for video in VIDEOS if video not in CHOSEN_ON]
    bench.ingest(VIDEOS, captions=captions(), keypoints=keypoints())
    bench.verify(scorer())
    nothing = (
        "set has no keypoint with both a label and a verdict: ingest keypoint_labels, then score with ecs; until then"
    )
    assert refused(bench).startswith(nothing)
    assert refused(bench, part="all").startswith(nothing)

    bench.ingest(VIDEOS, captions=captions(), keypoints=keypoints(), keypoint_labels=labels(others[:2]))
    assert refused(bench) == (
        "none of the 10 labels of set is in the fifth of the videos that thresholds are chosen on: use the labels of "
        "all videos with --labels all"
    )
    calibrated(bench, part="all")
    before = in_force(bench)
    assert before
    # Those that are in force stay when there is nothing to take their place.
    bench.execute("UPDATE keypoint_label SET covered = false")
    assert refused(bench, part="all") == (
        "no threshold for f1 can be chosen on the 10 labels of set: no label says yes; label more captions"
    )
    bench.execute("UPDATE keypoint_label SET covered = true")
    assert "no threshold for youden can be chosen on the 10 labels of set: no label says no" in refused(
        bench, "youden", "all"
    )
    assert in_force(bench) == before


def test_labels_of_captions_that_say_nothing_do_not_count(engine: Engine, tmp_path: Path) -> None:
    bench = Bench(engine, tmp_path)
    silent = [candidate(f"{video} told", video, "", parse_error="no JSON") for video in VIDEOS]
    bench.ingest(VIDEOS, captions=silent, keypoints=keypoints(), keypoint_labels=labels())
    bench.verify(idle())
    for part in ("calibration", "all"):
        assert refused(bench, part=part) == (
            "no labelled caption of set has a sentence to judge: label captions that have sentences"
        )


# How good they are


def verdict(dimension: str, probability: float | None, covered: bool) -> LabelledVerdict:
    return LabelledVerdict(0, "v", dimension, probability, covered)


def test_agreement_is_counted_by_hand() -> None:
    thresholds = {
        name: Threshold(objective="f1", n=9, at_least=value)
        for name, value in ((EVENTS, 0.5), (CAMERA, 0.25), ("speech", None))
    }
    labelled = [
        verdict(EVENTS, 0.5, True),
        verdict(EVENTS, 0.9, True),
        verdict(EVENTS, 0.6, False),
        verdict(EVENTS, 0.4999, True),
        # Without a sentence nothing is covered.
        verdict(EVENTS, None, True),
        verdict(EVENTS, None, False),
        verdict(CAMERA, 0.3, False),
        verdict(CAMERA, 0.2, False),
        # There is no threshold to decide these by.
        verdict("speech", 0.9, True),
        verdict("acoustics", 0.9, True),
    ]
    found = compute_confusions(labelled, thresholds)
    assert found == {EVENTS: Confusion(2, 1, 2, 1), CAMERA: Confusion(0, 1, 0, 1), TOTAL_NAME: Confusion(2, 2, 2, 2)}
    assert list(found)[-1] == TOTAL_NAME
    assert compute_confusions([], thresholds) == {}


def test_agreement_is_on_the_labels_of_the_other_videos(bench: Bench) -> None:
    _, confusions = calibrated(bench)
    thresholds = in_force(bench)
    others = [item for item in ITEMS if item[0] not in CHOSEN_ON]
    right = sum((p >= thresholds[dimension]) == covered for _, dimension, p, covered in others)
    assert (confusions[TOTAL_NAME].n, confusions[TOTAL_NAME].accuracy) == (len(others), right / len(others))
    assert {name: counts.n for name, counts in confusions.items()} == {
        EVENTS: 4 * (60 - len(CHOSEN_ON)),
        CAMERA: 60 - len(CHOSEN_ON),
        TOTAL_NAME: len(others),
    }
