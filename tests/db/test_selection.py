"""Frozen selections: the exact best share, the same rule twice, and what happens when the data moves on."""

from __future__ import annotations

import math
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import ROUND_FLOOR, Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from db import schema
from db.manifest.datasets import Dataset
from db.manifest.removal import delete_dataset
from db.scores.sample_scores import list_dataset_metrics, list_scores
from db.selection.conditions import FilterError
from db.selection.freeze import Selection
from db.selection.recipes import SelectionError, parse_recipe
from db.selection.stored_selections import load_selection_rows, require_selection
from metrics_core.selection.strata import count_in_share
from tests.conftest import filled_template
from tests.db.builders import (
    add_sample,
    add_video,
    change_text,
    make_dataset,
    make_dataset_of_two_metrics,
    set_scores,
    wait_for_lock,
)
from tests.db.freezing import freeze_recipe

NUMBERS = "duration_s, evqa, fps, height, n_characters, n_frames, shard, vcs, width, and the facts of docs/facts.md"


template = filled_template(make_dataset_of_two_metrics)


def add_scored(engine: Engine, dataset: Dataset, values: dict[str, float | None], **columns: Any) -> dict[str, int]:
    """One sample per key, of one video, with these VCS values; returns their ids by key."""
    video_id = add_video(engine, dataset, f"video {len(values)} {min(values)}", content=b"frames")
    samples = {key: add_sample(engine, dataset, video_id, key, f"text {key}", **columns) for key in values}
    set_scores(engine, {samples[key]: value for key, value in values.items()})
    return samples


def freeze(
    engine: Engine, dataset: Dataset, keep: float, where: str | None = None, by: str = "vcs", kind: str | None = None
) -> Selection:
    with engine.begin() as connection:
        return freeze_recipe(connection, dataset, parse_recipe({"by": by, "keep": keep, "where": where, "kind": kind}))


def rows(engine: Engine, chosen: Selection, batch_size: int = 5000) -> list[dict[str, Any]]:
    return [row for part in load_selection_rows(engine, chosen.selection_id, batch_size) for row in part]


def keys(engine: Engine, chosen: Selection) -> list[str]:
    return [row["sample"] for row in rows(engine, chosen)]


def test_the_best_share_in_order_of_rank(engine: Engine, clips: Dataset) -> None:
    add_scored(engine, clips, {"a": 0.1, "b": 0.9, "c": None, "d": -0.3, "e": 0.5, "f": 0.2})
    chosen = freeze(engine, clips, 0.4)
    assert (chosen.n, chosen.n_eligible, chosen.cutoff, chosen.is_new) == (2, 5, 0.5, True)
    assert [(row["rank"], row["sample"], row["value"]) for row in rows(engine, chosen)] == [
        (1, "b", 0.9),
        (2, "e", 0.5),
    ]
    everything = freeze(engine, clips, 1)
    assert keys(engine, everything) == ["b", "e", "f", "a", "d"]
    assert everything.cutoff == -0.3


def test_ties_are_broken_by_kind_and_by_the_bytes_of_the_key(engine: Engine, clips: Dataset) -> None:
    add_scored(engine, clips, dict.fromkeys(["é", "b", "B", "_", "a", "10", "9"], 0.5))
    add_scored(engine, clips, dict.fromkeys(["A", "0"], 0.5), kind="qa", question="q", answer="a")
    chosen = freeze(engine, clips, 1, kind="all")
    assert keys(engine, chosen) == ["10", "9", "B", "_", "a", "b", "é", "0", "A"]


def test_where_the_size_ends_among_equals_the_seed_draws(engine: Engine, clips: Dataset) -> None:
    values = {f"s{place:02}": 1.0 - place for place in range(40)}
    add_scored(engine, clips, {**values, "s18": -19.0, "s19": -19.0, "s20": -19.0, "s21": -19.0})
    for where in (None, "vcs is not null"):
        chosen = freeze(engine, clips, 0.5, where)
        assert (chosen.n, chosen.cutoff, chosen.n_tied, chosen.n_tied_left) == (20, -19.0, 2, 2)
        assert set(keys(engine, chosen)[-2:]) < {"s18", "s19", "s20", "s21"}
        with engine.connect() as connection:
            found = require_selection(connection, chosen.selection_id)
        assert (found["n_tied"], found["n_tied_left"]) == (2, 2)
    everything = freeze(engine, clips, 0.55)
    assert (everything.n, everything.n_tied, everything.n_tied_left) == (22, 4, 0)
    assert keys(engine, everything)[-4:] == ["s18", "s19", "s20", "s21"]


@pytest.mark.parametrize(
    ("keep", "n", "expected"),
    [
        (0.125, 363, 45),
        (0.1, 30, 3),  # 0.1 * 30 in binary is a little more than 3, 0.7 * 10 a little less than 7
        (0.7, 10, 7),
        (0.29, 100, 29),  # 28.999999999999996
        (0.57, 100, 57),  # 56.99999999999999
        (1e-7, 10**7, 1),
        (0.01, 5, 1),
        (0.999, 1, 1),
        (1, 17, 17),
        (1.0, 17, 17),
        (0.5, 2**60 + 1, 2**59),
    ],
)
def test_how_many_a_share_keeps(keep: float, n: int, expected: int) -> None:
    assert count_in_share(keep, n) == expected


@given(st.decimals(min_value=Decimal("0.00001"), max_value=1, places=5), st.integers(1, 10**6))
def test_a_share_means_its_decimals(keep: Decimal, n: int) -> None:
    assert count_in_share(float(keep), n) == max(1, int((keep * n).to_integral_value(ROUND_FLOOR)))


def test_the_same_rule_twice_is_the_same_selection(engine: Engine, clips: Dataset) -> None:
    add_scored(engine, clips, {"a": 0.1, "b": 0.9, "c": 0.5})
    first = freeze(engine, clips, 0.5)
    again = freeze(engine, clips, 0.5)
    assert (again.selection_id, again.is_new) == (first.selection_id, False)
    assert (again.n, again.cutoff, again.score_hash) == (first.n, first.cutoff, first.score_hash)
    assert len(rows(engine, first)) == 1


def test_another_rule_is_another_selection_even_with_the_same_rows(engine: Engine, clips: Dataset) -> None:
    add_scored(engine, clips, {"a": 0.1, "b": 0.9, "c": 0.5})
    base = freeze(engine, clips, 0.5)
    finer = freeze(engine, clips, 0.51)
    filtered = freeze(engine, clips, 0.5, "vcs > 0")
    assert len({base.selection_id, finer.selection_id, filtered.selection_id}) == 3
    assert base.score_hash == finer.score_hash == filtered.score_hash


def test_changed_scores_make_a_new_selection_and_leave_the_old_as_it_was(engine: Engine, clips: Dataset) -> None:
    samples = add_scored(engine, clips, {"a": 0.1, "b": 0.9, "c": 0.5})
    old = freeze(engine, clips, 0.67)
    before = rows(engine, old)
    set_scores(engine, {samples["a"]: 0.95})
    new = freeze(engine, clips, 0.67)
    assert new.is_new
    assert new.selection_id != old.selection_id
    assert new.score_hash != old.score_hash
    assert keys(engine, new) == ["a", "b"]
    assert rows(engine, old) == before
    set_scores(engine, {samples["a"]: 0.1})
    assert freeze(engine, clips, 0.67) == replace(old, is_new=False)


def test_another_scorer_is_another_rule(engine: Engine, clips: Dataset) -> None:
    samples = add_scored(engine, clips, {"a": 0.1, "b": 0.9})
    old = freeze(engine, clips, 1)
    set_scores(engine, {samples["a"]: 0.1, samples["b"]: 0.9}, version="2")
    new = freeze(engine, clips, 1)
    assert new.selection_id != old.selection_id
    assert new.score_hash == old.score_hash
    with engine.connect() as connection:
        stored = [require_selection(connection, chosen.selection_id) for chosen in (old, new)]
    assert len({row["spec"]["scorer"] for row in stored}) == 2


def test_frozen_rows_outlive_every_change(engine: Engine, clips: Dataset) -> None:
    samples = add_scored(engine, clips, {"a": 0.1, "b": 0.9})
    set_scores(engine, {samples["b"]: 0.25}, metric="evqa")
    chosen = freeze(engine, clips, 1)
    before = rows(engine, chosen)
    assert before[0] == {
        "rank": 1,
        "value": 0.9,
        "dataset": "clips",
        "sample": "b",
        "video": "video 2 a",
        "kind": "caption",
        "system": "brief",
        "text": "text b",
        "question": None,
        "answer": None,
        "uri": "media/video 2 a.mp4",
        "content_sha256": "1bee16bda27b6ae9e63c1b26e2b1ffba6a3ecb0cd8c4ac4a1f8a6fa1b4a1f9cf",
        "vcs": 0.9,
        "vcs_models": "tiny",
        "evqa": 0.25,
        "evqa_models": "tiny",
    } | {"content_sha256": before[0]["content_sha256"]}
    assert re.fullmatch("[0-9a-f]{64}", before[0]["content_sha256"])
    change_text(engine, samples["a"], "changed")
    with engine.begin() as connection:
        connection.execute(sa.delete(schema.sample).where(schema.sample.c.sample_id == samples["b"]))
    assert rows(engine, chosen) == before
    with engine.begin() as connection:
        connection.execute(sa.delete(schema.video))
    assert rows(engine, chosen) == before


def test_a_selection_outlives_its_dataset(engine: Engine, clips: Dataset) -> None:
    add_scored(engine, clips, {"a": 0.1, "b": 0.9})
    chosen = freeze(engine, clips, 1)
    before = rows(engine, chosen)
    with engine.begin() as connection:
        delete_dataset(connection, clips)
    assert rows(engine, chosen) == before
    again = make_dataset(engine, clips.name)
    add_scored(engine, again, {"a": 0.1, "b": 0.9})
    assert freeze(engine, again, 1).is_new, "a dataset of the same name is another one"


@pytest.mark.parametrize(
    "statement", ["DELETE FROM selection", "TRUNCATE selection CASCADE", "TRUNCATE dataset CASCADE"]
)
def test_a_selection_takes_its_rows_along(engine: Engine, clips: Dataset, statement: str) -> None:
    add_scored(engine, clips, {"a": 0.1, "b": 0.9})
    freeze(engine, clips, 1)
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)
        assert connection.scalar(sa.select(sa.func.count()).select_from(schema.selection_item)) == 0


def test_a_deleted_selection_leaves_the_rows_of_others(engine: Engine, clips: Dataset) -> None:
    add_scored(engine, clips, {"a": 0.1, "b": 0.9})
    first, second = freeze(engine, clips, 1), freeze(engine, clips, 0.5)
    with engine.begin() as connection:
        connection.execute(sa.delete(schema.selection).where(schema.selection.c.selection_id == first.selection_id))
    assert rows(engine, first) == []
    assert keys(engine, second) == ["b"]


def test_what_is_stored_with_a_selection(engine: Engine, clips: Dataset) -> None:
    add_scored(engine, clips, {"a": 0.1, "b": 0.9})
    chosen = freeze(engine, clips, 0.5, "vcs > -1")
    with engine.connect() as connection:
        stored = require_selection(connection, chosen.selection_id)
        fingerprint = connection.scalar(sa.select(schema.scorer.c.fingerprint))
        with pytest.raises(SelectionError, match=f"there is no selection {chosen.selection_id + 1}"):
            require_selection(connection, chosen.selection_id + 1)
    rule = {"by": "vcs", "keep": 0.5, "where": "vcs > -1", "scorer": fingerprint, "kind": "caption"}
    assert stored["spec"] == rule
    assert (stored["n"], stored["cutoff"], stored["score_hash"]) == (1, 0.9, chosen.score_hash)


def test_only_this_dataset_is_selected(engine: Engine, clips: Dataset) -> None:
    add_scored(engine, clips, {"a": 0.1})
    add_scored(engine, make_dataset(engine, "other"), {"a": 0.9, "b": 0.8})
    assert [row["dataset"] for row in rows(engine, freeze(engine, clips, 1))] == ["clips"]


def test_where(engine: Engine, clips: Dataset) -> None:
    add_scored(engine, clips, {"a": 0.2, "100%": 0.1})
    add_scored(engine, clips, {"quoted": 0.3}, system="it's")
    for where, expected in (
        ("system = 'it''s'", ["quoted"]),
        ("\"system\" = 'it''s' and text like '%quo%'", ["quoted"]),
        ("sample in ('a', 'quoted')", ["quoted", "a"]),
        ("not sample in ('a', 'quoted')", ["100%"]),
        ("sample like '100\\%'", ["100%"]),
        ("vcs >= 0.2 and vcs_status = 'ok'", ["quoted", "a"]),
        ("vcs between 0.05 and 0.25 or sample ilike 'QUO%'", ["quoted", "a", "100%"]),
        ("evqa is null and duration_s = 4.0 and shard = 0", ["quoted", "a", "100%"]),
        ("video_status != 'ok' or vcs < -0.0 or system = '%(param_1)s' or vcs = 0.3", ["quoted"]),
    ):
        chosen = freeze(engine, clips, 1, where)
        assert keys(engine, chosen) == expected, where
        assert freeze(engine, clips, 1, where).selection_id == chosen.selection_id


def test_a_filter_of_many_names_is_no_problem(engine: Engine, clips: Dataset) -> None:
    add_scored(engine, clips, {"a": 0.2, "b": 0.1})
    names = ", ".join(f"'{i * 7919:010x}'" for i in range(600))
    chosen = freeze(engine, clips, 1, f"not sample in ({names}) or sample = 'a'")
    assert chosen.n == 2
    assert not freeze(engine, clips, 1, f"not sample in ({names}) or sample = 'a'").is_new


def test_what_cannot_be_selected_is_one_sentence(engine: Engine, clips: Dataset) -> None:
    add_scored(engine, clips, {"a": 0.2})
    for where in ("vcs > 0; drop table sample", "sample_id = 1", "pg_sleep(1)", "1 = (select 1)"):
        with pytest.raises(FilterError):
            freeze(engine, clips, 1, where)
    for keep in (0, -0.1, 1.0000001, math.nan, math.inf):
        with pytest.raises(SelectionError, match="above 0 and at most 1"):
            freeze(engine, clips, keep)
    for by, said in (
        ("nope", "no column 'nope': "),
        ("VCS", "no column 'VCS', did you mean 'vcs'\\? "),
        *((by, f"column {by} holds no numbers: ") for by in ("video", "text", "vcs_status")),
    ):
        with pytest.raises(SelectionError, match=f"{said}choose one of {NUMBERS}$"):
            freeze(engine, clips, 0.5, by=by)
    with engine.connect() as connection:
        assert list_dataset_metrics(connection, clips) == ["vcs", "evqa"]


def test_nothing_to_select_from_says_what_to_do(engine: Engine, clips: Dataset) -> None:
    with pytest.raises(SelectionError, match="run reelsieve score --dataset clips first"):
        freeze(engine, clips, 0.5)
    add_scored(engine, clips, {"a": 0.2, "b": None})
    with pytest.raises(SelectionError, match="passes 'vcs > 1': loosen the condition"):
        freeze(engine, clips, 0.5, "vcs > 1")
    with engine.connect() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(schema.selection)) == 0


def test_rows_come_in_batches(engine: Engine, clips: Dataset) -> None:
    add_scored(engine, clips, {f"s{i}": -i for i in range(7)})
    chosen = freeze(engine, clips, 1)
    parts = list(load_selection_rows(engine, chosen.selection_id, batch_size=3))
    assert [len(part) for part in parts] == [3, 3, 1]
    assert [row["rank"] for part in parts for row in part] == list(range(1, 8))
    assert list(load_selection_rows(engine, chosen.selection_id + 1)) == []


def test_scores_listed_best_first_and_undefined_last(engine: Engine, clips: Dataset) -> None:
    samples = add_scored(engine, clips, {"a": 0.1, "B": 0.1, "none": None, "best": 0.9})
    set_scores(engine, {samples["a"]: 0.5}, metric="evqa")
    add_scored(engine, make_dataset(engine, "other"), {"foreign": 1.0})
    with engine.connect() as connection:
        found = list_scores(connection, "clips", "vcs", None)
        assert list_scores(connection, "clips", "vcs", 2) == found[:2]
    assert [row["sample"] for row in found] == ["best", "B", "a", "none"]
    assert found[2] == {
        "sample": "a",
        "video": "video 4 B",
        "kind": "caption",
        "system": "brief",
        "vcs": 0.1,
        "vcs_status": "ok",
        "vcs_models": "tiny",
        "evqa": 0.5,
        "evqa_status": "ok",
        "evqa_models": "tiny",
    }
    assert (found[3]["vcs"], found[3]["vcs_status"]) == (None, "undefined")


def test_two_that_freeze_the_same_rule_at_once_get_one_selection(engine: Engine, clips: Dataset) -> None:
    add_scored(engine, clips, {"a": 0.1, "b": 0.9})
    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            first = freeze_recipe(connection, clips, parse_recipe({"by": "vcs", "keep": 0.5}))
            other = pool.submit(freeze, engine, clips, 0.5)
            wait_for_lock(engine, other)
        second = other.result()
    assert (first.is_new, second.is_new) == (True, False)
    assert first.selection_id == second.selection_id
    assert keys(engine, first) == ["b"]
