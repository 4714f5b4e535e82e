"""Verdicts on keypoints: what is stored and found again, what is still to be verified, and what labels say."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db import schema
from db.evidence.verdicts import (
    VERDICT_INPUTS,
    LabelledVerdict,
    VerdictRow,
    VerdictSet,
    list_captions_to_verify,
    load_labelled_verdicts,
    load_verdict_sets,
    store_verdict_sets,
)
from db.manifest.datasets import Dataset
from db.schema.inputs import build_digest_sql
from db.scores.pending import load_samples
from tests.db.builders import (
    activate,
    add_keypoint,
    add_label,
    add_sample,
    add_video,
    change,
    change_text,
    make_dataset,
    remove,
    wait_for_lock,
)

# What is still to be verified, asked caption by caption.
PLAIN = f"""
SELECT s.sample_id
FROM sample s
JOIN video v USING (video_id)
LEFT JOIN verdict_set w ON w.scorer_id = :scorer_id AND w.sample_id = s.sample_id
WHERE s.kind = 'caption'
  AND EXISTS (SELECT 1 FROM keypoint k WHERE k.video_id = s.video_id)
  AND (w.sample_id IS NULL
       OR w.input_sha256 <> {build_digest_sql(VERDICT_INPUTS)}
       OR (w.status = 'ok'
           AND (SELECT count(*) FROM ecs_verdict e WHERE e.scorer_id = w.scorer_id AND e.sample_id = w.sample_id)
               <> (SELECT count(*) FROM keypoint k WHERE k.video_id = s.video_id)))
ORDER BY s.sample_id
"""


@dataclass
class Bench:
    """A video with two captions and keypoints "k1" (events) and "K2" (camera), and a scorer."""

    engine: Engine
    dataset: Dataset
    video_id: int
    samples: list[int]
    keypoints: list[int]
    scorer_id: int

    def new_set(self, sample_id: int, *verdicts: VerdictRow, n_sentences: int = 3) -> VerdictSet:
        """A set of verdicts on the sample as it is now."""
        with self.engine.connect() as connection:
            (sample,) = load_samples(connection, [sample_id], VERDICT_INPUTS)
        return VerdictSet(sample_id, sample.input_sha256, n_sentences, verdicts)

    def verify(self, sample_id: int, *verdicts: VerdictRow) -> None:
        """Store verdicts on the sample as it is now; without any, one on each of the two keypoints."""
        found = verdicts or tuple(verdict(keypoint_id) for keypoint_id in self.keypoints)
        assert store_verdict_sets(self.engine, self.scorer_id, "run", [self.new_set(sample_id, *found)]) == 1

    def pending(self, scorer_id: int | None = None) -> list[int]:
        with self.engine.connect() as connection:
            return list_captions_to_verify(
                connection, scorer_id=scorer_id or self.scorer_id, dataset_id=self.dataset.dataset_id, shard=0
            )

    def load(self) -> dict[int, VerdictSet]:
        return load_verdict_sets(self.engine, self.scorer_id, [*self.samples, 10**9])


def verdict(keypoint_id: int, probability: float = 0.5) -> VerdictRow:
    return VerdictRow(keypoint_id, probability, 1, "A dog runs.", 2)


def silent(keypoint_id: int) -> VerdictRow:
    """The verdict on a caption without sentences."""
    return VerdictRow(keypoint_id, None, None, None, 0)


def make_bench(engine: Engine) -> Bench:
    clips = make_dataset(engine)
    video_id = add_video(engine, clips, "v")
    samples = [add_sample(engine, clips, video_id, f"s{i}") for i in range(2)]
    keypoints = [
        add_keypoint(engine, clips, video_id, "k1", "events"),
        add_keypoint(engine, clips, video_id, "K2", "camera"),
    ]
    return Bench(engine, clips, video_id, samples, keypoints, activate(engine, "ecs"))


@pytest.fixture
def bench(engine: Engine) -> Bench:
    return make_bench(engine)


def counts(engine: Engine) -> tuple[int, int]:
    """How many sets and how many verdicts are stored."""
    tables = (schema.verdict_set, schema.ecs_verdict)
    with engine.connect() as connection:
        n_sets, n_verdicts = (connection.scalar(sa.select(sa.func.count()).select_from(table)) for table in tables)
    return n_sets or 0, n_verdicts or 0


# Writing and reading


def test_sets_come_back_as_they_were_with_verdicts_by_key(bench: Bench) -> None:
    events, camera = bench.keypoints
    first = bench.new_set(
        bench.samples[0], VerdictRow(events, 0.1 + 0.2, 0, "Ça — 犬\n", 3), verdict(camera, 1.0), n_sentences=7
    )
    empty_caption = bench.new_set(bench.samples[1], silent(camera), silent(events), n_sentences=0)
    assert store_verdict_sets(bench.engine, bench.scorer_id, "run 7", [first, empty_caption]) == 2
    assert bench.load() == {
        bench.samples[0]: replace(first, verdicts=first.verdicts[::-1]),
        bench.samples[1]: empty_caption,
    }
    query = sa.select(schema.verdict_set).where(schema.verdict_set.c.sample_id == bench.samples[0])
    with bench.engine.connect() as connection:
        row = connection.execute(query).one()
    assert (row.n_passes, row.run_id, row.status) == (first.n_passes, "run 7", "ok") == (5, "run 7", "ok")


def test_a_set_that_cannot_be_verified_says_why(bench: Bench) -> None:
    hopeless = replace(bench.new_set(bench.samples[0]), status="unverifiable", error="the splitter failed")
    store_verdict_sets(bench.engine, bench.scorer_id, "run", [hopeless])
    assert bench.load() == {bench.samples[0]: hopeless}
    assert bench.pending() == [bench.samples[1]]


def test_a_new_set_takes_the_place_of_the_old_one_whole(bench: Bench) -> None:
    for sample_id in bench.samples:
        bench.verify(sample_id)
    other = activate(bench.engine, "ecs", "2")
    events, camera = bench.keypoints
    of_other = (verdict(camera, 0.125), verdict(events, 0.25))
    store_verdict_sets(bench.engine, other, "run", [bench.new_set(bench.samples[0], *of_other)])
    before = bench.load()
    bench.verify(bench.samples[0], verdict(camera, 0.75), silent(events))
    after = bench.load()
    assert after[bench.samples[0]].verdicts == (verdict(camera, 0.75), silent(events))
    assert after[bench.samples[1]] == before[bench.samples[1]]
    found = load_verdict_sets(bench.engine, other, bench.samples)
    assert found[bench.samples[0]].verdicts == of_other


def test_writing_the_same_again_changes_nothing(bench: Bench) -> None:
    for _ in range(2):
        bench.verify(bench.samples[0])
    assert counts(bench.engine) == (1, 2)
    assert store_verdict_sets(bench.engine, bench.scorer_id, "run", []) == 0
    assert counts(bench.engine) == (1, 2)
    assert load_verdict_sets(bench.engine, bench.scorer_id, []) == {}


def test_what_is_gone_by_now_is_left_out(bench: Bench) -> None:
    (first, second), (events, camera) = bench.samples, bench.keypoints
    sets = [bench.new_set(sample_id, verdict(events), verdict(camera)) for sample_id in bench.samples]
    remove(bench.engine, schema.sample, first)
    remove(bench.engine, schema.keypoint, events)
    assert store_verdict_sets(bench.engine, bench.scorer_id, "run", sets) == 1
    assert counts(bench.engine) == (1, 1)
    assert bench.load() == {}  # its inputs were those with the keypoint that is gone
    assert bench.pending() == [second]
    assert store_verdict_sets(bench.engine, bench.scorer_id, "run", sets[:1]) == 0


def test_what_is_no_verdict_is_refused_and_the_old_ones_stay(bench: Bench) -> None:
    bench.verify(bench.samples[1])
    before = bench.load()
    good, empty = verdict(bench.keypoints[0]), bench.new_set(bench.samples[0])
    bad_values: list[tuple[dict[str, float | None], str]] = [
        ({"probability": math.nan}, "ck_ecs_verdict_probability"),
        ({"probability": -1e-9}, "ck_ecs_verdict_probability"),
        ({"probability": math.nextafter(1, 2)}, "ck_ecs_verdict_probability"),
        ({"probability": None}, "ck_ecs_verdict_best_sentence"),
        ({"sentence": None}, "ck_ecs_verdict_best_sentence"),
        ({"sentence_index": None}, "ck_ecs_verdict_best_sentence"),
        ({"probability": None, "sentence": None}, "ck_ecs_verdict_best_sentence"),
    ]
    bad_sets = [
        *((bench.new_set(bench.samples[0], replace(good, **bad)), constraint) for bad, constraint in bad_values),
        # A set has a reason exactly where it is not ok.
        (replace(empty, status="ok", error="but why"), "ck_verdict_set_reason_unless_ok"),
        (replace(empty, status="unverifiable"), "ck_verdict_set_reason_unless_ok"),
        (replace(empty, status="failed", error="no"), "ck_verdict_set_status"),
    ]
    for bad_set, constraint in bad_sets:
        sets = [bench.new_set(bench.samples[1], verdict(bench.keypoints[0], 0.25)), bad_set]
        with pytest.raises(psycopg.errors.CheckViolation, match=constraint):
            store_verdict_sets(bench.engine, bench.scorer_id, "run", sets)
        assert bench.load() == before


def test_of_two_runs_on_one_caption_the_later_one_stays_whole(bench: Bench) -> None:
    events, camera = bench.keypoints
    later = bench.new_set(bench.samples[0], verdict(camera, 0.75), verdict(events, 0.25))
    bench.verify(bench.samples[0])
    with ThreadPoolExecutor(1) as pool, bench.engine.connect() as holder:
        with holder.begin():
            lock = sa.text("SELECT 1 FROM sample WHERE sample_id = :id FOR NO KEY UPDATE")
            holder.execute(lock, {"id": bench.samples[0]})
            other = pool.submit(store_verdict_sets, bench.engine, bench.scorer_id, "run 2", [later])
            wait_for_lock(bench.engine, other)
            assert not other.done()
        assert other.result() == 1
    assert bench.load() == {bench.samples[0]: later}


@pytest.mark.parametrize("table", ["sample", "video", "scorer", "dataset"])
def test_what_is_deleted_takes_its_verdicts_along(bench: Bench, table: str) -> None:
    for sample_id in bench.samples:
        bench.verify(sample_id)
    ids = {
        "sample": bench.samples[0],
        "video": bench.video_id,
        "scorer": bench.scorer_id,
        "dataset": bench.dataset.dataset_id,
    }
    remove(bench.engine, schema.METADATA.tables[table], ids[table])
    assert counts(bench.engine) == ((1, 2) if table == "sample" else (0, 0))


def test_a_deleted_keypoint_takes_its_verdicts_along_and_leaves_the_others(bench: Bench) -> None:
    for sample_id in bench.samples:
        bench.verify(sample_id)
    remove(bench.engine, schema.keypoint, bench.keypoints[0])
    assert counts(bench.engine) == (2, 2)


# What is still to be verified


@pytest.mark.parametrize("of", [verdict, silent])
def test_a_keypoint_that_comes_back_is_verified_again(bench: Bench, of: Callable[[int], VerdictRow]) -> None:
    first, second = bench.samples
    for sample_id in bench.samples:
        bench.verify(sample_id, *map(of, bench.keypoints))
    remove(bench.engine, schema.keypoint, bench.keypoints[0])
    bench.keypoints[0] = add_keypoint(bench.engine, bench.dataset, bench.video_id, "k1", "events")
    assert (bench.pending(), bench.load()) == ([first, second], {})
    bench.verify(first, *map(of, bench.keypoints))
    assert (bench.pending(), list(bench.load())) == ([second], [first])


def test_everything_is_pending_before_and_nothing_after(bench: Bench) -> None:
    assert bench.pending() == bench.samples
    for sample_id in bench.samples:
        bench.verify(sample_id)
    assert bench.pending() == []
    other = activate(bench.engine, "ecs", "2")
    assert bench.pending(scorer_id=other) == bench.samples
    with bench.engine.connect() as connection:
        of_nobody = list_captions_to_verify(connection, scorer_id=None, dataset_id=bench.dataset.dataset_id, shard=0)
    assert of_nobody == bench.samples


def test_only_captions_with_keypoints_of_the_asked_shard_and_dataset(engine: Engine) -> None:
    clips, other = make_dataset(engine, "clips", 3), make_dataset(engine, "other", 3)
    expected: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for key in "abcdefgh":
        for dataset in (clips, other):
            video_id = add_video(engine, dataset, key)
            caption = add_sample(engine, dataset, video_id, key)
            add_sample(engine, dataset, video_id, key, kind="qa", question="Who?", answer="A dog.")
            if key != "c":
                add_keypoint(engine, dataset, video_id, key)
            if dataset == clips and key != "c":
                expected[clips.compute_shard(key)].append(caption)
    with engine.connect() as connection:
        for shard, captions in expected.items():
            found = list_captions_to_verify(connection, scorer_id=None, dataset_id=clips.dataset_id, shard=shard)
            assert found == captions
    assert all(expected.values())


def test_a_change_of_each_input_makes_verdicts_pending_and_unseen(bench: Bench) -> None:
    (first, second), (events, _) = bench.samples, bench.keypoints
    for sample_id in bench.samples:
        bench.verify(sample_id)
    change_text(bench.engine, first, "A cat sleeps.")
    assert (bench.pending(), set(bench.load())) == ([first], {second})
    bench.verify(first)
    change(bench.engine, schema.sample, second, segments=[{"start_s": 0, "end_s": 1}])
    assert (bench.pending(), set(bench.load())) == ([second], {first})
    bench.verify(second)
    for values in ({"text": "A cat runs."}, {"key": "K"}, {"dimension": "camera"}, {"segment_index": 2}):
        change(bench.engine, schema.keypoint, events, **values)
        assert (bench.pending(), bench.load()) == (bench.samples, {})
        for sample_id in bench.samples:
            bench.verify(sample_id)
    added = add_keypoint(bench.engine, bench.dataset, bench.video_id, "k3")
    assert (bench.pending(), bench.load()) == (bench.samples, {})
    remove(bench.engine, schema.keypoint, added)
    assert (bench.pending(), set(bench.load())) == ([], set(bench.samples))


# Verdicts beside labels


def test_labelled_verdicts_of_one_source_in_order_of_keys(bench: Bench) -> None:
    (first, second), (events, camera) = bench.samples, bench.keypoints
    change(bench.engine, schema.sample, first, key="t")
    bench.verify(first, verdict(events, 0.75), verdict(camera, 0.25))
    bench.verify(second, silent(events), silent(camera))
    for keypoint_id, sample_id, covered in ((events, first, True), (camera, first, False), (events, second, False)):
        add_label(bench.engine, keypoint_id, sample_id, covered)
    add_label(bench.engine, camera, second, True, source="judge:tiny")
    with bench.engine.connect() as connection:
        place = (bench.scorer_id, bench.dataset.dataset_id)
        by_hand = load_labelled_verdicts(connection, *place, "manifest")
        judged = load_labelled_verdicts(connection, *place, "judge:tiny")
        assert load_labelled_verdicts(connection, *place, "nobody") == []
    assert by_hand == [
        LabelledVerdict(0, "v", "events", None, False),
        LabelledVerdict(0, "v", "camera", 0.25, False),
        LabelledVerdict(0, "v", "events", 0.75, True),
    ]
    assert judged == [LabelledVerdict(0, "v", "camera", None, True)]


def test_a_video_belongs_to_the_group_that_its_row_names(bench: Bench) -> None:
    change(bench.engine, schema.video, bench.video_id, extra={"group_id": "film 7"})
    bench.verify(bench.samples[0])
    add_label(bench.engine, bench.keypoints[0], bench.samples[0], True)
    with bench.engine.connect() as connection:
        (found,) = load_labelled_verdicts(connection, bench.scorer_id, bench.dataset.dataset_id, "manifest")
    assert found.group == "film 7"


def test_labels_without_a_verdict_and_verdicts_of_others_are_left_out(bench: Bench) -> None:
    other_dataset = make_dataset(bench.engine, "other")
    for keypoint_id in bench.keypoints:
        add_label(bench.engine, keypoint_id, bench.samples[0], True)
    bench.verify(bench.samples[0], verdict(bench.keypoints[1]))
    other = activate(bench.engine, "ecs", "2")
    with bench.engine.connect() as connection:
        found = load_labelled_verdicts(connection, bench.scorer_id, bench.dataset.dataset_id, "manifest")
        assert load_labelled_verdicts(connection, bench.scorer_id, other_dataset.dataset_id, "manifest") == []
        assert load_labelled_verdicts(connection, other, bench.dataset.dataset_id, "manifest") == []
    assert found == [LabelledVerdict(0, "v", "camera", 0.5, True)]


STATES = ("never verified", "verified", "verified, then changed", "unverifiable", "a verdict lost")


@pytest.mark.parametrize(("first", "second"), [(state, STATES[i - 1]) for i, state in enumerate(STATES)])
def test_what_is_to_be_verified_is_what_a_look_at_each_caption_finds(bench: Bench, first: str, second: str) -> None:
    for sample_id, state in zip(bench.samples, (first, second), strict=True):
        verdicts = [verdict(keypoint_id) for keypoint_id in bench.keypoints]
        if state == "unverifiable":
            hopeless = replace(bench.new_set(sample_id), status="unverifiable", error="the splitter failed")
            store_verdict_sets(bench.engine, bench.scorer_id, "run", [hopeless])
        elif state != "never verified":
            bench.verify(sample_id, *verdicts[: 1 if state == "a verdict lost" else 2])
        if state == "verified, then changed":
            change_text(bench.engine, sample_id, f"Another text {sample_id}.")
    with bench.engine.connect() as connection:
        plain = connection.scalars(sa.text(PLAIN), {"scorer_id": bench.scorer_id}).all()
    assert bench.pending() == plain
