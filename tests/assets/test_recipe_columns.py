"""Which columns a recipe names, and what becomes of names and values that are not plain."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.selection.select import make_selection
from assets.sources.facts import measure_texts
from db import schema
from db.manifest.datasets import Dataset
from db.schema.views import create_views
from db.selection.freeze import Selection
from db.selection.recipes import SelectionError, parse_recipe
from db.selection.stored_selections import load_selection_rows, require_selection
from tests.conftest import filled_template
from tests.db.builders import (
    TWO_METRICS,
    add_sample,
    add_video,
    change,
    change_text,
    make_dataset,
    ok,
    register,
    set_scores,
    write_fresh,
)

EXTRAS: tuple[dict[str, Any] | None, ...] = (
    {"year": 1, 'a"b; --': 3},
    {"year": None, 'a"b; --': 4},
    None,
    {"year": 4, "it's": "x'); DROP TABLE sample; --"},
)


def fill(engine: Engine) -> Dataset:
    """Four samples, of which s3 is the best, with own fields; their video has the year 2."""
    with engine.begin() as connection:
        create_views(connection, TWO_METRICS)
    dataset = make_dataset(engine)
    video = add_video(engine, dataset, "v")
    change(engine, schema.video, video, extra={"year": 2})
    ids = [add_sample(engine, dataset, video, f"s{n}", f"text {n}", extra=extra) for n, extra in enumerate(EXTRAS)]
    for metric in TWO_METRICS:
        set_scores(engine, {sample: n / 10 for n, sample in enumerate(ids)}, metric=metric)
    return dataset


template = filled_template(fill)


def make(engine: Engine, dataset: Dataset, **said: Any) -> Selection:
    recipe = parse_recipe({"by": "vcs", **said})
    return make_selection(engine, dataset, recipe, lambda: pytest.fail("no text is compared"), lambda _: None)


def keys(engine: Engine, dataset: Dataset, **said: Any) -> list[str]:
    chosen = make(engine, dataset, **said)
    return [row["sample"] for part in load_selection_rows(engine, chosen.selection_id) for row in part]


def extend(engine: Engine, dataset: Dataset, extra: dict[str, Any]) -> None:
    """Give one more sample these own fields."""
    add_sample(engine, dataset, add_video(engine, dataset, "more"), "more", "one more text", extra=extra)


def test_a_metric_that_makes_the_strata_decides(engine: Engine, clips: Dataset) -> None:
    per = {"per": "evqa", "bands": [0.2], "quotas": {"*": 1}}
    chosen = make(engine, clips, **per)
    with engine.connect() as connection:
        stored = require_selection(connection, chosen.selection_id)
        first = connection.scalar(sa.select(schema.sample.c.sample_id).where(schema.sample.c.key == "s0"))
    assert list(stored["spec"]["scorers"]) == ["vcs", "evqa"]
    assert first is not None
    change_text(engine, first, "another text")
    write_fresh(engine, register(engine), [ok(first, 0.0)])
    with pytest.raises(SelectionError, match=r"^1 evqa score of dataset 'clips' is stale, since its inputs"):
        make(engine, clips, **per)
    assert make(engine, clips, stale="leave_out", **per).unjudged == {"evqa": {"stale": 1}}


def test_zero_is_one_stratum_whatever_its_sign(engine: Engine, clips: Dataset) -> None:
    with engine.begin() as connection:
        connection.execute(sa.update(schema.video).values(duration_s=sa.text("CAST('-0' AS double precision)")))
    extend(engine, clips, {"year": 0})
    with engine.begin() as connection:
        of_more = schema.video.c.key == "more"
        connection.execute(sa.update(schema.video).where(of_more).values(duration_s=0.0))
        more = connection.scalar(sa.select(schema.sample.c.sample_id).where(schema.sample.c.key == "more"))
    assert more is not None
    set_scores(engine, {more: 0.9})
    assert keys(engine, clips, per="duration_s", quotas={"0": 2}) == ["more", "s3"]


def test_what_the_file_is_filters_and_makes_strata(engine: Engine, clips: Dataset) -> None:
    extend(engine, clips, {"year": 0})
    with engine.begin() as connection:
        known = {"width": 640, "height": 360, "fps": 25.0, "codec": "h264", "n_frames": 100}
        connection.execute(sa.update(schema.video).values(**known))
        other = {"width": 1920, "codec": "av1", "n_frames": 300}
        connection.execute(sa.update(schema.video).where(schema.video.c.key == "more").values(**other))
        more = connection.scalar(sa.select(schema.sample.c.sample_id).where(schema.sample.c.key == "more"))
    assert more is not None
    set_scores(engine, {more: 0.9})
    assert keys(engine, clips, where="width > 640 and height = 360 and fps = 25", keep=1.0) == ["more"]
    assert keys(engine, clips, per="codec", quotas={"av1": 1, "h264": 1}) == ["more", "s3"]
    banded = {"100 to 300": 1, "300 and more": 1}
    assert keys(engine, clips, per="n_frames", bands=[100, 300], quotas=banded) == ["more", "s3"]


def test_facts_about_texts_filter_rank_and_make_strata(engine: Engine, clips: Dataset) -> None:
    extend(engine, clips, {"year": 0})  # s0 to s3 have two words, this one three
    with engine.begin() as connection:
        more = connection.scalar(sa.select(schema.sample.c.sample_id).where(schema.sample.c.key == "more"))
    assert more is not None
    set_scores(engine, {more: 0.05})
    with pytest.raises(SelectionError, match="passes 'words > 0': loosen the condition"):
        make(engine, clips, where="words > 0")
    for shard in range(clips.n_shards):
        measure_texts(engine, clips, shard, lambda _: None)
    assert keys(engine, clips, where="words > 2 and repetition = 0", keep=1.0) == ["more"]
    assert keys(engine, clips, by="words", count=1) == ["more"]
    # A video lasts four seconds.
    banded = {"below 0.6": 1, "0.6 and more": 1}
    assert keys(engine, clips, per="words_per_second", bands=[0.6], quotas=banded) == ["s3", "more"]


def test_words_within_texts_are_no_columns(engine: Engine, clips: Dataset) -> None:
    assert keys(engine, clips, where="text != 'evqa of extra_field and rating_x'", keep=0.5) == ["s3", "s2"]
    chosen = make(engine, clips, where="text != 'evqa'", keep=0.5)
    with engine.connect() as connection:
        stored = require_selection(connection, chosen.selection_id)
    assert "evqa" not in str(stored["spec"]["scorer"])
    assert "scorers" not in stored["spec"]


def test_a_field_that_the_sample_has_not_or_has_as_null_is_that_of_its_video(engine: Engine, clips: Dataset) -> None:
    assert keys(engine, clips, by="extra_year", keep=1.0) == ["s3", "s1", "s2", "s0"]
    assert keys(engine, clips, where="extra_year = 2", keep=1.0) == ["s2", "s1"]


def test_names_with_quotes_are_names(engine: Engine, clips: Dataset) -> None:
    name = 'extra_a"b; --'
    assert keys(engine, clips, where='"extra_a""b; --" >= 3', keep=1.0) == ["s1", "s0"]
    assert keys(engine, clips, by=name, keep=1.0) == ["s1", "s0"]
    assert keys(engine, clips, at_least={name: 4}) == ["s1"]
    assert keys(engine, clips, per=name, quotas={"3": 1}) == ["s0"]
    injected = "x'); DROP TABLE sample; --"
    assert keys(engine, clips, per="extra_it's", quotas={injected: 1}) == ["s3"]
    with pytest.raises(SelectionError, match="no eligible sample has extra_it's 'x\"; DROP'"):
        make(engine, clips, per="extra_it's", quotas={'x"; DROP': 1})
    with pytest.raises(SelectionError, match="is not an own field of the manifest"):
        make(engine, clips, by="extra_x') ; DROP TABLE sample; --")
    with pytest.raises(SelectionError, match="is not an aspect that people rated"):
        make(engine, clips, at_least={"rating_x' OR 1=1 --": 1})


def test_names_that_differ_by_case_alone_are_named(engine: Engine, clips: Dataset) -> None:
    extend(engine, clips, {"Year": 5})
    for said in ({"where": "extra_year = 2"}, {"by": "extra_Year"}, {"per": "extra_year"}):
        with pytest.raises(SelectionError, match="extra_Year and extra_year differ only in case"):
            make(engine, clips, **said)


def test_a_number_too_large_to_rank_by_is_named(engine: Engine, clips: Dataset) -> None:
    extend(engine, clips, {"year": 10**400})
    with pytest.raises(SelectionError, match=r"extra_year holds values of type number, number beyond 1.7e308"):
        make(engine, clips, where="extra_year > 1")
