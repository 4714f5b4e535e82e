"""Pages, counts, histograms and the SQL of a look through a dataset, against plain Python over the same values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db.evidence.embeddings import text_sha256
from db.evidence.facts import store_text_facts
from db.manifest.datasets import Dataset
from db.reports.histograms import Histogram, ValueCount, count_values
from db.reports.pages import MOST_COUNTED, count_samples, find_neighbours, list_video_samples, load_page
from db.reports.sample_query import (
    QueryContext,
    SampleQuery,
    list_suggested_columns,
    list_telling_columns,
    prepare_query,
)
from db.reports.sample_query_sql import build_sql
from db.schema import rating
from db.schema.facts import TEXT_FACTS
from db.selection.conditions import FilterError
from tests.conftest import filled_template
from tests.db.builders import add_sample, add_video, change_text, make_dataset, set_scores

SYSTEMS = ["alpha", "o'brien <b>", "gamma"]
N_VIDEOS = 9
Row = dict[str, Any]


def fill(engine: Engine) -> tuple[Dataset, dict[int, Row]]:
    """Captions with many equal values, none for every seventh, one stale; and another dataset with the same scorer."""
    dataset, other = make_dataset(engine, "clips", 2), make_dataset(engine, "other")
    rows: dict[int, Row] = {}
    for number in range(N_VIDEOS):
        video = add_video(engine, dataset, f"v{number}", duration_s=1.5 * number if number else None)
        for place, system in enumerate(SYSTEMS):
            key, mood = f"{number}_{place}", ("calm", "50%")[number % 2]
            text = f"a dog {'runs ' * (place + 1)}"
            i = add_sample(engine, dataset, video, key, text, system=system, extra={"mood": mood, "n": place})
            vcs = None if (number * 3 + place) % 7 == 6 else (number * 5 + place) % 8 / 10
            rows[i] = {"vcs": vcs, "duration_s": 1.5 * number or None, "system": system, "n_characters": len(text)}
            rows[i] |= {"extra_mood": mood, "extra_n": float(place), "rating_fun": float(place) if place else None}
            rows[i] |= {"video_id": video, "sample": key}
    foreign = add_sample(engine, other, add_video(engine, other, "v"), "foreign")
    set_scores(engine, {foreign: 0.35, **{i: row["vcs"] for i, row in rows.items()}})
    with engine.begin() as connection:
        for i, row in rows.items():
            if row["rating_fun"] is not None:
                values = {"sample_id": i, "rater": "ann", "aspect": "fun", "value": row["rating_fun"]}
                connection.execute(rating.insert().values(**values, row_sha256=b"row"))
    stale = next(i for i, row in rows.items() if row["vcs"] is not None)
    change_text(engine, stale, text := "a cat")
    rows[stale] |= {"vcs": None, "n_characters": len(text)}
    return dataset, rows


template = filled_template(fill)


@contextmanager
def seen(engine: Engine, sight: SampleQuery) -> Iterator[QueryContext]:
    with engine.connect() as connection, connection.begin():
        yield prepare_query(connection, sight)


def all_pages(on: QueryContext, n: int = 4) -> list[Row]:
    rows, after = load_page(on, None, n)
    while after is not None:
        more, after = load_page(on, after, n)
        rows += more
    return rows


def expected(rows: dict[int, Row], sort: str | None, passes: Callable[[Row], bool], *, descending: bool) -> list[int]:
    chosen = [i for i in sorted(rows) if passes(rows[i])]
    if sort is None:
        return chosen
    known = [i for i in chosen if rows[i][sort] is not None]
    known.sort(key=lambda i: rows[i][sort], reverse=descending)
    if descending:  # sort keeps the order of equal values, and `reverse` does too
        assert known == sorted(known, key=lambda i: rows[i][sort], reverse=True)
    return known + [i for i in chosen if rows[i][sort] is None]


WAYS: list[tuple[tuple[str, ...], Callable[[Row], bool]]] = [
    ((), lambda row: True),
    (("vcs >= 0.3",), lambda row: (row["vcs"] or -inf) >= 0.3),
    (
        ("system = 'o''brien <b>' or vcs is null", "n_characters > 12"),
        lambda row: row["n_characters"] > 12 and (row["system"] == SYSTEMS[1] or row["vcs"] is None),
    ),
    (("extra_mood like '50%'", "extra_n < 2"), lambda row: row["extra_mood"] == "50%" and row["extra_n"] < 2),
    (("rating_fun = 2",), lambda row: row["rating_fun"] == 2),
]


@pytest.mark.parametrize("sort", [None, "vcs", "duration_s", "system", "n_characters", "extra_n", "rating_fun"])
@pytest.mark.parametrize("descending", [True, False])
def test_pages_hold_each_sample_once_in_order(
    module_engine: Engine, clips: tuple[Dataset, dict[int, Row]], sort: str | None, descending: bool
) -> None:
    dataset, rows = clips
    for conditions, passes in WAYS:
        with seen(module_engine, SampleQuery(dataset, conditions, sort, descending, ("vcs", "extra_mood"))) as on:
            found = all_pages(on)
            wanted = expected(rows, sort, passes, descending=descending)
            assert [row["sample_id"] for row in found] == wanted, conditions
            assert [row["vcs"] for row in found] == [rows[i]["vcs"] for i in wanted]
            assert [row["extra_mood"] for row in found] == [rows[i]["extra_mood"] for i in wanted]
            assert count_samples(on) == len(wanted) <= MOST_COUNTED


@pytest.mark.parametrize("sort", [None, "vcs", "system", "extra_n"])
@pytest.mark.parametrize("descending", [True, False])
def test_neighbours_are_those_of_the_pages(
    module_engine: Engine, clips: tuple[Dataset, dict[int, Row]], sort: str | None, descending: bool
) -> None:
    dataset, rows = clips
    for conditions, passes in WAYS:
        # A sample that the conditions leave out has neighbours too: those of the place that it would have.
        whole = expected(rows, sort, lambda row: True, descending=descending)
        with seen(module_engine, SampleQuery(dataset, conditions, sort, descending)) as on:
            for place, i in list(enumerate(whole))[::4]:
                before = [j for j in whole[:place] if passes(rows[j])]
                after = [j for j in whole[place + 1 :] if passes(rows[j])]
                wanted = [*[None, None, *before][-2:], i, next(iter(after), None)]
                found = find_neighbours(on, i)
                assert [end and end.sample_id for end in found] == wanted, (conditions, i)
                assert found.own.value == (None if sort is None else rows[i][sort])


@pytest.mark.parametrize("sort", [None, "vcs", "system", "extra_n"])
def test_the_sql_gives_the_same_samples_in_the_same_order(
    module_engine: Engine, clips: tuple[Dataset, dict[int, Row]], sort: str | None
) -> None:
    dataset, rows = clips
    for conditions, passes in WAYS:
        with seen(module_engine, SampleQuery(dataset, conditions, sort, False, ("vcs", "extra_mood"))) as on:
            found = on.connection.execute(sa.text(build_sql(on).replace(":", r"\:"))).mappings().all()
        wanted = expected(rows, sort, passes, descending=False)
        assert [row["sample"] for row in found] == [rows[i]["sample"] for i in wanted], conditions
        assert [row["vcs"] for row in found] == [rows[i]["vcs"] for i in wanted]


def test_a_stale_score_is_shown_as_one_and_has_no_value(
    module_engine: Engine, clips: tuple[Dataset, dict[int, Row]]
) -> None:
    with seen(module_engine, SampleQuery(clips[0], ("vcs_status = 'stale'",), None, True, ("vcs",))) as on:
        (row,) = all_pages(on)
    assert (row["vcs"], row["vcs_status"], row["text"]) == (None, "stale", "a cat")


@pytest.mark.parametrize("name", ["vcs", "duration_s", "extra_n", "n_characters"])
def test_bins_have_round_limits_and_count_every_value_once(
    module_engine: Engine, clips: tuple[Dataset, dict[int, Row]], name: str
) -> None:
    dataset, rows = clips
    conditions = (f"{name} >= 0.3 and {name} < 6", "system <> 'alpha'")
    with seen(module_engine, SampleQuery(dataset, conditions)) as on:
        found = count_values(on, name)
    assert isinstance(found, Histogram)
    values = [row[name] for row in rows.values() if row["system"] != "alpha" and row[name] is not None]
    assert (found.low, found.high, sum(found.counts)) == (min(values), max(values), len(values))
    assert sum(found.kept) == sum(0.3 <= value < 6 for value in values)
    counts = Counter(round(value / found.step + 1e-9, 6) // 1 for value in values)
    assert list(found.counts) == [counts[found.first + place] for place in range(len(found.counts))]
    assert f"{found.step:.0e}"[0] in "125"


def test_equal_values_share_a_bin_and_none_has_none(
    module_engine: Engine, clips: tuple[Dataset, dict[int, Row]]
) -> None:
    with seen(module_engine, SampleQuery(clips[0], ("extra_n = 2",))) as on:
        nothing, constant = count_values(on, "width"), count_values(on, "rating_fun")
    assert isinstance(nothing, Histogram)
    assert isinstance(constant, Histogram)
    assert (nothing.counts, nothing.kept) == ((), ())
    assert constant[:3] == (2.0, 2.0, 0.1)
    assert (constant.first, constant.counts) == (20, (N_VIDEOS,))


def test_values_that_are_no_numbers_are_listed_by_frequency(
    module_engine: Engine, clips: tuple[Dataset, dict[int, Row]]
) -> None:
    dataset, rows = clips
    with seen(module_engine, SampleQuery(dataset, ("system = 'gamma'", "n_characters > 12"))) as on:
        found = count_values(on, "system")
    longer = Counter(row["system"] for row in rows.values() if row["n_characters"] > 12)
    wanted = [ValueCount(system, longer[system], longer[system] * (system == "gamma")) for system in longer]
    assert found == sorted(wanted, key=lambda each: (-each.n, each.value))


def test_columns_are_suggested_with_own_fields_and_aspects(
    module_engine: Engine, clips: tuple[Dataset, dict[int, Row]]
) -> None:
    with seen(module_engine, SampleQuery(clips[0])) as on:
        names = list_suggested_columns(on)
        assert {"vcs", "vcs_status", "system", "extra_mood", "extra_n", "rating_fun", "n_characters"} <= set(names)
        assert list_video_samples(on, next(iter(clips[1].values()))["video_id"]) == [
            i for _, i in sorted((row["system"], i) for i, row in list(clips[1].items())[:3])
        ]


def test_columns_with_values_come_the_most_telling_first(engine: Engine, clips: tuple[Dataset, dict[int, Row]]) -> None:
    facts = {name: 0.5 for name in TEXT_FACTS if name not in ("name_share", "language")} | {"name_share": None}
    texts = {text_sha256("a cat"): {**facts, "words": 2, "sentences": 1, "language": "en"}}
    texts[text_sha256("a dog runs ")] = {**texts[text_sha256("a cat")], "words": 3, "language": None}
    store_text_facts(engine, "1", texts)
    with seen(engine, SampleQuery(clips[0])) as on:
        names = list_telling_columns(on)
    # Metrics, ratings, facts that vary, own fields, other columns; then what is the same for all.
    assert names[:3] == ["vcs", "rating_fun", "words"]
    others = ["duration_s", "extra_mood", "extra_n", "sample", "shard", "system", "text", "video", "vcs_status"]
    assert set(others) <= set(names)
    assert names.index("extra_mood") < names.index("duration_s") < names.index("vcs_status")
    constant = ["sentences", "repetition", "boilerplate", "digit_share", "language", "kind", "vcs_models"]
    assert [name for name in names if name in constant] == constant
    assert names.index("sentences") > max(map(names.index, others))
    assert not {"name_share", "motion", "evqa", "evqa_status", "cosine", "width", "licence"} & set(names)


@pytest.mark.parametrize(
    ("sight", "said"),
    [
        ({"conditions": ("vcs >",)}, "not a complete condition"),
        ({"sort": "vsc"}, "unknown name 'vsc', did you mean 'vcs'"),
        ({"shown": ("no_such",)}, "unknown name 'no_such'"),
    ],
)
def test_what_does_not_parse_is_refused(
    module_engine: Engine, clips: tuple[Dataset, dict[int, Row]], sight: dict[str, Any], said: str
) -> None:
    with seen(module_engine, replace(SampleQuery(clips[0]), **sight)) as on, pytest.raises(FilterError, match=said):
        load_page(on, None, 4)


def test_values_that_never_come_again_are_not_counted(
    module_engine: Engine, clips: tuple[Dataset, dict[int, Row]]
) -> None:
    with seen(module_engine, SampleQuery(clips[0])) as on, pytest.raises(FilterError, match="are unique"):
        count_values(on, "sample")
