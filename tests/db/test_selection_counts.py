"""Counts that a selection keeps: what it was chosen among, and what it left out, as it was when it was made."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from db.manifest.datasets import Dataset
from db.selection.recipes import parse_recipe
from db.selection.stored_selections import require_selection
from tests.db.builders import activate, add_sample, add_video, make_dataset, ok, undefined, write_fresh
from tests.db.freezing import freeze_recipe

COUNTS = ("n", "n_eligible", "n_duplicates", "unjudged")
RECIPE: dict[str, Any] = {"by": "vcs", "where": "vcs > 0.2", "keep": 0.5}


@pytest.fixture
def dataset(engine: Engine) -> Dataset:
    """Three captions with scores .3, .25 and .1, one with an undefined score, and one without any."""
    clips, scorer_id = make_dataset(engine), activate(engine, "vcs")
    video_id = add_video(engine, clips, "v")
    values = {"a": 0.3, "b": 0.25, "c": 0.1, "d": None, "e": None}
    ids = {key: add_sample(engine, clips, video_id, key) for key in values}
    rows = [ok(ids[key], value) for key, value in values.items() if value is not None]
    write_fresh(engine, scorer_id, [*rows, undefined(ids["d"])])
    return clips


def counts(engine: Engine, selection_id: int) -> tuple[Any, ...]:
    with engine.connect() as connection:
        found = require_selection(connection, selection_id)
    return tuple(found[name] for name in COUNTS)


def test_a_selection_keeps_what_it_was_chosen_among(engine: Engine, dataset: Dataset) -> None:
    with engine.begin() as connection:
        chosen = freeze_recipe(connection, dataset, parse_recipe(RECIPE))
    assert counts(engine, chosen.selection_id) == (1, 2, 0, {"vcs": {"undefined": 1, "unscored": 1}})
    # One sample less to choose among: the same rows by the same rule are the selection that was made before.
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM sample WHERE key = 'b'"))
    with engine.begin() as connection:
        again = freeze_recipe(connection, dataset, parse_recipe(RECIPE))
    assert (again.selection_id, again.is_new, again.n_eligible) == (chosen.selection_id, False, 1)
    assert counts(engine, chosen.selection_id)[1] == 2
