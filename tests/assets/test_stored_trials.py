"""Stored trials: what comes back, what replaces what, and where they show: passport, report, advice on a size."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.reports.answers import _choose_size
from assets.selection.export import export_selection
from assets.selection.select import make_selection
from assets.trial.arms import COPY, NOISY
from db import schema
from db.manifest.datasets import Dataset
from db.selection.recipes import SizeMissing, parse_recipe
from db.selection.trials import (
    ArmResult,
    TrainedRun,
    Trial,
    load_run,
    load_trials,
    store_run,
    store_trial,
)
from tests.assets.reporting import add_captions, report_on
from tests.assets.trials import build_trial
from tests.db.builders import set_scores

BETTER: dict[str, Any] = {
    "difference": 0.1,
    "low": 0.05,
    "high": 0.15,
    "p": 0.001,
    "conclusion": "better",
    "n_more_videos": 0,
}


def make_trial(selection_id: int) -> Trial:
    """A trial whose selection beats a random draw, and whose half trains best."""
    open_: dict[str, Any] = {
        "difference": 0.0,
        "low": -0.04,
        "high": 0.04,
        "p": 1.0,
        "conclusion": "open",
        "n_more_videos": 70,
    }
    name = f"selection {selection_id}"
    arms = [
        ArmResult(name, 200, "a", value=0.5, measures={"mrr": 0.5, "recall_at_1": 0.25}, seconds=2.5),
        ArmResult("random", 200, "b", value=0.4, compared_with=name, **BETTER),
        ArmResult("length", 90, "c", "too_few_rows", "90 training rows: fewer than a batch of 128"),
        ArmResult("share 0.5", 400, "d", share=0.5, value=0.55),
        ArmResult("share 1", 800, "e", share=1.0, value=0.45, compared_with="share 0.5", **BETTER),
        ArmResult(NOISY, 200, "f", value=0.3, compared_with=name, **BETTER),
        ArmResult(COPY, 200, "g", value=0.5, compared_with=name, **open_),
    ]
    return build_trial(arms, selection_id=selection_id)


def no_encoder() -> Any:
    """No recipe here compares texts."""
    pytest.fail("a recipe without vectors made an encoder")


@pytest.fixture
def selection_id(engine: Engine, clips: Dataset) -> int:
    ids = add_captions(engine, clips, 4, ["a", "b"])
    set_scores(engine, {number: place / 10 for place, number in enumerate(ids)})
    recipe = parse_recipe({"by": "vcs", "keep": 0.5})
    return make_selection(engine, clips, recipe, no_encoder, lambda _line: None).selection_id


def store(engine: Engine, trial: Trial) -> int:
    with engine.begin() as connection:
        return store_trial(connection, trial)


def test_a_trial_comes_back_as_it_was_stored_and_replaces_itself(engine: Engine, selection_id: int) -> None:
    trial = make_trial(selection_id)
    first = store(engine, trial)
    fewer = replace(trial, arms=trial.arms[:2])
    assert store(engine, fewer) == first
    other = store(engine, replace(trial, trial_sha256=b"other".hex()))
    with engine.connect() as connection:
        newest, oldest = load_trials(connection, selection_id=selection_id)
        assert (newest.trial_id, newest.arms) == (other, trial.arms)
        assert replace(oldest, trial_id=None, tried_at=None) == fewer
        assert load_trials(connection, dataset_id=1) == [newest, oldest]
        assert [arm.arm for arm in newest.curve] == ["share 0.5", "share 1"]


def test_a_trial_outlives_its_dataset_and_goes_with_its_selection(
    engine: Engine, clips: Dataset, selection_id: int
) -> None:
    store(engine, make_trial(selection_id))
    with engine.begin() as connection:
        store_run(connection, b"run".hex(), clips.dataset_id, TrainedRun("failed", "exit code 1"))
        done = TrainedRun("ok", None, "mrr", (0.5, 1.0), {"mrr": 0.75}, 2.0)
        store_run(connection, b"run".hex(), clips.dataset_id, done)
        assert load_run(connection, b"run".hex()) == done
        connection.execute(sa.delete(schema.dataset))
        assert load_run(connection, b"run".hex()) is None
        assert len(load_trials(connection, selection_id=selection_id)) == 1
        connection.execute(sa.delete(schema.selection))
        assert connection.scalar(sa.select(sa.func.count()).select_from(schema.selection_trial)) == 0


def test_the_passport_carries_the_trial_with_its_terms(engine: Engine, selection_id: int, tmp_path: Path) -> None:
    store(engine, make_trial(selection_id))
    path = export_selection(engine, selection_id, tmp_path / "p.parquet").path
    (trial,) = json.loads(pq.read_schema(path).metadata[b"reelsieve"])["trials"]
    assert (trial["n_seeds"], trial["settings"], trial["test_sha256"]) == (5, {"max_steps": 4096}, b"test".hex())
    assert [arm["arm"] for arm in trial["arms"]][:3] == [f"selection {selection_id}", "random", "length"]
    assert any("a small head on frozen vectors" in line and "may differ" in line for line in trial["sentences"])


def test_the_report_shows_the_newest_trial(engine: Engine, clips: Dataset, selection_id: int, tmp_path: Path) -> None:
    assert "Does a selection train better?" not in report_on(engine, clips, tmp_path / "before").text
    older = make_trial(selection_id)
    store(engine, replace(older, trial_sha256=b"older".hex(), arms=older.arms[:2]))
    store(engine, make_trial(selection_id))
    made = report_on(engine, clips, tmp_path / "after")
    assert "Does a selection train better?" in made.text
    assert f"Selection {selection_id} trains better than random (200 rows) by 0.100 (0.050 to 0.150)." in made.text
    assert "too few rows" in made.text
    (shown,) = made.numbers["trials"]
    assert (shown["arms"][1]["conclusion"], len(shown["arms"])) == ("better", 7)
    zero = [attributes["style"] for tag, attributes in made.tags if tag == "i" and attributes.get("class") == "zero"]
    # Of -.04 to .15, 0 is at 21.1 %.
    assert zero == ["left: 21.1%"] * 4


def test_a_recipe_without_a_size_gets_the_advice_of_a_curve(engine: Engine, clips: Dataset, selection_id: int) -> None:
    recipe = parse_recipe({"by": "vcs"})
    with pytest.raises(SizeMissing, match=r"reelsieve prove SELECTION --curve 0\.25"):
        make_selection(engine, clips, recipe, no_encoder, lambda _line: None)
    store(engine, make_trial(selection_id))
    # A newer trial without a curve, and one that proves nothing, hide no advice.
    store(
        engine, replace(make_trial(selection_id), trial_sha256=b"plain".hex(), arms=make_trial(selection_id).arms[:2])
    )
    void = [replace(arm, conclusion="worse") if arm.arm == COPY else arm for arm in make_trial(selection_id).arms]
    other = [replace(arm, value=0.9) if arm.share == 1.0 else arm for arm in void]
    store(engine, replace(make_trial(selection_id), trial_sha256=b"void".hex(), arms=tuple(other)))
    advice = f"of the shares tried for selection {selection_id}, 0.5 trained best, at 0.550: better than 1"
    with pytest.raises(SizeMissing, match=advice):
        make_selection(engine, clips, recipe, no_encoder, lambda _line: None)
    # The page proposes that share, and names its own where no trial has a curve.
    with engine.connect() as connection:
        share, why = _choose_size(load_trials(connection, dataset_id=clips.dataset_id))
    assert (share, why) == (0.5, f"{advice[0].upper()}{advice[1:]}.")
    assert _choose_size([]) == (0.25, "This share is a choice: no trial has tested it.")
