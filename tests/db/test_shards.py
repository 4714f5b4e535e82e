"""Kept counts: equal to a count by hand after any change, whoever makes it, and made anew only where one was made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from assets.scores.registry import METRIC_INPUTS
from db import schema
from db.evidence.verdicts import unfinished_shards
from db.schema.inputs import TEXT, Input
from db.scores.shards import PENDING, Tally, sample_counts, score_tally, shard_counts
from db.scores.stored import status_counts
from db.scores.thresholds import LabelThreshold, replace_label_thresholds
from db.scores.work import load_samples, pending_samples
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
    remove,
    store_threshold,
    undefined,
    write_fresh,
)

METRICS = ("vcs", "evqa", "ecs")
N_SHARDS = 3


class Bench:
    """Three videos, one in each shard, with a caption each; all scored by three metrics."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.dataset = make_dataset(engine, n_shards=N_SHARDS)
        keys: dict[int, str] = {}
        for i in range(1000):
            keys.setdefault(self.dataset.shard_of(f"v{i}"), f"v{i}")
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
        row = LabelThreshold("dataset", None, "events", "f1", value, 9, 3, {})
        with self.engine.begin() as connection:
            replace_label_thresholds(connection, self.scorers["ecs"], self.dataset.dataset_id, [row])

    def kept(self, metric: str) -> dict[int, dict[str, int]]:
        found = shard_counts(
            self.engine, score_tally(METRIC_INPUTS[metric]), self.scorers[metric], [self.dataset.dataset_id]
        )
        return {shard: dict(counts) for (_, shard), counts in found.items() if counts}

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
                found = status_counts(connection, self.scorers[metric], self.dataset.dataset_id)
                n_fresh = connection.scalar(sa.text(f"SELECT count({metric}) FROM sample_scores"))
            assert found == dict(total)
            assert n_fresh == total["ok"]
        with self.engine.connect() as connection:
            scores = connection.scalar(sa.text("SELECT scores FROM dataset_summary"))
        assert scores == sum(self.by_hand(m)[s].get("ok", 0) for m in METRICS for s in self.by_hand(m))

    def known(self) -> set[tuple[str, int]]:
        """(metric, shard) whose counts hold."""
        query = sa.text("SELECT r.metric, k.shard FROM plumbing.shard_status k JOIN scorer r USING (scorer_id)")
        with self.engine.connect() as connection:
            return {(row.metric, row.shard) for row in connection.execute(query)}


@pytest.fixture
def bench(engine: Engine) -> Bench:
    return Bench(engine)


ALL = {(metric, shard) for metric in METRICS for shard in range(N_SHARDS)}
OF_SHARD = {(metric, 1) for metric in METRICS}
# What happens in shard 1 or to its scores, and whose counts no longer hold then.
CHANGES: dict[str, tuple[Callable[[Bench], object], set[tuple[str, int]]]] = {
    "text": (lambda b: change_text(b.engine, b.samples[1], "a cat"), OF_SHARD),
    "new sample": (lambda b: add_sample(b.engine, b.dataset, b.videos[1], "new"), OF_SHARD),
    "sample less": (lambda b: remove(b.engine, schema.sample, b.samples[1]), OF_SHARD),
    "video less": (lambda b: remove(b.engine, schema.video, b.videos[1]), OF_SHARD),
    "reference": (lambda b: add_reference(b.engine, b.dataset, b.videos[1], "new", "A cat."), OF_SHARD),
    "reference less": (lambda b: remove(b.engine, schema.reference, b.references[1]), OF_SHARD),
    "keypoint": (lambda b: change(b.engine, schema.keypoint, b.keypoints[1], text="It rains."), OF_SHARD),
    "content": (lambda b: change(b.engine, schema.video, b.videos[1], content_sha256=b"new"), OF_SHARD),
    "score": (lambda b: b.score("vcs", [b.samples[1]], "undefined"), {("vcs", 1)}),
    "failed score": (lambda b: b.score("evqa", [b.samples[1]], "failed"), {("evqa", 1)}),
    "threshold in force": (lambda b: b.threshold(0.25), {("ecs", shard) for shard in range(N_SHARDS)}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_noticed_and_nothing_else_is_counted_again(bench: Bench, name: str) -> None:
    make, changed = CHANGES[name]
    bench.check()
    assert bench.known() == ALL
    make(bench)
    assert bench.known() == ALL - changed
    bench.check()
    gone = OF_SHARD if name in ("sample less", "video less") else set()
    assert bench.known() == ALL
    assert all(bench.kept(metric).get(shard) is None for metric, shard in gone)


def test_a_quantile_that_no_score_depends_on_changes_nothing(bench: Bench) -> None:
    bench.check()
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
    assert bench.known() == ALL


def test_views_are_right_before_anything_was_counted(bench: Bench) -> None:
    assert bench.known() == set()
    change_text(bench.engine, bench.samples[0], "a cat")
    with bench.engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT sample, vcs, vcs_status FROM sample_scores ORDER BY sample")).all()
        counts = status_counts(connection, bench.scorers["vcs"], bench.dataset.dataset_id)
    assert [tuple(row) for row in rows] == [("s0", None, "stale"), ("s1", 0.5, "ok"), ("s2", 0.5, "ok")]
    assert counts == {"ok": 2, "stale": 1}


def test_a_change_that_is_not_committed_yet_is_counted_once_it_is(bench: Bench) -> None:
    """The count reads the snapshot without the change, and must not hold afterwards."""
    query = sa.update(schema.sample).where(schema.sample.c.sample_id == bench.samples[1])
    with bench.engine.connect() as other, other.begin():
        other.execute(query.values(text="a cat", text_sha256=b"new"))
        assert bench.kept("vcs")[1] == {"ok": 1}
        assert ("vcs", 1) in bench.known()
    assert ("vcs", 1) not in bench.known()
    assert bench.kept("vcs")[1] == {"stale": 1}


def test_a_score_that_is_not_committed_yet_is_counted_once_it_is(bench: Bench) -> None:
    bench.check()
    is_it = sa.and_(schema.score.c.sample_id == bench.samples[1], schema.score.c.scorer_id == bench.scorers["vcs"])
    with bench.engine.connect() as other, other.begin():
        other.execute(sa.update(schema.score).where(is_it).values(input_sha256=b"of another text"))
        assert bench.kept("vcs")[1] == {"ok": 1}
    assert bench.kept("vcs")[1] == {"stale": 1}


@pytest.mark.parametrize("table", [schema.score, schema.sample])
def test_a_table_that_was_emptied(bench: Bench, table: sa.Table) -> None:
    bench.check()
    with bench.engine.begin() as connection:
        connection.exec_driver_sql(f"TRUNCATE {table.name} CASCADE")
    bench.check()


def test_a_dataset_and_a_scorer_that_are_deleted_take_their_counts_along(bench: Bench) -> None:
    other = make_dataset(bench.engine, "other")
    add_sample(bench.engine, other, add_video(bench.engine, other, "elsewhere"), "s")
    bench.kept("vcs")
    with bench.engine.begin() as connection:
        connection.execute(sa.delete(schema.scorer).where(schema.scorer.c.scorer_id == bench.scorers["vcs"]))
    remove(bench.engine, schema.dataset, bench.dataset.dataset_id)
    with bench.engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM shard_count")) == 0
        assert connection.execute(sa.text("SELECT dataset_id FROM shard")).scalars().all() == [other.dataset_id]


def test_an_input_that_no_trigger_watches_is_counted_at_every_look(bench: Bench) -> None:
    watched: Input[Any] = TEXT
    loose: Input[Any] = Input("mood", "mood", "sha256(current_setting('reelsieve.mood', true)::bytea)", "NULL", str)
    assert score_tally([watched]).is_tracked
    tally = score_tally([watched, loose])
    assert not tally.is_tracked
    assert tally.rule_sha256 is None
    counts = shard_counts(bench.engine, tally, bench.scorers["vcs"], [bench.dataset.dataset_id])
    assert set(counts) == {(bench.dataset.dataset_id, shard) for shard in range(N_SHARDS)}
    with bench.engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM shard_count WHERE counts IS NOT NULL")) == 0


def test_a_rule_that_changes_is_counted_anew(bench: Bench) -> None:
    place = (bench.scorers["vcs"], [bench.dataset.dataset_id])
    assert all(
        counts == {"ok": 1} for counts in shard_counts(bench.engine, score_tally(METRIC_INPUTS["vcs"]), *place).values()
    )
    assert all(counts == {"stale": 1} for counts in shard_counts(bench.engine, score_tally([TEXT]), *place).values())


def test_a_scorer_that_never_ran_has_all_samples_to_do(bench: Bench) -> None:
    dataset_id = bench.dataset.dataset_id
    assert sample_counts(bench.engine, [dataset_id]) == {(dataset_id, shard): {"unscored": 1} for shard in range(3)}
    assert shard_counts(bench.engine, Tally("scores", "", True), 1, [dataset_id + 1]) == {}


def test_shards_with_unfinished_verdicts(bench: Bench) -> None:
    place = (bench.engine, bench.scorers["ecs"], bench.dataset.dataset_id)
    assert unfinished_shards(*place) == {0, 1, 2}
    remove(bench.engine, schema.keypoint, bench.keypoints[1])
    assert unfinished_shards(*place) == {0, 2}
    add_keypoint(bench.engine, bench.dataset, bench.videos[1], "new")
    assert unfinished_shards(*place) == {0, 1, 2}


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


def _alive(engine: Engine) -> set[int]:
    with engine.connect() as connection:
        return set(connection.scalars(sa.select(schema.sample.c.sample_id)))


def test_pending_names_the_statuses_that_the_work_list_takes(bench: Bench) -> None:
    change_text(bench.engine, bench.samples[0], "a cat")
    bench.score("vcs", [bench.samples[1]], "failed")
    add_sample(bench.engine, bench.dataset, bench.videos[2], "new")
    counts = bench.kept("vcs")
    assert counts == {0: {"stale": 1}, 1: {"failed": 1}, 2: {"ok": 1, "unscored": 1}}
    n_pending = {shard: sum(of_shard.get(status, 0) for status in PENDING) for shard, of_shard in counts.items()}
    for shard in range(N_SHARDS):
        with bench.engine.connect() as connection:
            work = pending_samples(
                connection,
                scorer_id=bench.scorers["vcs"],
                dataset_id=bench.dataset.dataset_id,
                shard=shard,
                inputs=METRIC_INPUTS["vcs"],
            )
        assert len(work) == n_pending[shard]
