"""What a checklist depends on: keypoints, segments and thresholds, as a scorer sees them and as they age scores."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from db import schema
from db.manifest.datasets import Dataset
from db.schema.inputs import (
    KEYPOINTS,
    REFERENCES,
    SEGMENTS,
    TEXT,
    THRESHOLDS,
    VIDEO,
    Input,
    KeypointText,
    ReferenceText,
    Segments,
    TimedText,
)
from db.schema.views import create_views
from db.scores.pending import PendingSample, list_pending_samples, load_samples
from db.scores.quality import count_shard_scores
from tests.conftest import Template, filled_template
from tests.db.builders import (
    activate,
    add_keypoint,
    add_reference,
    add_sample,
    add_video,
    change,
    empty,
    keypoint_threshold_row,
    make_dataset,
    ok,
    put_label_thresholds,
    remove,
    store_label_thresholds,
    store_threshold,
    write_fresh,
)

WITHOUT_THRESHOLDS = (TEXT, KEYPOINTS)
ECS = (TEXT, KEYPOINTS, SEGMENTS, THRESHOLDS)
TIMES: list[dict[str, Any]] = [{"text": "A dog runs.", "end_s": 2.5, "start_s": 0}, {"end_s": 4, "start_s": 2.5}]
TIMED = (TimedText(0.0, 2.5, "A dog runs."), TimedText(2.5, 4.0, None))


@dataclass
class Checklists:
    """Two videos of two captions each and a scorer of checklists."""

    engine: Engine
    dataset: Dataset
    videos: list[int]
    samples: list[int]
    scorer_id: int
    inputs: Collection[Input[Any]] = ECS

    def load(self) -> list[PendingSample]:
        with self.engine.connect() as connection:
            return load_samples(connection, self.samples, self.inputs, self.scorer_id)

    def digests(self) -> list[bytes]:
        return [sample.input_sha256 for sample in self.load()]

    def score(self) -> None:
        write_fresh(self.engine, self.scorer_id, [ok(sample_id, 0.5) for sample_id in self.samples], self.inputs)
        assert self.stale() == []

    def stale(self) -> list[int]:
        """The samples to be scored again, which the checks must count alike."""
        place: dict[str, Any] = {"scorer_id": self.scorer_id, "dataset_id": self.dataset.dataset_id, "shard": 0}
        with self.engine.connect() as connection:
            pending = list_pending_samples(connection, **place)
            assert count_shard_scores(connection, **place).n_stale == len(pending)
        return pending

    def put_thresholds(self, **cuts: float) -> None:
        put_label_thresholds(self.engine, self.scorer_id, self.dataset, **cuts)


def checklists(engine: Engine, name: str, scorer_id: int) -> Checklists:
    clips = make_dataset(engine, name)
    videos = [add_video(engine, clips, key, content=b"frames") for key in ("v0", "v1")]
    samples = [add_sample(engine, clips, videos[i // 2], f"s{i}", segments=TIMES) for i in range(4)]
    for video_id in videos:
        add_reference(engine, clips, video_id, f"r{video_id}", "a reference", segments=TIMES)
        add_keypoint(engine, clips, video_id, f"k{video_id}", segment_index=1)
    return Checklists(engine, clips, videos, samples, scorer_id)


def build_checklists(engine: Engine) -> Checklists:
    with engine.begin() as connection:
        create_views(connection, {"ecs": ECS, "vcs": WITHOUT_THRESHOLDS})
    return checklists(engine, "clips", activate(engine, "ecs"))


template = filled_template(build_checklists)


@pytest.fixture
def clips(engine: Engine, template: Template[Checklists]) -> Checklists:
    return replace(template.filled, engine=engine)


def sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


# What a scorer sees


def test_what_a_scorer_of_checklists_sees(engine: Engine, clips: Checklists) -> None:
    other = add_keypoint(engine, clips.dataset, clips.videos[0], "B", "camera", "It pans — 犬.")
    add_reference(engine, clips.dataset, clips.videos[0], "a reference without segments", "one more")
    change(engine, schema.sample, clips.samples[0], extra={"parse_error": "no JSON", "other": 1})
    clips.put_thresholds(events=0.1 + 0.2, camera=1.0)
    first, second, third, _ = clips.load()
    assert first[SEGMENTS] == Segments(TIMED, ((), TIMED), "no JSON")
    assert [keypoint.key for keypoint in first[KEYPOINTS]] == ["B", f"k{clips.videos[0]}"]
    assert first[KEYPOINTS][0] == KeypointText(other, "B", "camera", "It pans — 犬.", None)
    assert (first[KEYPOINTS][1].dimension, first[KEYPOINTS][1].segment_index) == ("events", 1)
    assert first[THRESHOLDS] == {"events": 0.1 + 0.2, "camera": 1.0}
    assert {type(value) for value in first[THRESHOLDS].values()} == {float}
    assert second[SEGMENTS].parse_error is None
    assert second[KEYPOINTS] == first[KEYPOINTS]
    assert [keypoint.key for keypoint in third[KEYPOINTS]] == [f"k{clips.videos[1]}"]
    clips.inputs = (REFERENCES,)
    assert clips.load()[0][REFERENCES] == (
        ReferenceText("a reference without segments", "one more"),
        ReferenceText(f"r{clips.videos[0]}", "a reference"),
    )


def test_a_scorer_sees_nothing_that_its_inputs_do_not_name(clips: Checklists) -> None:
    clips.put_thresholds(events=0.5)
    clips.inputs = (TEXT, REFERENCES, VIDEO, SEGMENTS, KEYPOINTS, THRESHOLDS)
    full = clips.load()[0]
    for inputs in ((TEXT,), (VIDEO,), (REFERENCES,), (KEYPOINTS,), (THRESHOLDS,), ECS):
        clips.inputs = inputs
        seen = clips.load()[0]
        names = [each.name for each in inputs]
        assert seen == replace(
            full,
            input_sha256=seen.input_sha256,
            input_marks={name: full.input_marks[name] for name in names},
            inputs={name: full.inputs[name] for name in names},
        )


def test_a_video_without_anything_gives_empty_fields(engine: Engine, clips: Checklists) -> None:
    bare = add_sample(engine, clips.dataset, add_video(engine, clips.dataset, "bare"), "bare")
    with engine.connect() as connection:
        (loaded,) = load_samples(connection, [bare], [*ECS, REFERENCES], clips.scorer_id)
    assert (loaded[REFERENCES], loaded[SEGMENTS], loaded[KEYPOINTS], loaded[THRESHOLDS]) == ((), Segments(), (), {})


# The digests


def part(wanted: Input[Any], clips: Checklists) -> bytes:
    """The digest of one input of the first sample, which SQL hashes once for the part and once for the whole."""
    clips.inputs = (wanted,)
    return clips.digests()[0]


def whole(content: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(content).digest()).digest()


def test_the_digest_of_keypoints_equals_an_independent_one(engine: Engine, clips: Checklists) -> None:
    added = [("Z", "camera", "It pans.", None), ("é", "events", "Ein Hund läuft — 犬.", 0), ("a", "", "", 10)]
    for keypoint in added:
        add_keypoint(engine, clips.dataset, clips.videos[0], *keypoint)
    everything = [(f"k{clips.videos[0]}", "events", "A dog runs.", 1), *added]
    content = b"".join(
        sha256(key) + sha256(dimension) + sha256(text) + sha256("" if index is None else str(index))
        for key, dimension, text, index in sorted(everything, key=lambda keypoint: keypoint[0].encode())
    )
    assert part(KEYPOINTS, clips) == whole(content)


def test_the_digest_of_segments_equals_an_independent_one(engine: Engine, clips: Checklists) -> None:
    add_reference(engine, clips.dataset, clips.videos[0], "R", "without segments")
    content = sha256(json.dumps(TIMES)) + sha256("R") + sha256("")
    content += sha256(f"r{clips.videos[0]}") + sha256(json.dumps(TIMES))
    assert part(SEGMENTS, clips) == whole(content)
    bare = add_sample(engine, clips.dataset, add_video(engine, clips.dataset, "bare"), "bare")
    clips.samples = [bare]
    assert part(SEGMENTS, clips) == whole(sha256(""))


def test_the_digest_of_thresholds_equals_an_independent_one(clips: Checklists) -> None:
    assert part(THRESHOLDS, clips) == whole(b"")
    clips.put_thresholds(speech=0.1 + 0.2, Camera=0.5)
    content = sha256("Camera") + struct.pack(">d", 0.5) + sha256("speech") + struct.pack(">d", 0.1 + 0.2)
    assert part(THRESHOLDS, clips) == whole(content)


WORDS = st.text(alphabet="ab1", max_size=2)
CHECKLISTS = st.dictionaries(WORDS, st.tuples(WORDS, WORDS, st.none() | st.integers(0, 11)), max_size=3)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CHECKLISTS, CHECKLISTS)
def test_only_equal_checklists_have_equal_digests(engine: Engine, one: dict[str, Any], other: dict[str, Any]) -> None:
    empty(engine)
    digests = []
    for name, keypoints in (("one", one), ("other", other)):
        dataset = make_dataset(engine, name)
        video_id = add_video(engine, dataset, "v")
        for key, columns in keypoints.items():
            add_keypoint(engine, dataset, video_id, key, *columns)
        sample_id = add_sample(engine, dataset, video_id, "s")
        with engine.connect() as connection:
            digests.append(load_samples(connection, [sample_id], [KEYPOINTS])[0].input_sha256)
    assert (digests[0] == digests[1]) == (one == other)


# What makes a score stale


def test_a_keypoint_added_moved_and_removed(engine: Engine, clips: Checklists) -> None:
    clips.score()
    added = add_keypoint(engine, clips.dataset, clips.videos[1], "more")
    assert clips.stale() == clips.samples[2:]
    clips.score()
    change(engine, schema.keypoint, added, video_id=clips.videos[0])
    assert clips.stale() == clips.samples
    clips.score()
    remove(engine, schema.keypoint, added)
    assert clips.stale() == clips.samples[:2]


def test_a_threshold_makes_stale_the_scores_of_its_scorer_and_dataset_and_no_others(
    engine: Engine, clips: Checklists
) -> None:
    elsewhere = checklists(engine, "elsewhere", clips.scorer_id)
    other_scorer = replace(clips, scorer_id=activate(engine, "ecs", "2"))
    without = replace(clips, scorer_id=activate(engine, "vcs"), inputs=WITHOUT_THRESHOLDS)
    untouched = [elsewhere, other_scorer, without]
    for each in (clips, *untouched):
        each.score()
    steps: list[dict[str, float]] = [{"events": 0.5}, {"events": 0.25}, {"camera": 0.25}, {"camera": 0.25, "b": 1}, {}]
    for thresholds in steps:
        clips.put_thresholds(**thresholds)
        assert clips.stale() == clips.samples
        assert [each.stale() for each in untouched] == [[], [], []]
        clips.score()
        clips.put_thresholds(**thresholds)
        assert clips.stale() == []


def test_thresholds_that_are_not_in_force_make_nothing_stale(engine: Engine, clips: Checklists) -> None:
    clips.put_thresholds(events=0.5)
    clips.score()
    found = {"scorer_id": clips.scorer_id, "dataset_id": clips.dataset.dataset_id}
    with engine.begin() as connection:
        store_threshold(connection, **found, method="fraction", objective="top 10 %", value=0.25, n=4)
        of_hand = {**found, "method": "by hand", "objective": "none"}
        row = {**of_hand, "dimension": "camera", "threshold": 0.25, "n": 0}
        connection.execute(schema.keypoint_threshold.insert().values(**row))
        in_other_words = keypoint_threshold_row("events", 0.5, 10, objective="mcc", mcc=0.5)
        shard = keypoint_threshold_row("events", 0.75, shard=0)
        store_label_thresholds(connection, clips.scorer_id, clips.dataset.dataset_id, [in_other_words, shard])
    assert clips.stale() == []
    assert clips.load()[0][THRESHOLDS] == {"events": 0.5}


def test_a_scorer_that_is_not_registered_has_no_thresholds(engine: Engine, clips: Checklists) -> None:
    clips.put_thresholds(events=0.5)
    with engine.connect() as connection:
        (loaded, *_) = load_samples(connection, clips.samples, ECS)
        pending = list_pending_samples(connection, scorer_id=None, dataset_id=clips.dataset.dataset_id, shard=0)
    assert loaded[THRESHOLDS] == {}
    assert pending == clips.samples
