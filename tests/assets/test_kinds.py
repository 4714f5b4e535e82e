"""Captions and question-answer pairs have scores on scales of their own: nothing puts both into one order."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.engine import Engine

from assets.selection.select import choose_samples, make_selection, preview_selection
from db import schema
from db.manifest.datasets import Dataset
from db.schema.views import create_views
from db.scores.sample_scores import list_scores
from db.scores.thresholds import store_thresholds
from db.selection.diff import compare_selections
from db.selection.freeze import Selection
from db.selection.recipes import SelectionError, convert_rule, parse_recipe
from db.selection.stored_selections import load_selection_rows, require_selection
from tests.db.builders import (
    TWO_METRICS,
    activate,
    add_sample,
    add_video,
    make_dataset,
    score_threshold_row,
    set_scores,
)
from tests.db.freezing import never

CAPTIONS = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}
# Every pair has a higher EVQAScore than every caption, and none has a VCS.
PAIRS = {"p": 1.1, "q": 1.2, "r": 1.3, "s": 1.4}


@pytest.fixture(scope="module")
def clips(module_engine: Engine) -> Dataset:
    engine = module_engine
    with engine.begin() as connection:
        create_views(connection, TWO_METRICS)
    dataset = make_dataset(engine, "both")
    video_id = add_video(engine, dataset, "v")
    captions = {key: add_sample(engine, dataset, video_id, key, f"text {key}") for key in CAPTIONS}
    pairs = {
        key: add_sample(engine, dataset, video_id, key, kind="qa", question=f"{key}?", answer="yes") for key in PAIRS
    }
    set_scores(engine, {captions[key]: value for key, value in CAPTIONS.items()} | dict.fromkeys(pairs.values()))
    evqa = set_scores(
        engine, {(captions | pairs)[key]: value for key, value in (CAPTIONS | PAIRS).items()}, metric="evqa"
    )
    with engine.begin() as connection:
        cuts = [
            score_threshold_row("keep 0.5", 0.3, 4, 2),
            score_threshold_row("keep 0.5", 1.2, 4, 2, kind="qa"),
        ]
        store_thresholds(connection, schema.score_threshold, evqa, dataset.dataset_id, "quantile", cuts)
    return dataset


def make(engine: Engine, dataset: Dataset, **said: Any) -> Selection:
    return make_selection(engine, dataset, parse_recipe(said), lambda: pytest.fail("compares no texts"), lambda _: None)


def keys(engine: Engine, chosen: Selection) -> str:
    return "".join(row["sample"] for part in load_selection_rows(engine, chosen.selection_id) for row in part)


@pytest.mark.parametrize(
    ("said", "expected", "kind", "n_others"),
    [
        ({"by": "evqa", "keep": 0.5}, "dc", "caption", 4),
        ({"by": "evqa", "keep": 0.5, "kind": "caption"}, "dc", "caption", 0),
        ({"by": "evqa", "keep": 0.5, "kind": "qa"}, "sr", "qa", 0),
        ({"by": "evqa", "keep": 0.5, "kind": "all"}, "srqp", "all", 0),
        # Where one kind alone could be taken nobody need say which.
        ({"by": "vcs", "keep": 0.5}, "dc", "caption", 0),
        ({"by": "evqa", "keep": 0.5, "where": "kind = 'qa'"}, "sr", "qa", 0),
        ({"by": "evqa", "keep": 0.5, "where": "evqa < 1.25"}, "dc", "caption", 2),
        # Not cut by the database.
        ({"by": "evqa", "count": 3}, "dcb", "caption", 4),
        ({"by": "evqa", "count": 3, "kind": "qa"}, "srq", "qa", 0),
        ({"by": ["evqa", "vcs"], "count": 3}, "dcb", "caption", 0),
        # A stored cut is of the kind that is taken.
        ({"by": "evqa", "at_least": {"evqa": "keep 0.5"}}, "dc", "caption", 4),
        ({"by": "evqa", "at_least": {"evqa": "keep 0.5"}, "kind": "qa"}, "srq", "qa", 0),
    ],
)
def test_a_selection_is_of_one_kind(
    module_engine: Engine, clips: Dataset, said: dict[str, Any], expected: str, kind: str, n_others: int
) -> None:
    chosen = make(module_engine, clips, **said)
    assert keys(module_engine, chosen) == expected
    assert (chosen.kind, chosen.n_others) == (kind, n_others)
    with module_engine.connect() as connection:
        stored = require_selection(connection, chosen.selection_id)
    assert stored["spec"]["kind"] == kind
    again = make(module_engine, clips, **convert_rule(stored["spec"]))
    assert again.score_hash == chosen.score_hash


def test_a_preview_counts_one_kind(module_engine: Engine, clips: Dataset) -> None:
    for kind, n, mean in (("caption", 2, 0.35), ("qa", 2, 1.35)):
        rule = parse_recipe({"by": "evqa", "keep": 0.5, "kind": kind})
        found = preview_selection(module_engine, clips, rule, lambda: pytest.fail("compares no texts"), lambda _: None)
        assert [tuple(row.values()) for row in found.systems] == [("brief", 4, n)]
        (shift,) = [row for row in found.metrics if row["metric"] == "evqa"]
        assert (shift["chosen"], shift["random"]) == (pytest.approx(mean), pytest.approx(mean - 0.1))


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"by": "vcs", "kind": "qa"}, "has a vcs score and passes kind qa: loosen the condition"),
        ({"by": "evqa", "kind": "question"}, "the recipe's kind is 'question': give caption, qa or all"),
        (
            {"by": "evqa", "kind": "all", "at_least": {"evqa": "keep 0.5"}},
            "which applies to one kind of sample: give kind caption or qa",
        ),
    ],
)
def test_what_no_kind_allows_is_one_sentence(
    module_engine: Engine, clips: Dataset, said: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SelectionError, match=sentence):
        make(module_engine, clips, **said)


def test_a_difference_names_the_other_kind(module_engine: Engine, clips: Dataset) -> None:
    pairs = make(module_engine, clips, by="evqa", keep=0.25, kind="qa")
    captions = make(module_engine, clips, by="evqa", keep=0.25)
    with module_engine.connect() as connection:
        found = list(compare_selections(connection, pairs.selection_id, captions.selection_id))
    assert [(row.change, row.sample, row.reason) for row in found] == [
        ("went out", "s", f"selection {captions.selection_id} holds only samples of kind caption"),
        ("came in", "d", f"selection {pairs.selection_id} holds only samples of kind qa"),
    ]


@pytest.mark.parametrize("limit", [2, None])
def test_a_list_is_of_the_kind_that_is_asked_for(module_engine: Engine, clips: Dataset, limit: int | None) -> None:
    with module_engine.connect() as connection:
        of_kinds = [list_scores(connection, "both", "evqa", limit, kind=kind) for kind in ("caption", "qa", None)]
    assert ["".join(row["sample"] for row in rows)[:2] for rows in of_kinds] == ["dc", "sr", "sr"]
    assert len(of_kinds[0]) == (limit or 4)


def test_a_dataset_of_one_kind_needs_no_condition_on_it(module_engine: Engine) -> None:
    """No condition on the kind, which would cost the index."""
    dataset = make_dataset(module_engine, "captions")
    video_id = add_video(module_engine, dataset, "w")
    activate(module_engine, "evqa")
    set_scores(
        module_engine, {add_sample(module_engine, dataset, video_id, key): value for key, value in CAPTIONS.items()}
    )
    for said in ({"by": "vcs", "keep": 0.5}, {"by": "vcs", "keep": 0.5, "kind": "caption"}):
        rule = parse_recipe(said)
        with module_engine.begin() as connection:
            eligible, picked = choose_samples(connection, dataset, rule, None, never, lock=False)
        assert (eligible.filters, eligible.kind, len(picked.sample_ids)) == ([], "caption", 2)
