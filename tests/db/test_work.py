"""The work list: what is scored again, what is not, and the digest that decides it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from db import schema
from db.manifest.datasets import Dataset
from db.schema.inputs import REFERENCES, TEXT, VIDEO, Input, ReferenceText, VideoState
from db.schema.views import create_views
from db.scores.pending import PendingSample, list_pending_samples, load_samples, load_shard_digest, split_ids
from tests.db.builders import (
    activate,
    add_keypoint,
    add_reference,
    add_sample,
    add_video,
    change,
    make_dataset,
    ok,
    undefined,
    write_fresh,
)

ALL = (TEXT, REFERENCES, VIDEO)


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def expected_digest(
    inputs: Collection[Input[Any]], text: str, references: dict[str, str], content: bytes | None
) -> bytes:
    """The digest of a sample's inputs, written down again without SQL."""
    ordered = sorted(references.items(), key=lambda item: item[0].encode())
    all_references = b"".join(sha256(key.encode()) + sha256(text.encode()) for key, text in ordered)
    parts = {
        "text": sha256(text.encode()),
        "references": sha256(all_references) if references else b"",
        "video": b"" if content is None else sha256(content),
    }
    return sha256(b"".join(sha256(parts[name]) for name in sorted(each.name for each in inputs)))


@dataclass
class Shard:
    """A shard with two videos of two samples each, and a scorer that looks at `inputs`."""

    engine: Engine
    dataset: Dataset
    videos: list[int]
    samples: list[int]
    scorer_id: int
    inputs: Collection[Input[Any]] = ALL

    def look_at(self, inputs: Collection[Input[Any]]) -> None:
        """Let the metric's scores depend on these inputs."""
        self.inputs = inputs
        with self.engine.begin() as connection:
            create_views(connection, {"vcs": inputs})

    def pending(self) -> list[int]:
        with self.engine.connect() as connection:
            return list_pending_samples(
                connection,
                scorer_id=self.scorer_id,
                dataset_id=self.dataset.dataset_id,
                shard=0,
            )

    def load(self) -> list[PendingSample]:
        with self.engine.connect() as connection:
            return load_samples(connection, self.samples, self.inputs)

    def score(self) -> None:
        write_fresh(self.engine, self.scorer_id, [ok(sample_id, 0.5) for sample_id in self.samples], self.inputs)

    def execute(self, statement: sa.Executable) -> None:
        with self.engine.begin() as connection:
            connection.execute(statement)


@pytest.fixture
def shard(engine: Engine) -> Shard:
    clips = make_dataset(engine)
    videos = [add_video(engine, clips, key, content=key.encode()) for key in ("v0", "v1")]
    samples = [add_sample(engine, clips, videos[i // 2], f"s{i}", f"caption {i}") for i in range(4)]
    add_reference(engine, clips, videos[0], "r0", "a reference")
    made = Shard(engine, clips, videos, samples, activate(engine))
    made.look_at(ALL)
    return made


def test_everything_is_pending_before_and_nothing_after(shard: Shard) -> None:
    assert shard.pending() == shard.samples
    shard.score()
    assert shard.pending() == []


def test_a_new_sample_and_another_scorer(shard: Shard) -> None:
    shard.score()
    new = add_sample(shard.engine, shard.dataset, shard.videos[1], "s9")
    assert shard.pending() == [new]
    shard.scorer_id = activate(shard.engine, version="2")
    assert shard.pending() == [*shard.samples, new]


def test_failed_is_tried_again_and_undefined_is_not(shard: Shard) -> None:
    statuses = ["failed", "undefined", "failed", "undefined"]
    rows = [undefined(sample_id, status) for sample_id, status in zip(shard.samples, statuses, strict=True)]
    write_fresh(shard.engine, shard.scorer_id, rows, shard.inputs)
    assert shard.pending() == [shard.samples[0], shard.samples[2]]


def test_only_the_asked_shard_and_dataset(engine: Engine) -> None:
    clips, other = make_dataset(engine, "clips", 3), make_dataset(engine, "other", 3)
    by_shard: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for key in "abcdefgh":
        by_shard[clips.compute_shard(key)].append(add_sample(engine, clips, add_video(engine, clips, key), key))
        add_sample(engine, other, add_video(engine, other, key), key)
    scorer_id = activate(engine)
    with engine.connect() as connection:
        for number, samples in by_shard.items():
            found = list_pending_samples(connection, scorer_id=scorer_id, dataset_id=clips.dataset_id, shard=number)
            assert found == samples
    assert all(by_shard.values())


@pytest.mark.parametrize(
    "inputs",
    [
        (TEXT,),
        (REFERENCES,),
        (VIDEO,),
        (VIDEO, TEXT),
        (REFERENCES, TEXT),
        (VIDEO, REFERENCES, TEXT),
    ],
)
def test_the_digest_equals_an_independent_one(engine: Engine, inputs: tuple[Input[Any], ...]) -> None:
    clips = make_dataset(engine)
    filmed, silent = add_video(engine, clips, "v", content=b"frames"), add_video(engine, clips, "w")
    references = {"r10": "ten", "r9": "nine", "Z": "capital", "a": "", "é": "un chien — 犬"}
    for key, text in references.items():
        add_reference(engine, clips, filmed, key, text)
    samples = [add_sample(engine, clips, filmed, "s", "it's a dog"), add_sample(engine, clips, silent, "t", "ça")]
    with engine.connect() as connection:
        loaded = load_samples(connection, samples, inputs)
    assert [sample.input_sha256 for sample in loaded] == [
        expected_digest(inputs, "it's a dog", references, b"frames"),
        expected_digest(inputs, "ça", {}, None),
    ]


def test_what_a_scorer_sees_of_a_sample(engine: Engine) -> None:
    clips = make_dataset(engine)
    video_id = add_video(engine, clips, "v", content=b"frames", status="damaged")
    for key in ("b", "B", "a"):
        add_reference(engine, clips, video_id, key, f"text of {key}")
    sample_id = add_sample(
        engine, clips, video_id, "q", "Who? A dog", kind="qa", question="Who?", answer="A dog", system="gpt"
    )
    with engine.connect() as connection:
        (loaded,) = load_samples(connection, [sample_id], (VIDEO, REFERENCES))
        (references_alone,) = load_samples(connection, [sample_id], (REFERENCES,))
    digest = expected_digest((REFERENCES,), "", {key: f"text of {key}" for key in "bBa"}, None)
    references = tuple(ReferenceText(key, f"text of {key}") for key in ("B", "a", "b"))
    assert references_alone == PendingSample(
        sample_id=sample_id,
        dataset="clips",
        key="q",
        kind="qa",
        system="gpt",
        text="Who? A dog",
        question="Who?",
        answer="A dog",
        video_id=video_id,
        input_sha256=digest,
        input_marks={"references": references_alone.input_marks["references"]},
        inputs={"references": references},
    )
    assert (loaded[REFERENCES], loaded[VIDEO]) == (references, VideoState("damaged"))
    assert loaded.input_marks["references"] == references_alone.input_marks["references"]
    assert [len(mark) for mark in loaded.input_marks.values()] == [8, 8]
    with pytest.raises(KeyError):
        references_alone[VIDEO]


def test_question_and_answer_are_hashed_apart(engine: Engine) -> None:
    clips = make_dataset(engine)
    video_id = add_video(engine, clips, "v")
    pairs = [("Is it red", "or blue?"), ("Is it", "red or blue?"), ("Is it red or blue?", "")]
    samples = [
        add_sample(engine, clips, video_id, f"q{i}", "Is it red or blue?", kind="qa", question=question, answer=answer)
        for i, (question, answer) in enumerate(pairs)
    ]
    with engine.connect() as connection:
        found = [sample.input_sha256 for sample in load_samples(connection, samples, (TEXT,))]
    parts = [
        sha256(sha256(b"Is it red or blue?") + sha256(question.encode()) + sha256(answer.encode()))
        for question, answer in pairs
    ]
    assert found == [sha256(part) for part in parts]
    assert len(set(found)) == len(pairs)


def test_a_shards_state_changes_with_whatever_an_ingest_may_change_in_it(shard: Shard) -> None:
    engine, clips, (video_id, _) = shard.engine, shard.dataset, shard.videos

    def state(of_shard: int = 0) -> str | None:
        with engine.connect() as connection:
            return load_shard_digest(connection, clips.dataset_id, of_shard)

    seen = [state()]
    assert state() == seen[0]
    change(engine, schema.sample, shard.samples[0], row_sha256=sha256(b"corrected"))
    seen.append(state())
    add_reference(engine, clips, video_id, "r9", "one more")
    seen.append(state())
    add_keypoint(engine, clips, video_id, "k0")
    seen.append(state())
    change(engine, schema.video, video_id, content_sha256=sha256(b"cut anew"))
    seen.append(state())
    add_sample(engine, clips, video_id, "s9")
    seen.append(state())
    assert None not in seen
    assert len(set(seen)) == len(seen)
    shard.score()
    assert state() == seen[-1]
    assert state(of_shard=1) is None


def test_samples_come_in_order_of_id_and_missing_ones_are_left_out(shard: Shard) -> None:
    with shard.engine.connect() as connection:
        loaded = load_samples(connection, [*reversed(shard.samples), 10**9], [TEXT])
        assert load_samples(connection, [], [TEXT]) == []
    assert [sample.sample_id for sample in loaded] == shard.samples


@pytest.mark.parametrize("inputs", [(), (TEXT, TEXT), (TEXT, replace(VIDEO, name="text"))])
def test_a_score_depends_on_something_and_on_each_thing_once(shard: Shard, inputs: tuple[Input[Any], ...]) -> None:
    shard.inputs = inputs
    with pytest.raises(ValueError, match=r"no inputs: give one|two inputs are named 'text': give each"):
        shard.load()


@given(st.lists(st.integers()), st.integers(1, 7))
def test_batches_hold_every_id_once_in_order(ids: list[int], size: int) -> None:
    parts = list(split_ids(ids, size))
    assert [sample_id for part in parts for sample_id in part] == ids
    assert all(len(part) == size for part in parts[:-1])
    assert all(0 < len(part) <= size for part in parts)


@given(st.sets(st.text(max_size=8), min_size=1), st.text(max_size=8), st.integers(1, 10_000))
def test_a_videos_shard_depends_on_its_key_alone(keys: set[str], new: str, n_shards: int) -> None:
    clips = Dataset(1, "clips", n_shards)
    before = {key: clips.compute_shard(key) for key in keys}
    shards = {key: clips.compute_shard(key) for key in keys | {new}}
    assert before.items() <= shards.items()
    for key, number in shards.items():
        assert number == int(hashlib.sha256(key.encode()).hexdigest()[:16], 16) % n_shards


def test_adding_a_video_moves_no_other(engine: Engine) -> None:
    clips = make_dataset(engine, n_shards=5)
    keys = [f"clip {i}" for i in range(12)]
    first = {key: add_sample(engine, clips, add_video(engine, clips, key), key) for key in keys[:8]}
    query = sa.select(schema.sample.c.key, schema.sample.c.shard).where(schema.sample.c.key.in_(first))
    with engine.connect() as connection:
        before = {row.key: row.shard for row in connection.execute(query)}
    for key in keys[8:]:
        add_sample(engine, clips, add_video(engine, clips, key), key)
    assert make_dataset(engine, n_shards=99) == clips  # the number of shards counts only for a new dataset
    with engine.connect() as connection:
        assert {row.key: row.shard for row in connection.execute(query)} == before
    assert len(set(before.values())) > 1
