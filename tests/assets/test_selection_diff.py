"""The reasons of a diff: each is true of its sample."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.selection.select import make_selection
from db import schema
from db.manifest.datasets import Dataset
from db.manifest.removal import delete_dataset
from db.selection.diff import compare_selections
from db.selection.recipes import parse_recipe
from tests.conftest import filled_template
from tests.db.builders import (
    TWO_METRICS,
    add_sample,
    add_video,
    change,
    change_text,
    make_dataset,
    make_dataset_of_two_metrics,
    remove,
    set_scores,
)

SAME_RULE = "selection {} took others by the same rule, since scores or samples were different when it was made"


template = filled_template(make_dataset_of_two_metrics)


def add(engine: Engine, dataset: Dataset, values: dict[str, float]) -> dict[str, int]:
    """The ids of new samples with these scores by both metrics, each with a video of its own, by key."""
    ids = {
        key: add_sample(engine, dataset, add_video(engine, dataset, f"{dataset.name} {key}"), key, key)
        for key in values
    }
    for metric in TWO_METRICS:
        set_scores(engine, {ids[key]: value for key, value in values.items()}, metric=metric)
    return ids


def make(engine: Engine, dataset: Dataset, **said: Any) -> int:
    recipe = parse_recipe(said)
    encoder = lambda: pytest.fail("no text is compared")  # noqa: E731
    return make_selection(engine, dataset, recipe, encoder, lambda _: None).selection_id


def reasons(engine: Engine, first: int, second: int) -> dict[str, str]:
    """The reasons by the key of their sample."""
    with engine.connect() as connection:
        return {row.sample: row.reason for row in compare_selections(connection, first, second)}


def test_another_dataset_is_the_reason(engine: Engine, clips: Dataset) -> None:
    other = make_dataset(engine, "other")
    add(engine, clips, {"a": 0.5})
    add(engine, other, {"b": 0.4})
    first, second = make(engine, clips, by="vcs", count=1), make(engine, other, by="vcs", count=1)
    assert reasons(engine, first, second) == {
        "a": f"selection {second} is from dataset 'other'",
        "b": f"selection {first} is from dataset 'clips'",
    }
    with engine.begin() as connection:
        delete_dataset(connection, other)
    assert reasons(engine, first, second)["a"] == f"selection {second} is from a dropped dataset 'other'"


def test_a_sample_that_is_gone_has_no_known_score(engine: Engine, clips: Dataset) -> None:
    ids = add(engine, clips, {"a": 0.5, "b": 0.4})
    first = make(engine, clips, by="vcs", count=2)
    remove(engine, schema.sample, ids["a"])
    second = make(engine, clips, by="vcs", count=1)
    sentence = f"the sample has been deleted, so its vcs when selection {second} was made is not known"
    assert reasons(engine, first, second) == {"a": sentence}


@pytest.mark.parametrize("by", [["vcs", "evqa"], "duration_s"])
def test_a_combination_and_a_field_have_no_score_of_then(engine: Engine, clips: Dataset, by: Any) -> None:
    ids = add(engine, clips, {"a": 0.5, "b": 0.4})
    # Both have the same duration, and the first draw takes a.
    rule: dict[str, Any] = {"by": by, "count": 1, "per": "system"}
    first = make(engine, clips, **rule)
    for metric in TWO_METRICS:
        set_scores(engine, {ids["b"]: 0.9}, metric=metric)
    with engine.connect() as connection:
        video = connection.scalar(
            schema.sample.select()
            .with_only_columns(schema.sample.c.video_id)
            .where(schema.sample.c.sample_id == ids["b"])
        )
    assert video is not None
    change(engine, schema.video, video, duration_s=9.0)
    second = make(engine, clips, stale="leave_out", **rule)
    assert reasons(engine, first, second) == {
        "a": f"selection {second} has another rule",
        "b": f"selection {first} has another rule",
    }
    third = make(engine, clips, **rule)
    assert reasons(engine, first, third) == {"a": SAME_RULE.format(third), "b": SAME_RULE.format(first)}
    seeded = make(engine, clips, seed=7, **rule)
    assert reasons(engine, first, seeded) == {
        "a": f"selection {seeded} has the same rule with seed 7, not 0",
        "b": f"selection {first} has the same rule with seed 0, not 7",
    }


def test_a_stale_score_may_be_the_reason(engine: Engine, clips: Dataset) -> None:
    ids = add(engine, clips, {"a": 0.5, "b": 0.4, "c": 0.40001})
    first = make(engine, clips, by="vcs", count=2)
    change_text(engine, ids["a"], "another text")
    second = make(engine, clips, by="vcs", count=1, stale="leave_out")
    assert reasons(engine, first, second) == {
        "a": f"its vcs was high enough, but selection {second} excluded it as stale"
    }
    third = make(engine, clips, by="vcs", at_least={"vcs": 0.4}, where="sample != 'c'", stale="leave_out")
    assert reasons(engine, third, second)["b"] == f"its vcs was below the cut-off 0.40001 of selection {second}"


def test_the_one_condition_that_excluded_a_sample_is_the_reason(engine: Engine, clips: Dataset) -> None:
    ids = add(engine, clips, {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6})
    for key, duration in {"a": 9.0, "b": 3.0, "c": 9.0, "d": 9.0}.items():
        with engine.connect() as connection:
            video = connection.scalar(sa.select(schema.sample.c.video_id).where(schema.sample.c.sample_id == ids[key]))
        assert video is not None
        change(engine, schema.video, video, duration_s=duration)
    set_scores(engine, {ids["c"]: 0.1}, metric="evqa")
    everything = make(engine, clips, by="vcs", count=4)
    rule: dict[str, Any] = {"where": "duration_s > 5", "at_least": {"evqa": 0.5}}
    best = make(engine, clips, by="vcs", count=2, **rule)
    unmet = "it does not meet `{}` of selection {}"
    by_where, by_floor = "where: duration_s > 5", "at_least: evqa 0.5"
    assert reasons(engine, everything, best) == {
        "b": f"its vcs was high enough, but {unmet.format(by_where, best)}",
        "c": f"its vcs was high enough, but {unmet.format(by_floor, best)}",
    }
    drawn = make(engine, clips, by="vcs", count=1, choose="random", seed=1, **rule)
    got = reasons(engine, everything, drawn)
    assert got.pop("b") == unmet.format(by_where, drawn)
    assert got.pop("c") == unmet.format(by_floor, drawn)
    assert set(got.values()) == {f"selection {drawn} drew others at random"}
    both = make(engine, clips, by=["vcs", "evqa"], count=2, **rule)
    assert reasons(engine, everything, both)["b"] == unmet.format(by_where, both)
    # The field has changed since, so that nothing excludes the sample now.
    with engine.begin() as connection:
        connection.execute(sa.update(schema.video).values(duration_s=9.0))
    since = f"selection {best} excluded it for a reason that no longer holds: a field or a score has changed since"
    assert reasons(engine, everything, best)["b"] == f"its vcs was high enough, but {since}"


def test_the_size_of_its_stratum_is_the_reason_of_a_sample_below_its_last(engine: Engine, clips: Dataset) -> None:
    video = add_video(engine, clips, "v")
    values = {("a", "x"): 0.9, ("b", "x"): 0.8, ("c", "y"): 0.7, ("d", "y"): 0.6, ("e", "z"): 0.95}
    ids = {key: add_sample(engine, clips, video, key, f"text {key}", system=system) for key, system in values}
    for metric in TWO_METRICS:
        set_scores(engine, {ids[key]: value for (key, _), value in values.items()}, metric=metric)
    everything = make(engine, clips, by="vcs", count=5)
    quotas = make(engine, clips, by="vcs", per="system", quotas={"x": 1, "y": 2, "*": 0})
    high = "its vcs was high enough, but selection {} excluded it by the size of its stratum {}"
    assert reasons(engine, everything, quotas) == {
        "b": high.format(quotas, "'x'"),
        "e": high.format(quotas, "'z'"),
    }
