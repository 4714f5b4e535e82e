"""Tags, notes and saved views: each stored once, taken back as it was, in conditions, statements and selections."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import Connection, Engine

from db.manifest.datasets import Dataset
from db.manifest.remarks import (
    Remark,
    delete_added_tags,
    delete_remarks,
    delete_view,
    list_tags,
    list_views,
    load_remarks,
    load_stored_time,
    save_view,
    store_remarks,
)
from db.manifest.removal import count_contents, delete_dataset
from db.reports.pages import load_page
from db.reports.sample_query import SampleQuery, list_suggested_columns, prepare_query
from db.reports.sample_query_sql import build_sql
from db.schema import remark, saved_view, selection, selection_item
from db.selection.conditions import FilterError
from db.selection.recipes import SelectionError, parse_recipe
from tests.conftest import filled_template
from tests.db.builders import add_sample, add_video, change_text, make_dataset, wait_for_lock
from tests.db.freezing import freeze_recipe

TAGS = ("good", "needs a look", 'odd "name" \\', "é")


def fill(engine: Engine) -> None:
    for name in ("clips", "other"):
        dataset = make_dataset(engine, name)
        video = add_video(engine, dataset, "v")
        for number in range(7):
            add_sample(engine, dataset, video, f"s{number}", f"A dog runs {number} times.")


template = filled_template(fill)


def ids(connection: Connection, dataset: Dataset) -> list[int]:
    query = sa.text("SELECT sample_id FROM sample WHERE dataset_id = :id ORDER BY key")
    return list(connection.scalars(query, {"id": dataset.dataset_id}))


def tag(connection: Connection, dataset: Dataset, name: str, *places: int) -> list[int]:
    samples = ids(connection, dataset)
    return store_remarks(connection, dataset, [Remark(samples[place], "tag", name, "ann") for place in places])


def quoted(name: str) -> str:
    return '"tag_{}"'.format(name.replace('"', '""'))


def keys(connection: Connection, dataset: Dataset, *conditions: str) -> list[str]:
    rows, _ = load_page(prepare_query(connection, SampleQuery(dataset, conditions)), None, 100)
    return [row["sample"] for row in rows]


def test_a_tag_is_stored_once_and_keeps_its_author(engine: Engine, clips: Dataset) -> None:
    with engine.begin() as connection:
        samples, others = ids(connection, clips), ids(connection, make_dataset(engine, "other"))
        assert tag(connection, clips, "good", 0, 1) == samples[:2]
        new = [Remark(sample, "tag", "good", "bob") for sample in (*samples[1:3], others[0], 2**62)]
        assert store_remarks(connection, clips, new) == [samples[2]]
        assert store_remarks(connection, clips, []) == []
        assert [load_remarks(connection, clips, sample)[0].made_by for sample in samples[:3]] == ["ann", "ann", "bob"]
        assert load_remarks(connection, clips, others[0]) == []
        assert list_tags(connection, make_dataset(engine, "other")) == []


def test_many_samples_get_a_tag_at_once_and_lose_only_that(engine: Engine, clips: Dataset) -> None:
    with engine.begin() as connection:
        samples, others = ids(connection, clips), ids(connection, make_dataset(engine, "other"))
        tag(connection, clips, "good", 0)
        chosen = [*samples[:3], samples[2], others[0], 2**62]
        new = [Remark(sample_id, "tag", "good", "bob") for sample_id in chosen]
        assert store_remarks(connection, clips, new) == samples[1:3]
        remarks = [load_remarks(connection, clips, sample_id) for sample_id in samples[:4]]
        assert [each and each[0].made_by for each in remarks] == ["ann", "bob", "bob", []]
        now = load_stored_time(connection)
        assert remarks[1] == [Remark(samples[1], "tag", "good", "bob", now)]
        assert load_remarks(connection, make_dataset(engine, "other"), others[0]) == []
        store_remarks(connection, clips, [Remark(samples[3], "note", "good", "bob")])
        tag(connection, clips, "bad", *range(7))
        later = now + timedelta(seconds=1)
        for wrong in ((make_dataset(engine, "other"), "good", "bob", now), (clips, "good", "bob", later)):
            assert delete_added_tags(connection, *wrong) == 0
        assert delete_added_tags(connection, clips, "good", "bob", now) == 2
        assert [len(load_remarks(connection, clips, sample_id)) for sample_id in samples[:4]] == [2, 1, 1, 2]


def test_what_is_taken_away_comes_back_with_its_author(engine: Engine, clips: Dataset) -> None:
    with engine.begin() as connection:
        first, second, *_ = ids(connection, clips)
        new = [Remark(first, "tag", "good", "ann"), Remark(second, "tag", "good", "bob")]
        store_remarks(connection, clips, new)
        old = [*load_remarks(connection, clips, first), *load_remarks(connection, clips, second)]
        assert [mark._replace(made_at=None) for mark in old] == new
        other = make_dataset(engine, "other")
        assert delete_remarks(connection, other, "tag", "good", [first, second]) == []
        assert delete_remarks(connection, clips, "note", "good", [first, second]) == []
        gone = delete_remarks(connection, clips, "tag", "good", [second, first])
        assert gone == old
        assert list_tags(connection, clips) == []
        store_remarks(connection, clips, gone)
        assert load_remarks(connection, clips, first) == old[:1]


def test_two_people_may_tag_the_same_samples_at_once(engine: Engine, clips: Dataset) -> None:
    with engine.begin() as connection:
        first, second, *_ = ids(connection, clips)

    def tag_both() -> list[int]:
        with engine.begin() as connection:
            return store_remarks(connection, clips, [Remark(place, "tag", "good", "bob") for place in (second, first)])

    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            tag(connection, clips, "good", 0)
            other = pool.submit(tag_both)
            wait_for_lock(engine, other)
            tag(connection, clips, "good", 1)
        assert other.result() == []


def test_notes_come_after_tags_and_are_no_columns(engine: Engine, clips: Dataset) -> None:
    with engine.begin() as connection:
        first = ids(connection, clips)[0]
        store_remarks(connection, clips, [Remark(first, "note", "The dog is a fox.", "bob")])
        tag(connection, clips, "good", 0)
        assert [(mark.kind, mark.text) for mark in load_remarks(connection, clips, first)] == [
            ("tag", "good"),
            ("note", "The dog is a fox."),
        ]
        names = list_suggested_columns(prepare_query(connection, SampleQuery(clips)))
        assert [name for name in names if name.startswith("tag")] == ["tag_good"]


def test_tags_and_notes_stay_with_a_changed_text_and_go_with_the_dataset(engine: Engine, clips: Dataset) -> None:
    other = make_dataset(engine, "other")
    with engine.begin() as connection:
        first = ids(connection, clips)[0]
        tag(connection, clips, "good", 0)
        tag(connection, other, "good", 0)
        save_view(connection, clips, "mine", "?where=vcs")
    change_text(engine, first, "A cat sleeps.")
    with engine.begin() as connection:
        assert keys(connection, clips, "tag_good") == ["s0"]
        counts = count_contents(connection, clips)
        assert (counts["tags and notes"], counts["saved views"]) == (1, 1)
        delete_dataset(connection, clips)
        assert connection.scalar(sa.select(sa.func.count()).select_from(remark)) == 1
        assert connection.scalar(sa.select(sa.func.count()).select_from(saved_view)) == 0


def test_a_view_is_saved_under_a_free_name(engine: Engine, clips: Dataset) -> None:
    with engine.begin() as connection:
        assert save_view(connection, clips, "b", "?sort=vcs")
        assert not save_view(connection, clips, "b", "?sort=evqa")
        assert save_view(connection, clips, "a", "?sort=words")
        assert save_view(connection, make_dataset(engine, "other"), "b", "?sort=words")
        assert list_views(connection, clips) == [("a", "?sort=words"), ("b", "?sort=vcs")]
        assert (delete_view(connection, clips, "b"), delete_view(connection, clips, "b")) == ("?sort=vcs", None)


def test_an_unknown_tag_is_refused(engine: Engine, clips: Dataset) -> None:
    with engine.begin() as connection:
        with pytest.raises(SelectionError, match=r"'tag_good' is not a tag that people gave: there are none"):
            keys(connection, clips, "tag_good")
        tag(connection, clips, "good", 0)
        with pytest.raises(SelectionError, match=r"'tag_god' is not a tag that people gave, did you mean 'tag_good'"):
            keys(connection, clips, "tag_god")
        with pytest.raises(FilterError, match="cannot be compared"):
            keys(connection, clips, "tag_good = 1")


def test_a_selection_from_tags_is_frozen(engine: Engine, clips: Dataset) -> None:
    rule = {"by": "n_characters", "keep": 1, "where": "tag_good and not tag_blurry"}

    def freeze() -> tuple[int, list[str]]:
        with engine.begin() as connection:
            made = freeze_recipe(connection, clips, parse_recipe(rule))
            query = sa.select(selection_item.c.sample).where(selection_item.c.selection_id == made.selection_id)
            return made.selection_id, sorted(connection.scalars(query))

    with engine.begin() as connection:
        tag(connection, clips, "good", 0, 1, 2)
        tag(connection, clips, "blurry", 2, 3)
    first = freeze()
    assert first[1] == ["s0", "s1"]
    assert freeze() == first
    with engine.begin() as connection:
        delete_remarks(connection, clips, "tag", "good", ids(connection, clips))
        tag(connection, clips, "good", 4)
    second = freeze()
    assert second[1] == ["s4"]
    with engine.connect() as connection:
        query = sa.select(selection_item.c.sample).where(selection_item.c.selection_id == first[0])
        assert sorted(connection.scalars(query)) == first[1]
        spec = connection.scalar(sa.select(selection.c.spec).where(selection.c.selection_id == first[0]))
        assert spec["where"] == rule["where"]


CONDITIONS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(TAGS),
    lambda inner: st.tuples(st.just("not"), inner) | st.tuples(st.sampled_from(["and", "or", "="]), inner, inner),
    max_leaves=5,
)


def written(condition: Any) -> str:
    """The condition in the language of filters; only tags are compared, with true."""
    if isinstance(condition, str):
        return quoted(condition)
    name, *parts = condition
    if name == "=":
        return f"({written(parts[0])}) and {quoted(TAGS[0])} = true"
    texts = [f"({written(part)})" for part in parts]
    return f"not {texts[0]}" if name == "not" else f" {name} ".join(texts)


def holds(condition: Any, tags: set[str]) -> bool:
    if isinstance(condition, str):
        return condition in tags
    name, *parts = condition
    values = [holds(part, tags) for part in parts]
    if name == "=":
        return values[0] and TAGS[0] in tags
    return not values[0] if name == "not" else all(values) if name == "and" else any(values)


# Every example is rolled back.
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CONDITIONS, st.lists(st.sets(st.sampled_from(TAGS)), min_size=6, max_size=6))
def test_conditions_on_tags_keep_the_samples_that_have_them(
    engine: Engine, condition: Any, tags: list[set[str]]
) -> None:
    """Against brute force, on the pages and in the statement for `reelsieve sql`."""
    expected = [f"s{place}" for place, of_sample in enumerate(tags) if holds(condition, of_sample)]
    clips, other = make_dataset(engine), make_dataset(engine, "other")
    with engine.connect() as connection:
        for name in TAGS:
            # A name is known where a sample has it: a seventh sample has all.
            tag(connection, clips, name, *(place for place, of_sample in enumerate(tags) if name in of_sample), 6)
            tag(connection, other, name, *range(6))
        conditions = (written(condition), "sample != 's6'")
        assert keys(connection, clips, *conditions) == expected
        statement = build_sql(prepare_query(connection, SampleQuery(clips, conditions)))
        assert list(connection.scalars(sa.text(statement.replace(":", "\\:")))) == expected
        connection.rollback()
