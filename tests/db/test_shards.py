"""Marks and counts that triggers keep: equal to a comparison by hand after any change, whoever makes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from assets.metrics.registry import METRIC_INPUTS
from db import schema
from db.evidence.verdicts import list_unfinished_shards
from db.schema.inputs import TEXT, Input
from db.schema.views import create_views
from db.scores.pending import PENDING_STATUSES, list_pending_samples, load_samples, load_shard_counts
from db.scores.store import ScoreRow, count_statuses, store_scores
from tests.conftest import Template, filled_template
from tests.db.builders import (
    activate,
    add_keypoint,
    add_reference,
    add_sample,
    add_video,
    change,
    change_text,
    empty,
    make_dataset,
    ok,
    put_label_thresholds,
    remove,
    store_threshold,
    undefined,
    wait_for_lock,
    write_fresh,
)
from tests.db.marks import wrong_marks

METRICS = ("vcs", "evqa", "ecs")
N_SHARDS = 3


class Bench:
    """Three videos, one in each shard, with a caption each; all scored by three metrics."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.dataset = make_dataset(engine, n_shards=N_SHARDS)
        keys: dict[int, str] = {}
        for i in range(1000):
            keys.setdefault(self.dataset.compute_shard(f"v{i}"), f"v{i}")
        self.videos = [add_video(engine, self.dataset, keys[shard], content=b"frames") for shard in range(N_SHARDS)]
        self.samples = [
            add_sample(engine, self.dataset, video, f"s{i}", f"a dog {i}") for i, video in enumerate(self.videos)
        ]
        self.references = [add_reference(engine, self.dataset, v, f"r{v}", "A dog.") for v in self.videos]
        self.keypoints = [add_keypoint(engine, self.dataset, v, f"k{v}") for v in self.videos]
        self.scorers = {metric: activate(engine, metric) for metric in METRICS}
        for metric in METRICS:
            self.score(metric, self.samples)

    def score(self, metric: str, samples: list[int], status: str | None = None) -> None:
        rows = [undefined(i, status) if status else ok(i, 0.5) for i in samples]
        write_fresh(self.engine, self.scorers[metric], rows)

    def threshold(self, value: float) -> None:
        put_label_thresholds(self.engine, self.scorers["ecs"], self.dataset, events=value)

    def kept(self, metric: str) -> dict[int, dict[str, int]]:
        with self.engine.connect() as connection:
            found = load_shard_counts(connection, self.scorers[metric], [self.dataset.dataset_id])
        return {shard: dict(counts) for (_, shard), counts in found.items()}

    def by_hand(self, metric: str) -> dict[int, dict[str, int]]:
        """From the samples as a scorer loads them, one by one."""
        scorer_id = self.scorers[metric]
        query = sa.text(
            "SELECT s.shard, s.sample_id, c.status, c.input_sha256 FROM sample s "
            "LEFT JOIN score c ON c.sample_id = s.sample_id AND c.scorer_id = :scorer"
        )
        by_shard: dict[int, Counter[str]] = {}
        with self.engine.connect() as connection:
            for row in connection.execute(query, {"scorer": scorer_id}).all():
                (now,) = load_samples(connection, [row.sample_id], METRIC_INPUTS[metric], scorer_id)
                is_fresh = row.input_sha256 is not None and bytes(row.input_sha256) == now.input_sha256
                status = "unscored" if row.status is None else row.status if is_fresh else "stale"
                by_shard.setdefault(row.shard, Counter())[status] += 1
        return {shard: dict(counts) for shard, counts in by_shard.items()}

    def check(self) -> None:
        """Kept counts, the views over them and a count of all rows agree."""
        for metric in METRICS:
            counts = self.kept(metric)
            assert counts == self.by_hand(metric)
            total: Counter[str] = Counter()
            for of_shard in counts.values():
                total.update(of_shard)
            with self.engine.connect() as connection:
                found = count_statuses(connection, self.scorers[metric], self.dataset.dataset_id)
                n_fresh = connection.scalar(sa.text(f"SELECT count({metric}) FROM sample_scores"))
            assert found == dict(total)
            assert n_fresh == total["ok"]
        with self.engine.connect() as connection:
            assert wrong_marks(connection.exec_driver_sql) == []
            scores = connection.scalar(sa.text("SELECT scores FROM dataset_summary"))
        assert scores == sum(self.by_hand(m)[s].get("ok", 0) for m in METRICS for s in self.by_hand(m))


template = filled_template(Bench)


@pytest.fixture
def bench(engine: Engine, template: Template[Bench]) -> Bench:
    bench = copy(template.filled)
    bench.engine = engine
    return bench


def change_keypoint(bench: Bench, name: str, value: object) -> None:
    change(bench.engine, schema.keypoint, bench.keypoints[1], **{name: value})


OK, STALE, NONE = {"ok": 1}, {"stale": 1}, dict[str, int]()
ECS_STALE = {"ecs": STALE}
# What happens in shard 1 or to its scores, and the counts there afterwards of the metrics that it concerns.
CHANGES: dict[str, tuple[Callable[[Bench], object], dict[str, dict[str, int]]]] = {
    "text": (lambda b: change_text(b.engine, b.samples[1], "a cat"), {"vcs": STALE, "evqa": STALE, "ecs": STALE}),
    "new sample": (
        lambda b: add_sample(b.engine, b.dataset, b.videos[1], "new"),
        {metric: {"ok": 1, "unscored": 1} for metric in METRICS},
    ),
    "sample less": (lambda b: remove(b.engine, schema.sample, b.samples[1]), {"vcs": NONE, "evqa": NONE, "ecs": NONE}),
    "video less": (lambda b: remove(b.engine, schema.video, b.videos[1]), {"vcs": NONE, "evqa": NONE, "ecs": NONE}),
    "reference": (
        lambda b: add_reference(b.engine, b.dataset, b.videos[1], "new", "A cat."),
        {"vcs": STALE, "ecs": STALE},
    ),
    "reference less": (lambda b: remove(b.engine, schema.reference, b.references[1]), {"vcs": STALE, "ecs": STALE}),
    "reference renamed": (
        lambda b: change(b.engine, schema.reference, b.references[1], key="another"),
        {"vcs": STALE, "ecs": STALE},
    ),
    "own field of a caption": (lambda b: change(b.engine, schema.sample, b.samples[1], extra={"mood": "calm"}), {}),
    **{
        f"{name} of a keypoint": (partial(change_keypoint, name=name, value=value), ECS_STALE)
        for name, value in (("text", "It rains."), ("key", "another"), ("dimension", "camera"), ("segment_index", 0))
    },
    "own field of a keypoint": (partial(change_keypoint, name="extra", value={"note": "checked"}), {}),
    "keypoint more": (lambda b: add_keypoint(b.engine, b.dataset, b.videos[1], "more"), ECS_STALE),
    "content": (lambda b: change(b.engine, schema.video, b.videos[1], content_sha256=b"new"), {"evqa": STALE}),
    "score": (lambda b: b.score("vcs", [b.samples[1]], "undefined"), {"vcs": {"undefined": 1}}),
    "failed score": (lambda b: b.score("evqa", [b.samples[1]], "failed"), {"evqa": {"failed": 1}}),
    "threshold in force": (lambda b: b.threshold(0.25), {"ecs": STALE}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_marks_the_scores_that_depend_on_it_and_no_others(bench: Bench, name: str) -> None:
    make, changed = CHANGES[name]
    make(bench)
    bench.check()
    assert {metric: bench.kept(metric).get(1, {}) for metric in METRICS} == {**dict.fromkeys(METRICS, OK), **changed}
    elsewhere = {metric: STALE if (name, metric) == ("threshold in force", "ecs") else OK for metric in METRICS}
    assert all(bench.kept(metric)[shard] == elsewhere[metric] for metric in METRICS for shard in (0, 2))


def test_a_quantile_that_no_score_depends_on_changes_nothing(bench: Bench) -> None:
    with bench.engine.begin() as connection:
        store_threshold(
            connection,
            scorer_id=bench.scorers["ecs"],
            dataset_id=bench.dataset.dataset_id,
            method="quantile",
            objective="keep 0.5",
            value=0.5,
            n=3,
        )
    assert all(bench.kept(metric)[shard] == OK for metric in METRICS for shard in range(N_SHARDS))


def test_a_text_that_changes_back_is_no_change(bench: Bench) -> None:
    change_text(bench.engine, bench.samples[0], "a cat")
    assert bench.kept("vcs")[0] == STALE
    change_text(bench.engine, bench.samples[0], "a dog 0")
    assert bench.kept("vcs")[0] == OK
    bench.check()
    with bench.engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM past_score")) == 0


def test_a_sample_that_moves_to_another_shard_takes_its_counts_along(bench: Bench) -> None:
    with bench.engine.begin() as connection:
        is_it = schema.sample.c.sample_id == bench.samples[1]
        connection.execute(sa.update(schema.sample).where(is_it).values(shard=2, video_id=bench.videos[2]))
    bench.check()
    assert 1 not in bench.kept("evqa")


def test_a_change_that_is_not_committed_yet_is_counted_once_it_is(bench: Bench) -> None:
    query = sa.update(schema.sample).where(schema.sample.c.sample_id == bench.samples[1])
    with bench.engine.connect() as other, other.begin():
        other.execute(query.values(text="a cat", text_sha256=b"new"))
        assert bench.kept("vcs")[1] == OK
    assert bench.kept("vcs")[1] == STALE


def test_a_score_of_a_text_that_changed_after_it_was_read_is_stored_as_stale(bench: Bench) -> None:
    with bench.engine.connect() as connection:
        (read,) = load_samples(connection, [bench.samples[1]], METRIC_INPUTS["vcs"], bench.scorers["vcs"])
    change_text(bench.engine, bench.samples[1], "a cat")
    row = replace(ok(bench.samples[1], 0.9), input_sha256=read.input_sha256, input_marks=read.input_marks)
    store_scores(bench.engine, bench.scorers["vcs"], "late", [row])
    assert bench.kept("vcs")[1] == STALE
    bench.check()


@pytest.mark.parametrize("first", ["scorer", "ingest"])
def test_a_text_that_changes_while_a_score_of_it_is_written(bench: Bench, first: str) -> None:
    """Whoever comes second waits for the first, and the score is marked: by the trigger, or by its own writing."""
    scorer_id, sample_id = bench.scorers["vcs"], bench.samples[1]
    with bench.engine.connect() as connection:
        (read,) = load_samples(connection, [sample_id], METRIC_INPUTS["vcs"], scorer_id)
    empty_scores = sa.delete(schema.score).where(schema.score.c.sample_id == sample_id)
    with bench.engine.begin() as connection:
        connection.execute(empty_scores)
    row = replace(ok(sample_id, 0.9), input_sha256=read.input_sha256, input_marks=read.input_marks)
    change = sa.update(schema.sample).where(schema.sample.c.sample_id == sample_id)

    def ingest() -> None:
        with bench.engine.begin() as connection:
            connection.execute(change.values(text="a cat", text_sha256=b"new"))

    with ThreadPoolExecutor(1) as pool, bench.engine.connect() as mine:
        with mine.begin():
            if first == "ingest":
                mine.execute(change.values(text="a cat", text_sha256=b"new"))
                other = pool.submit(store_scores, bench.engine, scorer_id, "late", [row])
            else:
                # As `store_scores` does, but its transaction stays open.
                mine.execute(sa.text("SELECT 1 FROM shard WHERE shard = 1 FOR KEY SHARE"))
                mine.execute(sa.insert(schema.score), stored(scorer_id, row))
                other = pool.submit(ingest)
            wait_for_lock(bench.engine, other)
            assert not other.done()
        other.result()
    assert bench.kept("vcs")[1] == STALE
    bench.check()


@pytest.mark.parametrize("table", [schema.score, schema.sample])
def test_a_table_that_was_emptied(bench: Bench, table: sa.Table) -> None:
    bench.check()
    with bench.engine.begin() as connection:
        connection.exec_driver_sql(f"TRUNCATE {table.name} CASCADE")
    bench.check()


def test_a_dataset_and_a_scorer_that_are_deleted_take_their_counts_along(bench: Bench) -> None:
    other = make_dataset(bench.engine, "other")
    add_sample(bench.engine, other, add_video(bench.engine, other, "elsewhere"), "s")
    with bench.engine.begin() as connection:
        connection.execute(sa.delete(schema.scorer).where(schema.scorer.c.scorer_id == bench.scorers["vcs"]))
    remove(bench.engine, schema.dataset, bench.dataset.dataset_id)
    with bench.engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM shard_count")) == 0
        assert connection.execute(sa.text("SELECT dataset_id FROM shard")).scalars().all() == [other.dataset_id]


WORD = "sha256(COALESCE((SELECT utf8(max(word)) FROM {}), ''))"
MOOD = sa.Table("mood", sa.MetaData(), sa.Column("sample_id", sa.BigInteger), sa.Column("word", sa.Text))
WEATHER = sa.Table("weather", sa.MetaData(), sa.Column("word", sa.Text))
FROM_OUTSIDE: Mapping[str, list[Input[Any]]] = {
    **METRIC_INPUTS,
    "vcs": [
        TEXT,
        *[
            Input(
                name, name, f"sha256(COALESCE((SELECT utf8(max(word)) FROM {name}{where}), ''))", "NULL", str, (name,)
            )
            for name, where in (("mood", " m WHERE m.sample_id = s.sample_id"), ("weather", ""))
        ],
    ],
}


def test_an_input_of_tables_from_outside_is_watched_in_these_tables(bench: Bench) -> None:
    with bench.engine.begin() as connection:
        MOOD.create(connection)
        WEATHER.create(connection)
        create_views(connection, FROM_OUTSIDE)
    # Another rule than before: the stored digests are of other inputs.
    assert [bench.kept("vcs")[shard] for shard in range(N_SHARDS)] == [STALE] * 3
    of_mood = [ok(i, 0.5) for i in bench.samples]
    write_fresh(bench.engine, bench.scorers["vcs"], of_mood, FROM_OUTSIDE["vcs"])
    assert [bench.kept("vcs")[shard] for shard in range(N_SHARDS)] == [OK] * 3
    changes = {
        "INSERT": sa.insert(MOOD).values(sample_id=bench.samples[1], word="glad"),
        "UPDATE": sa.update(MOOD).values(sample_id=bench.samples[2]),
        "DELETE": sa.delete(MOOD),
    }
    expected = {"INSERT": [OK, STALE, OK], "UPDATE": [OK, OK, STALE], "DELETE": [OK, OK, OK]}
    for name, statement in changes.items():
        with bench.engine.begin() as connection:
            connection.execute(statement)
        assert [bench.kept("vcs")[shard] for shard in range(N_SHARDS)] == expected[name], name
    with bench.engine.begin() as connection:
        connection.execute(sa.insert(WEATHER).values(word="rain"))
    assert [bench.kept("vcs")[shard] for shard in range(N_SHARDS)] == [STALE] * 3
    with bench.engine.begin() as connection:
        connection.exec_driver_sql("TRUNCATE weather")
    assert [bench.kept("vcs")[shard] for shard in range(N_SHARDS)] == [OK] * 3


def test_a_table_that_an_input_names_must_exist(bench: Bench) -> None:
    loose: Input[Any] = Input("mood", "mood", "sha256('')", "NULL", str, ("moods",))
    with (
        bench.engine.connect() as connection,
        pytest.raises(
            ValueError,
            match="metric vcs reads table moods, which neither Reelsieve nor an installed package has: correct",
        ),
    ):
        create_views(connection, {"vcs": [TEXT, loose]})


def test_another_rule_compares_all_scores_again(bench: Bench) -> None:
    with bench.engine.begin() as connection:
        create_views(connection, {**METRIC_INPUTS, "vcs": [TEXT]})
    assert all(bench.kept("vcs")[shard] == STALE and bench.kept("ecs")[shard] == OK for shard in range(N_SHARDS))
    with bench.engine.begin() as connection:
        create_views(connection, METRIC_INPUTS)
    assert all(bench.kept("vcs")[shard] == OK for shard in range(N_SHARDS))


def test_a_scorer_that_never_ran_has_all_samples_to_do(bench: Bench) -> None:
    dataset_id = bench.dataset.dataset_id
    with bench.engine.connect() as connection:
        counts = load_shard_counts(connection, None, [dataset_id])
        assert load_shard_counts(connection, bench.scorers["vcs"], [dataset_id + 1]) == {}
    assert counts == {(dataset_id, shard): {"unscored": 1} for shard in range(3)}


def test_shards_with_unfinished_verdicts(bench: Bench) -> None:
    place = (bench.engine, bench.scorers["ecs"], bench.dataset.dataset_id)
    assert list_unfinished_shards(*place) == {0, 1, 2}
    remove(bench.engine, schema.keypoint, bench.keypoints[1])
    assert list_unfinished_shards(*place) == {0, 2}
    add_keypoint(bench.engine, bench.dataset, bench.videos[1], "new")
    assert list_unfinished_shards(*place) == {0, 1, 2}


STEPS = st.lists(
    st.tuples(st.sampled_from([*CHANGES, "look", "score again"]), st.integers(0, 5)), min_size=1, max_size=8
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_any_changes_in_any_order_with_looks_between(engine: Engine, steps: list[tuple[str, int]]) -> None:
    empty(engine)
    bench = Bench(engine)
    done: set[str] = set()
    for name, n in steps:
        if name == "look":
            bench.check()
        elif name == "score again":
            alive = [i for i in bench.samples if i in _alive(engine)]
            bench.score(METRICS[n % 3], alive)
        elif not (done & {"sample less", "video less"}) and name not in done:
            CHANGES[name][0](bench)
            done.add(name)
    bench.check()


def stored(scorer_id: int, row: ScoreRow) -> dict[str, Any]:
    """The row of table score."""
    return {"scorer_id": scorer_id, "run_id": "late", **asdict(row)}


def _alive(engine: Engine) -> set[int]:
    with engine.connect() as connection:
        return set(connection.scalars(sa.select(schema.sample.c.sample_id)))


def test_pending_names_the_statuses_that_the_work_list_takes(bench: Bench) -> None:
    change_text(bench.engine, bench.samples[0], "a cat")
    bench.score("vcs", [bench.samples[1]], "failed")
    add_sample(bench.engine, bench.dataset, bench.videos[2], "new")
    counts = bench.kept("vcs")
    assert counts == {0: {"stale": 1}, 1: {"failed": 1}, 2: {"ok": 1, "unscored": 1}}
    n_pending = {
        shard: sum(of_shard.get(status, 0) for status in PENDING_STATUSES) for shard, of_shard in counts.items()
    }
    for shard in range(N_SHARDS):
        with bench.engine.connect() as connection:
            work = list_pending_samples(
                connection,
                scorer_id=bench.scorers["vcs"],
                dataset_id=bench.dataset.dataset_id,
                shard=shard,
            )
        assert len(work) == n_pending[shard]
