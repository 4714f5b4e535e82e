"""Promises whose condition knows the answers: by a tag, another aspect, a field, a judge, another dataset."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy.engine import Engine

from assets.promise.select import PromiseUnconfirmed
from assets.promise.sentences import explain_raters
from benchmarks.promise_knowledge import HONEST, KNOWING, TERMS, Way, World, make_world, select
from db.selection.recipes import SelectionError
from tests.conftest import filled_template


def fill(engine: Engine) -> World:
    """Of all captions .207 are errors, where .1 are allowed."""
    return make_world(engine, Path(tempfile.mkdtemp()), "clips", np.random.default_rng(7), 0.207)


template = filled_template(fill)


@pytest.fixture
def world(clips: World, engine: Engine, tmp_path: Path) -> World:
    rows = {key: dict(row) for key, row in clips.rows.items()}
    return replace(clips, engine=engine, folder=tmp_path, rows=rows)


@pytest.mark.parametrize(
    ("way", "sentence"),
    [
        ("tag", r"takes 115 of 150 captions that were asked first, but 450 of 450 others, so that tag_bad may know"),
        ("tag on as many others", r"tag_keep may know the answers: written after captions were answered, and 0 of"),
        ("second aspect", "so that rating_second may know the answers: choose by columns that were there before"),
        ("own field", "so that extra_verdict may know the answers"),
        ("keys", "so that sample may know the answers"),
        ("another dataset", "so that the choice of captions from dataset clips may know the answers"),
        ("raised ratings", r"18 of 77 answers are errors \(.*; rated by ann; 18 ratings changed later, and the first"),
        ("judge by the same draw", "so that judge may know the answers"),
    ],
)
def test_a_condition_that_knows_the_answers_is_refused(world: World, way: str, sentence: str) -> None:
    with pytest.raises(SelectionError, match=sentence):
        select(world, *KNOWING[way](world))


@pytest.mark.parametrize("way", HONEST.values(), ids=HONEST.keys())
def test_a_condition_that_knows_nothing_is_confirmed(world: World, way: Way) -> None:
    good = replace(world, is_error=world.is_error & (np.arange(len(world.ids)) % 10 == 0))
    assert select(good, *way(good)).state.n_confirmed == 2


def test_attempts_count_over_datasets_that_share_captions_and_over_names_of_an_aspect(world: World) -> None:
    world.rate(range(40))
    ratings = [(key, 1 if world.is_error[place] else 5) for place, key in enumerate(world.keys[:40])]
    copy = world.ingest("copy", world.keys, ratings)
    other = world.ingest("other", world.keys[300:])
    tried = [
        (world.dataset, "overall"),
        (copy, "overall"),
        (world.dataset, "Overall."),
        (world.dataset, "quality"),
        (copy, "quality"),
        (world.dataset, "fluency"),
        (other, "overall"),
    ]
    for aspect in ("Overall.", "quality"):
        world.rate(range(40), aspect)
    replace(world, is_error=~world.is_error).rate(range(40), "fluency")
    attempts = []
    for dataset, aspect in tried:
        with pytest.raises(PromiseUnconfirmed) as refused:
            select(world, dataset, None, replace(TERMS, aspect=aspect))
        attempts.append(refused.value.state.attempt.attempt)
    # Nobody answered about captions of the last dataset; ratings of fluency are other answers.
    assert attempts == [1, 2, 3, 4, 5, 1, 1]


@pytest.mark.parametrize(
    ("raters", "n_raters", "n_changed", "sentence"),
    [
        ([], 1, 0, ""),
        (["ann"], 1, 0, "; rated by ann"),
        (["ann", "bob"], 1, 1, "; of ann and bob, the first who rated a caption decides; 1 rating changed later, and "),
        (["ann", "bob", "cleo"], 3, 0, "; rated by ann, bob and cleo"),
        (["a", "b", "c", "d"], 3, 0, "; of a, b, c and d, the first 3 who rated a caption decide"),
    ],
)
def test_it_says_whose_answers_decide(raters: list[str], n_raters: int, n_changed: int, sentence: str) -> None:
    explained = explain_raters({"raters": raters, "n_raters": n_raters, "n_changed": n_changed})
    assert explained.startswith(sentence)
    assert bool(sentence) == bool(explained)
