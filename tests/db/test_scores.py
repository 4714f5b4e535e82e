"""Registering scorers and writing and reading scores."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db import schema
from db.manifest.datasets import Dataset
from db.scores.store import (
    ScoredSample,
    ScoreRow,
    activate_scorer,
    count_statuses,
    find_active_scorer,
    list_best_and_worst,
    load_values_by_kind,
    load_values_by_system,
    register_scorer,
    store_scores,
)
from db.server.bulk import UpsertCounts
from tests.db.builders import (
    INPUT,
    activate,
    add_sample,
    add_video,
    make_dataset,
    ok,
    register,
    set_scores,
    undefined,
    wait_for_lock,
    write_fresh,
)


@pytest.fixture
def samples(engine: Engine, clips: Dataset) -> list[int]:
    video_id = add_video(engine, clips, "v")
    return [add_sample(engine, clips, video_id, f"s{i}", f"caption {i}") for i in range(4)]


def statuses(engine: Engine, metric: str) -> dict[int, str]:
    query = sa.select(schema.scorer.c.scorer_id, schema.scorer.c.status).where(schema.scorer.c.metric == metric)
    with engine.connect() as connection:
        return {row.scorer_id: row.status for row in connection.execute(query)}


def stored(engine: Engine) -> dict[int, tuple[float | None, str, str | None]]:
    with engine.connect() as connection:
        rows = connection.execute(sa.select(schema.score))
        return {row.sample_id: (row.value, row.status, row.error) for row in rows}


def test_the_same_identity_is_the_same_scorer_whatever_the_order_of_keys(engine: Engine) -> None:
    with engine.begin() as connection:
        ids = {
            register_scorer(connection, metric="vcs", models=models, params=params, code_version="1")
            for models in ({"text": "a", "image": "b"}, {"image": "b", "text": "a"})
            for params in ({"alpha": 0.5, "n": 8}, {"n": 8, "alpha": 0.5})
        }
    assert len(ids) == 1
    assert statuses(engine, "vcs") == {ids.pop(): "candidate"}


def test_any_other_identity_is_a_new_scorer(engine: Engine) -> None:
    identity: dict[str, Any] = {"metric": "vcs", "models": {"text": "a"}, "params": {"alpha": 0.5}, "code_version": "1"}
    changes = ({"models": {"text": "b"}}, {"params": {"alpha": 0.5000001}}, {"params": {}}, {"code_version": "2"})
    with engine.begin() as connection:
        ids = {register_scorer(connection, **{**identity, **other}) for other in ({}, *changes, {"metric": "evqa"})}
    assert len(ids) == 6


# Which scorer is active


def settle(engine: Engine, scorer_id: int, *datasets: Dataset) -> None:
    with engine.begin() as connection:
        activate_scorer(connection, scorer_id, [dataset.dataset_id for dataset in datasets])


def scored(engine: Engine, version: str, rows: list[ScoreRow]) -> int:
    """The id of the metric's scorer of this version, with these scores."""
    scorer_id = register(engine, version=version)
    store_scores(engine, scorer_id, "run", rows)
    return scorer_id


def test_the_first_good_score_makes_a_scorer_active_and_retires_the_one_before(
    engine: Engine, clips: Dataset, samples: list[int]
) -> None:
    old = scored(engine, "1", [ok(samples[0], 0.5)])
    assert statuses(engine, "vcs") == {old: "candidate"}
    settle(engine, old, clips)
    new = register(engine, version="2")
    for rows in ([], [undefined(samples[0]), undefined(samples[1], "failed")]):
        store_scores(engine, new, "run", rows)
        settle(engine, new, clips)
        assert statuses(engine, "vcs") == {old: "active", new: "candidate"}
    store_scores(engine, new, "run", [ok(samples[2], 0.0)])
    settle(engine, new, clips)
    assert statuses(engine, "vcs") == {old: "retired", new: "active"}
    settle(engine, old, clips)
    assert statuses(engine, "vcs") == {old: "active", new: "retired"}


def test_scores_of_other_datasets_and_metrics_count_for_nothing(
    engine: Engine, clips: Dataset, samples: list[int]
) -> None:
    others = make_dataset(engine, "others")
    old, new = (scored(engine, version, [ok(samples[0], 0.5)]) for version in ("1", "2"))
    settle(engine, old, clips)
    evqa = register(engine, "evqa")
    for scorer_id, datasets in ((new, [others]), (new, []), (evqa, [clips])):
        settle(engine, scorer_id, *datasets)
    assert statuses(engine, "vcs") == {old: "active", new: "candidate"}
    assert statuses(engine, "evqa") == {evqa: "candidate"}
    settle(engine, new, others, clips)
    assert statuses(engine, "vcs") == {old: "retired", new: "active"}


def test_where_no_good_score_would_be_hidden_any_score_makes_a_scorer_active(
    engine: Engine, clips: Dataset, samples: list[int]
) -> None:
    first = register(engine, version="1")
    settle(engine, first, clips)
    assert statuses(engine, "vcs") == {first: "candidate"}
    store_scores(engine, first, "run", [undefined(samples[0])])
    settle(engine, first, clips)
    second = scored(engine, "2", [undefined(samples[1])])
    settle(engine, second, clips)
    assert statuses(engine, "vcs") == {first: "retired", second: "active"}


def test_a_metric_that_never_ran_has_no_active_scorer(engine: Engine) -> None:
    with engine.connect() as connection:
        assert find_active_scorer(connection, "vcs") is None


@pytest.mark.parametrize("versions", [["1", "1"], ["1", "2"], ["old", "1"], ["1", "2", "3", "1", "2", "3"]])
def test_exactly_one_is_active_when_several_score_at_once(
    engine: Engine, clips: Dataset, samples: list[int], versions: list[str]
) -> None:
    good = [ok(samples[0], 0.5)]
    old = scored(engine, "old", good)
    settle(engine, old, clips)
    starting = threading.Barrier(len(versions))

    def score(version: str) -> int:
        starting.wait()
        scorer_id = scored(engine, version, good)
        settle(engine, scorer_id, clips)
        return scorer_id

    with ThreadPoolExecutor(len(versions)) as pool:
        ids = list(pool.map(score, versions))
    found = statuses(engine, "vcs")
    assert set(found) == {old, *ids}
    assert sorted(found.values()) == ["active"] + ["retired"] * (len(found) - 1)
    assert len(set(ids)) == len(set(versions))
    assert all(len({i for i, v in zip(ids, versions, strict=True) if v == version}) == 1 for version in versions)


def test_a_second_process_waits_for_the_first_and_finds_what_it_made_active(
    engine: Engine, clips: Dataset, samples: list[int]
) -> None:
    first, second = scored(engine, "1", [ok(samples[0], 0.5)]), scored(engine, "2", [undefined(samples[0])])
    with ThreadPoolExecutor(1) as pool, engine.begin() as connection:
        activate_scorer(connection, first, [clips.dataset_id])
        late = pool.submit(settle, engine, second, clips)
        wait_for_lock(engine, late)
        assert not late.done()
        connection.commit()
        late.result()
    assert statuses(engine, "vcs") == {first: "active", second: "candidate"}


def test_the_database_itself_refuses_a_second_active_scorer(engine: Engine) -> None:
    activate(engine)
    second = sa.insert(schema.scorer).values(
        metric="vcs", fingerprint="f", models={}, params={}, code_version="2", status="active"
    )
    with engine.connect() as connection, pytest.raises(sa.exc.IntegrityError, match="uq_scorer_active_metric"):
        connection.execute(second)


def test_scores_are_written_changed_and_left_alone(engine: Engine, samples: list[int]) -> None:
    scorer_id = activate(engine)
    first = [ok(samples[1], 0.5), undefined(samples[0]), ok(samples[2], -1.0)]
    assert store_scores(engine, scorer_id, "run 1", first) == UpsertCounts(3, 0, 0)
    assert store_scores(engine, scorer_id, "run 2", first) == UpsertCounts(0, 0, 3)
    assert store_scores(engine, scorer_id, "run 3", [ok(samples[0], 0.25), first[0]]) == UpsertCounts(0, 1, 1)
    assert stored(engine) == {
        samples[0]: (0.25, "ok", None),
        samples[1]: (0.5, "ok", None),
        samples[2]: (-1.0, "ok", None),
    }
    with engine.connect() as connection:
        runs = connection.execute(sa.select(schema.score.c.run_id).order_by(schema.score.c.sample_id))
        assert list(runs.scalars()) == ["run 3", "run 1", "run 1"]


def test_components_keep_their_numbers(engine: Engine, samples: list[int]) -> None:
    components = {"recall": 0.1 + 0.2, "missing": None, "per keypoint": [1, 2.5, "é"]}
    store_scores(engine, activate(engine), "run", [ScoreRow(samples[0], INPUT, {}, 1 / 3, components, "ok", None)])
    with engine.connect() as connection:
        row = connection.execute(sa.select(schema.score)).one()
    assert (row.value, row.components, bytes(row.input_sha256)) == (1 / 3, components, INPUT)


def test_the_database_refuses_what_is_no_score_and_the_whole_batch_with_it(engine: Engine, samples: list[int]) -> None:
    scorer_id = activate(engine)
    for value, status, error, constraint in (
        (None, "ok", None, "value_iff_ok"),
        (0.5, "undefined", "no reference", "value_iff_ok"),
        (0.0, "failed", "out of memory", "value_iff_ok"),
        (None, "failed", None, "reason_unless_ok"),
        (0.5, "ok", "but why", "reason_unless_ok"),
        (math.nan, "ok", None, "value_finite"),
        (math.inf, "ok", None, "value_finite"),
        (-math.inf, "ok", None, "value_finite"),
    ):
        bad = ScoreRow(samples[1], INPUT, {}, value, {}, status, error)
        with pytest.raises(psycopg.errors.CheckViolation, match=constraint):
            store_scores(engine, scorer_id, "run", [ok(samples[0], 0.5), bad])
        assert stored(engine) == {}


def test_a_score_whose_sample_is_gone_is_left_out(engine: Engine, samples: list[int]) -> None:
    scorer_id = activate(engine)
    with engine.begin() as connection:
        connection.execute(sa.delete(schema.sample).where(schema.sample.c.sample_id == samples[1]))
    rows = [ok(sample_id, 0.5) for sample_id in samples]
    assert store_scores(engine, scorer_id, "run", rows) == UpsertCounts(3, 0, 0)
    assert set(stored(engine)) == set(samples) - {samples[1]}
    assert store_scores(engine, scorer_id, "run", [rows[1]]) == UpsertCounts(0, 0, 0)
    assert store_scores(engine, scorer_id, "run", []) == UpsertCounts(0, 0, 0)


def test_deleting_a_sample_takes_its_scores_along(engine: Engine, samples: list[int]) -> None:
    set_scores(engine, dict.fromkeys(samples, 0.5))
    with engine.begin() as connection:
        connection.execute(sa.delete(schema.sample).where(schema.sample.c.sample_id == samples[1]))
    assert set(stored(engine)) == set(samples) - {samples[1]}


def test_best_and_worst_of_a_kind_come_best_first_with_ties_by_key(engine: Engine, clips: Dataset) -> None:
    video_id = add_video(engine, clips, "v")
    qa = add_sample(engine, clips, video_id, "A", "q", kind="qa", question="q", answer="")
    keys = ["b", "B", "a", "é", "low", "none"]
    captions = {key: add_sample(engine, clips, video_id, key, f"text {key}", system="long") for key in keys}
    other = make_dataset(engine, "other")
    foreign = add_sample(engine, other, add_video(engine, other, "v"), "x")
    values = dict.fromkeys(captions.values(), 0.5)
    scorer_id = set_scores(engine, {**values, captions["low"]: -0.5, captions["none"]: None, qa: 0.5, foreign: 0.9})
    with engine.connect() as connection:
        found = list_best_and_worst(connection, scorer_id, clips.dataset_id, "caption", 100)
        two = list_best_and_worst(connection, scorer_id, clips.dataset_id, "caption", 2)
        three = list_best_and_worst(connection, scorer_id, clips.dataset_id, "caption", 3)
        pairs = list_best_and_worst(connection, scorer_id, clips.dataset_id, "qa", 2)
        by_kind = load_values_by_kind(connection, scorer_id, clips.dataset_id)
        assert by_kind == {"caption": [0.5] * 4 + [-0.5], "qa": [0.5]}
        assert load_values_by_system(connection, scorer_id, clips.dataset_id) == {"long": [0.5] * 4 + [-0.5]}
    assert [row.key for row in found] == ["B", "a", "b", "é", "low"]
    assert [row.key for row in two] == ["B", "a", "é", "low"]
    assert three == found
    assert [row.key for row in pairs] == ["A"]
    assert found[0] == ScoredSample("B", "long", 0.5, "text B")


def test_values_and_counts_of_one_shard(engine: Engine) -> None:
    clips = make_dataset(engine, n_shards=3)
    in_shard: dict[int, list[str]] = {0: [], 1: [], 2: []}
    values: dict[int, float | None] = {}
    for number, key in enumerate("abcdefgh"):
        in_shard[clips.compute_shard(key)].append(key)
        values[add_sample(engine, clips, add_video(engine, clips, key), key)] = -float(number)
    scorer_id = set_scores(engine, values)
    with engine.connect() as connection:
        for shard, keys in in_shard.items():
            assert [
                r.key for r in list_best_and_worst(connection, scorer_id, clips.dataset_id, "caption", 9, shard)
            ] == keys
            found = load_values_by_kind(connection, scorer_id, clips.dataset_id, shard)
            assert sum(map(len, found.values())) == len(keys)
            assert count_statuses(connection, scorer_id, clips.dataset_id, shard) == {"ok": len(keys)}


def test_status_counts(engine: Engine, clips: Dataset, samples: list[int]) -> None:
    scorer_id = activate(engine)
    with engine.connect() as connection:
        assert count_statuses(connection, scorer_id, clips.dataset_id) == {"unscored": 4}
    rows = [ok(samples[0], 1.0), undefined(samples[1]), undefined(samples[2], "failed")]
    write_fresh(engine, scorer_id, rows)
    set_scores(engine, dict.fromkeys(samples, 0.5), metric="evqa")  # another scorer's do not count
    with engine.connect() as connection:
        counts = count_statuses(connection, scorer_id, clips.dataset_id)
        assert counts == {"failed": 1, "ok": 1, "undefined": 1, "unscored": 1}
        assert count_statuses(connection, scorer_id, clips.dataset_id + 1) == {}
        assert count_statuses(connection, scorer_id, clips.dataset_id, shard=1) == {}
