"""Recipes on a real database: what each field takes, by hand, and one sentence for what cannot be."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.selection.recipe_file import read_recipe
from assets.selection.select import make_selection, preview_selection
from db import schema
from db.manifest.datasets import Dataset
from db.schema.views import create_views
from db.selection.candidates import NothingToSelect
from db.selection.conditions import FilterError
from db.selection.diff import compare_selections
from db.selection.freeze import Selection
from db.selection.recipes import SelectionError, SizeMissing, convert_rule, parse_recipe
from db.selection.stored_selections import load_selection_rows, require_selection
from metrics_core.protocols import ModelIdentity
from tests.db.builders import (
    TWO_METRICS,
    activate,
    add_sample,
    add_video,
    keypoint_threshold_row,
    make_dataset,
    set_scores,
    store_label_thresholds,
    store_threshold,
)
from tests.db.freezing import never

# key: system, VCS, EVQAScore, seconds of its video, year of its manifest row, the direction of its text's vector
SAMPLES: dict[str, tuple[str, float | None, float | None, float | None, int | None, float]] = {
    "a": ("long", 0.9, 0.1, 5.0, 2001, 0.0),
    "b": ("long", 0.8, 0.2, 15.0, 2002, 1.0),
    "c": ("long", 0.7, 0.9, 15.0, None, 40.0),
    "d": ("brief", 0.6, 0.8, 40.0, 2004, 41.0),
    "e": ("brief", 0.5, 0.7, 40.0, 2005, 90.0),
    "f": ("brief", 0.4, None, None, 2006, 180.0),
    "g": ("mute", None, 0.5, 5.0, 2007, 0.5),
}


class Compass:
    """An encoder that turns the number at the end of a text, in degrees, into a direction."""

    identity = ModelIdentity("compass", "1", {})

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.asked.extend(texts)
        angles = np.radians([float(text.rsplit(" ", 1)[1]) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


@pytest.fixture(scope="module")
def clips(module_engine: Engine) -> Dataset:
    engine = module_engine
    with engine.begin() as connection:
        create_views(connection, TWO_METRICS)
    dataset = make_dataset(engine)
    ids: dict[str, int] = {}
    for key, (system, _, _, seconds, year, degrees) in SAMPLES.items():
        video = add_video(engine, dataset, f"video {key}")
        with engine.begin() as connection:
            of_video = schema.video.c.video_id == video
            connection.execute(sa.update(schema.video).where(of_video).values(duration_s=seconds))
        extra = {"Year": year, "site": f"site {len(key)}"} if year else None
        ids[key] = add_sample(engine, dataset, video, key, f"text {key} {degrees}", system=system, extra=extra)
        with engine.begin() as connection:
            for rater, value in (("r1", float(ord(key))), ("r2", float(ord(key) + 2))):
                rating = {"sample_id": ids[key], "rater": rater, "aspect": "overall", "value": value}
                connection.execute(schema.rating.insert().values(**rating, row_sha256=b"row"))
    set_scores(engine, {ids[key]: row[1] for key, row in SAMPLES.items()})
    set_scores(engine, {ids[key]: row[2] for key, row in SAMPLES.items()}, metric="evqa")
    return dataset


@pytest.fixture
def encoder() -> Compass:
    return Compass()


def make(engine: Engine, dataset: Dataset, encoder: Any = None, **said: Any) -> Selection:
    return make_selection(engine, dataset, parse_recipe(said), (lambda: encoder) if encoder else never, lambda _: None)


def keys(engine: Engine, chosen: Selection) -> str:
    return "".join(row["sample"] for part in load_selection_rows(engine, chosen.selection_id) for row in part)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"by": "vcs", "count": 2}, "ab"),
        ({"by": "vcs", "at_least": {"vcs": 0.7}}, "abc"),
        ({"by": "vcs", "at_least": {"vcs": 0.5, "evqa": 0.7}}, "cde"),
        ({"by": "vcs", "at_least": {"vcs": 0.5}, "count": 1}, "a"),
        ({"by": "evqa", "keep": 0.5}, "cde"),
        # Ranks of vcs among a to e are 5 4 3 2 1, those of evqa 1 2 5 4 3: their means are 3 3 4 3 2.
        ({"by": ["vcs", "evqa"], "count": 5}, "cabde"),
        ({"by": {"vcs": 3, "evqa": 1}, "count": 5}, "abcde"),
        ({"by": ["vcs", "evqa"], "combine": "values", "count": 3}, "cde"),
        ({"by": "vcs", "keep": 0.34, "per": "system"}, "ad"),
        # One and a half places each: of equal remainders the first stratum, brief, gets the place.
        ({"by": "vcs", "count": 3, "per": "system"}, "ade"),
        ({"by": "vcs", "per": "system", "quotas": {"brief": 2}}, "de"),
        ({"by": "vcs", "per": "system", "quotas": {"brief": 2, "*": 1}}, "ade"),
        ({"by": "vcs", "per": "video", "quotas": {"*": 1}}, "abcdef"),
        ({"by": "vcs", "per": "duration_s", "bands": [10, 30], "quotas": {"*": 1}}, "abdf"),
        ({"by": "vcs", "per": "duration_s", "bands": [10, 30], "quotas": {"10 to 30": 2, "none": 1}}, "bcf"),
        # Limits that six digits would not tell apart.
        (
            {"by": "vcs", "per": "duration_s", "bands": [5.0000001, 5.0000002], "quotas": {"below 5.0000001": 1}},
            "a",
        ),
        ({"by": "vcs", "where": "extra_year >= 2004", "keep": 1.0}, "def"),
        ({"by": "vcs", "where": "extra_Year is null", "keep": 1.0}, "c"),
        ({"by": "vcs", "where": "extra_site = 'site 1' and not extra_year = 2001", "keep": 1.0}, "bdef"),
        ({"by": "extra_Year", "count": 2}, "gf"),
        # "text f 180.0" is the longest; those of c, d and e are equally long.
        ({"by": "n_characters", "where": "n_characters > 10", "count": 4}, "fcde"),
        ({"by": "rating_overall", "count": 2}, "gf"),
        ({"by": "vcs", "where": "rating_overall > 99.5", "keep": 1.0}, "cdef"),
        ({"by": "vcs", "at_least": {"evqa": "keep 0.25"}}, "cd"),
    ],
)
def test_what_a_recipe_takes(module_engine: Engine, clips: Dataset, said: Mapping[str, Any], expected: str) -> None:
    scorer_id = activate(module_engine, "evqa")
    with module_engine.begin() as connection:
        where = {"scorer_id": scorer_id, "dataset_id": clips.dataset_id}
        store_threshold(connection, **where, method="quantile", objective="keep 0.25", value=0.75, n=6)
        # A cut on probabilities of keypoints is none on scores.
        store_label_thresholds(connection, **where, rows=[keypoint_threshold_row("x", 0.1, 6, 3)])
    chosen = make(module_engine, clips, **said)
    assert keys(module_engine, chosen) == expected
    assert (chosen.n, chosen.is_new) == (len(expected), True)
    again = make(module_engine, clips, **said)
    assert (again.selection_id, again.is_new) == (chosen.selection_id, False)
    with module_engine.connect() as connection:
        stored = require_selection(connection, chosen.selection_id)
    # What is stored makes it again.
    once_more = make(module_engine, clips, **convert_rule(stored["spec"]))
    assert once_more.score_hash == chosen.score_hash
    assert (once_more.selection_id == chosen.selection_id) == ("cuts" not in stored["spec"])


def test_every_scorer_that_decides_is_named(module_engine: Engine, clips: Dataset) -> None:
    for said in ({"where": "EVQA > 0.1"}, {"at_least": {"evqa": 0.1}}, {"by": {"vcs": 1, "evqa": 1}}):
        chosen = make(module_engine, clips, **{"by": "vcs", "keep": 1.0, **said})
        with module_engine.connect() as connection:
            stored = require_selection(connection, chosen.selection_id)
        assert list(stored["spec"]["scorers"]) == ["vcs", "evqa"]


def test_near_duplicates_go_and_the_better_stays(module_engine: Engine, clips: Dataset, encoder: Compass) -> None:
    chosen = make(module_engine, clips, encoder, by="vcs", dedupe=0.99, keep=1.0)
    assert keys(module_engine, chosen) == "acef"
    assert (chosen.n_eligible, chosen.n_duplicates) == (6, 2)
    assert sorted(encoder.asked) == sorted(f"text {key} {row[5]}" for key, row in SAMPLES.items() if key != "g")
    worst_first = make(module_engine, clips, encoder, by="extra_Year", dedupe=0.99, keep=1.0)
    assert keys(module_engine, worst_first) == "gfed"
    assert encoder.asked[6:] == ["text g 0.5"], "every text is embedded once"
    with module_engine.connect() as connection:
        stored = require_selection(connection, chosen.selection_id)
    assert stored["spec"]["encoder"] == encoder.identity.as_dict()


def test_a_text_without_a_direction_is_named(module_engine: Engine, clips: Dataset) -> None:
    class Speechless(Compass):
        identity = ModelIdentity("speechless", "1", {})

        def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
            return super().encode(texts) * [[text != "text d 41.0"] for text in texts]

    sentence = "sample 'd' cannot be compared, because speechless gives its text a zero vector: leave"
    for said in ({"dedupe": 0.9, "keep": 0.5}, {"choose": "diverse", "count": 2}):
        with pytest.raises(SelectionError, match=sentence):
            make(module_engine, clips, Speechless(), by="vcs", **said)
    chosen = make(module_engine, clips, Speechless(), by="vcs", dedupe=0.9, keep=1.0, where="sample != 'd'")
    assert keys(module_engine, chosen) == "acef"


def test_a_diverse_subset_takes_the_farthest(module_engine: Engine, clips: Dataset, encoder: Compass) -> None:
    assert keys(module_engine, make(module_engine, clips, encoder, by="vcs", choose="diverse", count=3)) == "afe"
    in_strata = make(module_engine, clips, encoder, by="vcs", choose="diverse", per="system", quotas={"*": 2})
    # The first choices of the strata brief and long, then their second ones.
    assert keys(module_engine, in_strata) == "dafc"


def test_a_random_choice_depends_on_its_seed_alone(module_engine: Engine, clips: Dataset) -> None:
    found = {
        seed: keys(module_engine, make(module_engine, clips, by="vcs", choose="random", seed=seed, count=3))
        for seed in range(12)
    }
    assert len(set(found.values())) > 5
    assert {key for chosen in found.values() for key in chosen} == set("abcdef")
    for seed in range(5):
        more = make(module_engine, clips, by="evqa", choose="random", seed=seed, keep=1.0)
        order = keys(module_engine, more)
        assert [key for key in order if key in found[seed]] == [key for key in found[seed] if key in order]
    per_system = make(module_engine, clips, by="vcs", choose="random", per="system", quotas={"long": 1, "brief": 2})
    systems = sorted(SAMPLES[key][0] for key in keys(module_engine, per_system))
    assert systems == ["brief", "brief", "long"]


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"count": 7}, "the recipe asks for 7, but only 6 samples can be chosen: lower count, or loosen"),
        ({"per": "system", "quotas": {"brief": 4}}, "the quota of system 'brief' is 4, but only 3 samples can"),
        (
            {"per": "system", "quotas": {"breif": 1}},
            "no eligible sample has system 'breif', .* did you mean 'brief'",
        ),
        ({"per": "system", "quotas": {"brief": 0}}, "the recipe selects no sample: raise its count, share or quotas"),
        ({"per": "sytem"}, "the recipe's per: there is no column 'sytem', did you mean 'system'?"),
        ({"per": "system", "bands": [1.0]}, "the recipe's per: column system holds no numbers: choose"),
        ({"by": "extra_site"}, r"column extra_site holds no numbers \(own fields from a CSV are text"),
        ({"at_least": {"evqa": "f1"}}, "the threshold 'f1' of evqa, which dataset 'clips' does not have for kind"),
        (
            {"at_least": {"evkqa": "f1"}},
            "the recipe's at_least: there is no column 'evkqa', did you mean 'evqa'?",
        ),
        (
            {"per": "system", "quotas": {"x": 1}},
            "has system 'x', for which there is a quota: eligible samples have 'brief', 'long'",
        ),
        (
            {"at_least": {"vcs": 2.0}},
            "no sample of dataset 'clips' has a vcs score and passes vcs >= 2.0: loosen the condition",
        ),
        (
            {"where": "extra_colour = 'red'"},
            "'extra_colour' is not an own field .*: choose one of extra_Year, extra_site",
        ),
        (
            {"where": "rating_style > 1"},
            "'rating_style' is not an aspect that people rated: choose one of rating_overall",
        ),
        ({"count": 2**63 - 1}, "the recipe asks for 9,223,372,036,854,775,807, but only 6 samples"),
        ({"where": ""}, "the filter is empty: give one condition"),
        ({"quotas": {"brief": 1}}, "the recipe: quotas are given without the column of their values: give per"),
        ({"per": "system", "quotas": {"brief": 1}, "count": 2}, "quotas set the size, and count is given too"),
        ({"keep": 0.5, "count": 2}, "keep and count are both given: leave one out"),
        ({"bands": [10]}, "bands are given without the column that they divide: give per"),
        ({"per": "duration_s", "bands": [30, 10]}, "bands must rise"),
        ({"dedupe": 1.5}, "the recipe's dedupe is '1.5': give a cosine above 0 and at most 1"),
        ({"by": {"vcs": -1}}, "the recipe's by is .*: give a metric, or several with their weights from 1e-6 to 1e6"),
        ({"choose": "worst"}, "the recipe's choose is 'worst': give best, random or diverse"),
        ({"quota": {"brief": 1}}, "the recipe has no field 'quota', did you mean 'quotas'"),
    ],
)
def test_what_a_recipe_cannot_take_is_one_sentence(
    module_engine: Engine, clips: Dataset, said: Mapping[str, Any], sentence: str
) -> None:
    with module_engine.connect() as connection:
        before = connection.scalar(sa.select(sa.func.count()).select_from(schema.selection))
    with pytest.raises((SelectionError, FilterError), match=sentence):
        make(module_engine, clips, **said)
    with module_engine.connect() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(schema.selection)) == before


def test_scores_without_a_value_are_no_scores_that_are_missing(module_engine: Engine) -> None:
    silent = make_dataset(module_engine, "silent")
    video = add_video(module_engine, silent, "v")
    sample = add_sample(module_engine, silent, video, "s", "text")
    with pytest.raises(SelectionError, match="has a vcs score: run reelsieve score --dataset silent first"):
        make(module_engine, silent, by="vcs")
    with pytest.raises(SelectionError, match="has a motion value: run reelsieve facts --dataset silent first"):
        make(module_engine, silent, by="motion")
    both = "vcs and motion score: run reelsieve score --dataset silent and run reelsieve facts --dataset silent first"
    with pytest.raises(SelectionError, match=both):
        make(module_engine, silent, by={"vcs": 1.0, "motion": 1.0})
    set_scores(module_engine, {sample: None})
    with pytest.raises(
        SelectionError,
        match=r"has a vcs score \(vcs: 1 sample undefined\): see the reasons and remedies in column error of view",
    ):
        make(module_engine, silent, by="vcs")


def test_a_field_of_several_types_is_named(module_engine: Engine) -> None:
    mixed = make_dataset(module_engine, "mixed")
    video = add_video(module_engine, mixed, "v")
    for number, value in enumerate((1, "one")):
        add_sample(module_engine, mixed, video, f"s{number}", f"text {number}", extra={"year": value})
    with pytest.raises(SelectionError, match="extra_year holds values of type number, string"):
        make(module_engine, mixed, where="extra_year > 1")


def test_a_preview_stands_beside_a_random_choice_and_freezes_nothing(module_engine: Engine, clips: Dataset) -> None:
    recipe = parse_recipe({"by": "vcs", "count": 2, "per": "system"})
    with module_engine.connect() as connection:
        before = connection.scalar(sa.select(sa.func.count()).select_from(schema.selection))
    found = preview_selection(module_engine, clips, recipe, never, never)
    assert [tuple(row.values()) for row in found.systems] == [("brief", 3, 1), ("long", 3, 1)]
    by_metric = {row["metric"]: row for row in found.metrics}
    assert by_metric["vcs"]["chosen"] == pytest.approx(0.75)
    assert by_metric["vcs"]["random"] == pytest.approx(0.65)
    # The mean of 2 of 6 equally likely values varies by sigma / sqrt(2) * sqrt(4 / 5).
    sigma = np.std([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    assert by_metric["vcs"]["margin"] == pytest.approx(1.96 * sigma / np.sqrt(2) * np.sqrt(4 / 5))
    assert by_metric["evqa"]["random"] == pytest.approx(np.mean([0.1, 0.2, 0.9, 0.8, 0.7]))
    # Of the first three, which are f, e and d, two have an evqa: so the margin is that of two of five.
    without = parse_recipe({"by": "rating_overall", "where": "vcs > 0", "count": 3})
    previewed = preview_selection(module_engine, clips, without, never, never)
    shift = next(row for row in previewed.metrics if row["metric"] == "evqa")
    assert shift["chosen"] == pytest.approx((0.8 + 0.7) / 2)
    sigma = np.std([0.1, 0.2, 0.9, 0.8, 0.7])
    assert shift["margin"] == pytest.approx(1.96 * sigma / np.sqrt(2) * np.sqrt(3 / 4))
    with module_engine.connect() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(schema.selection)) == before
    # Of the best four by evqa three have a vcs value, and so have five of the eligible six.
    four = parse_recipe({"by": "evqa", "count": 4})
    found = preview_selection(module_engine, clips, four, never, never)
    of_vcs = {row["metric"]: row for row in found.metrics}["vcs"]
    assert of_vcs["n"] == 3
    assert of_vcs["chosen"] == pytest.approx(0.6)
    assert of_vcs["random"] == pytest.approx(0.7)
    sigma = np.std([0.9, 0.8, 0.7, 0.6, 0.5])
    assert of_vcs["margin"] == pytest.approx(1.96 * sigma / np.sqrt(3) * np.sqrt(2 / 4))
    summary = preview_selection(module_engine, clips, parse_recipe({"by": "vcs", "keep": 0.5}), never, never).summary
    assert (summary.n_eligible, summary.n, summary.cutoff) == (6, 3, 0.7)
    assert (summary.n_tied, summary.n_tied_left) == (1, 0)


def test_a_diff_says_who_left_who_came_and_why(engine: Engine) -> None:
    with engine.begin() as connection:
        create_views(connection, TWO_METRICS)
    dataset = make_dataset(engine)
    video = add_video(engine, dataset, "v")
    ids = {key: add_sample(engine, dataset, video, key, f"text {key}") for key in "abcd"}
    set_scores(engine, {ids[key]: value for key, value in zip("abc", (0.9, 0.8, 0.2), strict=True)})
    first = make(engine, dataset, by="vcs", count=2)
    set_scores(engine, {ids["a"]: 0.3, ids["d"]: 0.7, ids["c"]: 0.95})
    second = make(engine, dataset, by="vcs", count=2)
    third = make(engine, dataset, by=["vcs", "duration_s"], count=1)
    with engine.connect() as connection:
        found = list(compare_selections(connection, first.selection_id, second.selection_id))
        across = list(compare_selections(connection, second.selection_id, third.selection_id))
        with pytest.raises(SelectionError, match="there is no selection 99: run reelsieve selections to list them"):
            list(compare_selections(connection, first.selection_id, 99))
    assert [(row.change, row.sample, row.rank, row.value) for row in found] == [
        ("went out", "a", 1, 0.9),
        ("came in", "c", 1, 0.95),
    ]
    assert found[0].reason == f"its vcs was below the cut-off 0.8 of selection {second.selection_id}"
    assert found[1].reason == f"its vcs was below the cut-off 0.8 of selection {first.selection_id}"
    assert [row.value_then for row in found] == [0.3, 0.2]
    assert [row.reason for row in across] == [f"selection {third.selection_id} has another rule"]
    drawn = make(engine, dataset, by="vcs", choose="random", seed=3, count=2)
    with engine.connect() as connection:
        went = list(compare_selections(connection, second.selection_id, drawn.selection_id))
    sentence = f"selection {drawn.selection_id} drew others at random"
    assert {row.reason for row in went if row.change == "went out"} == {sentence}


def test_ties_are_drawn_within_each_stratum(module_engine: Engine, clips: Dataset) -> None:
    """Of d, e and f, all of `brief`, two are equally long; c is the only one of `long`."""
    rule = {"by": "n_characters", "per": "system", "quotas": {"brief": 2, "long": 1}, "where": "n_characters > 10"}
    drawn = set()
    for seed in range(8):
        chosen = make(module_engine, clips, **rule, seed=seed)
        assert (chosen.n, chosen.n_tied, chosen.n_tied_left) == (3, 2, 1)
        drawn.add(keys(module_engine, chosen))
    assert drawn == {"fcd", "fce"}


def test_a_draw_among_equals_depends_on_the_seed_and_takes_all_equally_often(
    module_engine: Engine, clips: Dataset
) -> None:
    rule = {"by": "n_characters", "where": "n_characters > 10", "count": 2}
    drawn = [keys(module_engine, make(module_engine, clips, **rule, seed=seed)) for seed in range(30)]
    assert {taken[0] for taken in drawn} == {"f"}
    counts = {key: sum(taken[1] == key for taken in drawn) for key in "cde"}
    # The seeds are fixed, so that this is no matter of luck: 10 times on average.
    assert min(counts.values()) >= 4
    again = make(module_engine, clips, **rule, seed=7)
    assert (again.is_new, keys(module_engine, again)) == (False, drawn[7])


def test_no_value_decides_in_a_draw_and_in_a_diverse_subset(
    module_engine: Engine, clips: Dataset, encoder: Compass
) -> None:
    for choose in ("random", "diverse"):
        chosen = make(module_engine, clips, encoder, by="n_characters", choose=choose, count=2)
        assert (chosen.n_tied, chosen.n_tied_left) == (None, None)


@pytest.mark.parametrize("ties", ["random", "include", "refuse"])
def test_a_recipe_of_before_that_settles_ties_is_told_what_does_now(ties: str) -> None:
    with pytest.raises(SelectionError, match="no field 'ties': of samples that share the cut"):
        parse_recipe({"by": "vcs", "ties": ties, "count": 2})


def test_a_recipe_without_a_size_is_answered_by_what_each_share_keeps(module_engine: Engine, clips: Dataset) -> None:
    """Of a to f the best half ends at .7, the best quarter at .9, the best half of each system at .8 and .6."""
    with module_engine.connect() as connection:
        before = connection.scalar(sa.select(sa.func.count()).select_from(schema.selection))
    told = {
        (): "of the 6 samples of clips with vcs, a share of 0.5 keeps 3 (down to 0.7), 0.25 keeps 1 (down to 0.9), "
        "0.125 keeps 1 (down to 0.9) and 0.0625 keeps 1 (down to 0.9); give",
        (("per", "system"),): "a share of 0.5 keeps 2 (down to 0.6), 0.25 keeps 2 (down to 0.6)",
        (("where", "vcs < 0.7"),): "of the 3 samples of clips with vcs, a share of 0.5 keeps 1 (down to 0.6)",
        (("dedupe", 0.9),): "with vcs, before near-duplicates are left out, a share of 0.5 keeps 3 (down to 0.7)",
        (("choose", "random"),): "a share of 0.5 keeps 3, 0.25 keeps 1",
    }
    for said, part in told.items():
        with pytest.raises(SizeMissing) as refusal:
            make(module_engine, clips, by="vcs", **dict(said))
        assert str(refusal.value).startswith("nothing is selected, because the recipe has no size: of the ")
        assert part in str(refusal.value)
        assert "; give keep (--keep), count (--count) or at_least (--at-least)" in str(refusal.value)
    with pytest.raises(NothingToSelect, match="no sample of dataset 'clips' has a vcs score and passes"):
        make(module_engine, clips, by="vcs", where="vcs > 2")
    with module_engine.connect() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(schema.selection)) == before


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("by: vcs\nkep: 1", "recipe.yaml: the recipe has no field 'kep', did you mean 'keep'?"),
        ("- vcs", "recipe.yaml: a recipe is a mapping of fields to values"),
        ("by: [vcs", r"recipe.yaml, line 1: the recipe is not YAML"),
        ("by: vcs\nwhere: !!python/object/apply:os.system [ls]", "recipe.yaml: line 2: a recipe may have no anchors"),
        ("count: !!int ''", "recipe.yaml: line 1: a recipe may have no anchors, aliases or tags: write the value out"),
        (
            "by: vcs\n<<: {keep: 0.5}",
            r"recipe.yaml: line 2: a recipe may have no merge keys \(<<\): write the values out",
        ),
        ("at_least: {<<: [{vcs: 0.1}, {ecs: 0.1}]}", "recipe.yaml: line 1: a recipe may have no merge keys"),
        ("by: &a [vcs]\nbands: *a", "recipe.yaml: line 1: a recipe may have no anchors"),
        ("by: " + "[" * 3000, "recipe.yaml: the recipe is not YAML"),
        ("keep: 0.5\nby: vcs\nkeep: 0.1", "recipe.yaml: line 3: 'keep' is given twice: remove one"),
        ("per: system\nquotas: {brief: 1, 'brief': 5}", "recipe.yaml: line 2: 'brief' is given twice"),
        (
            "per: extra_Year\nquotas: {2001: 5}",
            "quotas is '{2001: 5}': give a whole number .* by stratum, names in",
        ),
        ("keep: 12.5%", "recipe.yaml: the recipe's keep is '12.5%': give the share .* at most 1, such as 0.125"),
        ("at_least: {vcs: .nan}", "recipe.yaml: the recipe's at_least is .*: give a number"),
        ("at_least: {vcs: -.inf}", "recipe.yaml: the recipe's at_least is .*: give a number"),
        ("by: {vcs: 1.0e+308, ecs: 1.0e+308}", "recipe.yaml: the recipe's by is .* weights from 1e-6 to 1e6"),
        ("by: [vcs, vcs]", "recipe.yaml: the recipe's by is .*: give a metric, or several"),
        ("count: 0x" + "f" * 5000, "the recipe's count is 'a number of thousands of digits': give a whole number"),
        ("\0", "recipe.yaml: the recipe is not YAML"),
        ("", "recipe.yaml: a recipe is a mapping"),
    ],
)
def test_a_file_that_is_no_recipe_is_named(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(SelectionError, match=sentence):
        read_recipe(path)
    with pytest.raises(SelectionError, match=r"none.yaml: the recipe cannot be read \(No such file"):
        read_recipe(tmp_path / "none.yaml")


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_a_recipe_is_a_regular_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "recipe.yaml")
    with pytest.raises(SelectionError, match=r"recipe.yaml: .* \(it is a (folder|pipe or a device)"):
        read_recipe(tmp_path / "recipe.yaml")


def test_a_recipe_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("by: {ecs: 2, vcs: 1}\nat_least: {vcs: 0.3}\nper: system\nquotas: {brief: 10, '*': 5}\n")
    recipe = read_recipe(path)
    assert recipe.by == {"ecs": 2.0, "vcs": 1.0}
    assert recipe.quotas == {"brief": 10, "*": 5}
    assert parse_recipe(recipe.spec()) == recipe
