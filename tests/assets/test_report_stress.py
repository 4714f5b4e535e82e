"""What a report shows of stressed metrics: holes first, of the active scorer only, and what is not stressed yet."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

from sqlalchemy.engine import Engine

from db.manifest.datasets import Dataset
from db.scores.stress import store_stress
from metrics_core.stress.effects import Conclusion, Effect
from tests.assets.reporting import add_captions, rate, report_on
from tests.db.builders import activate, make_dataset, set_scores

MADE_AT = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
COMMAND = "reelsieve stress vcs --dataset 'my clips'"


def make_effect(rewrite: str, *, keeps: bool, conclusion: Conclusion, change: float) -> Effect:
    interval = (change, change - 0.04, change + 0.04)
    return Effect(rewrite, keeps, conclusion, 60, 20, *interval, 9.0, 1.0, 17.0, 0.81, 0.1, 0.001, 0, {}, 0.25, 0.125)


GAIN = make_effect("noun_list", keeps=True, conclusion="gains_from_nothing", change=0.19)
SMALL_GAIN = make_effect("stock_opening", keeps=True, conclusion="gains_from_nothing", change=0.05)
BLIND = make_effect("swapped_colours", keeps=False, conclusion="does_not_lose", change=-0.01)
FINE = make_effect("negation", keeps=False, conclusion="fine", change=-0.31)


def put(engine: Engine, dataset: Dataset, scorer_id: int, *effects: Effect) -> None:
    counts = {"seed": 0, "n_drawn": 64, "n_timed": 0, "n_unscored": 4, "n_captions": 60, "n_videos": 20}
    result = {**counts, "small_change": 0.02, "effects": list(map(asdict, effects))}
    with engine.begin() as connection:
        store_stress(connection, dataset.dataset_id, scorer_id, result, MADE_AT)


def make_scored(engine: Engine) -> tuple[Dataset, int]:
    """A dataset with scores by VCS and EVQA and without ratings, and the scorer of VCS."""
    dataset = make_dataset(engine, "my clips")
    ids = add_captions(engine, dataset, 6, ("alpha", "beta"))
    set_scores(engine, {i: place / 12 for place, i in enumerate(ids)}, "evqa")
    return dataset, set_scores(engine, {i: place / 11 for place, i in enumerate(ids)})


def test_a_hole_is_named_first_and_with_its_remedy(engine: Engine, tmp_path: Path) -> None:
    dataset, vcs = make_scored(engine)
    put(engine, dataset, vcs, BLIND, FINE, SMALL_GAIN, GAIN)
    made = report_on(engine, dataset, tmp_path, ("vcs", "evqa"))
    warning = (
        "VCS can be raised by a list of its own nouns: +.190 (.150 to .230); 60 captions of 20 videos were stressed on "
        f"2026-01-31, and showed 2 more holes. Look at such captions before you select by it: {COMMAND} --show 3."
    )
    holes = [
        "VCS can be raised by a list of its own nouns: +.190 (.150 to .230) of its value; 8 of 10 captions rise; 25 % "
        "of the best eighth look so already, 12 % of all.",
        "VCS can be raised by a stock opening: +.050 (.010 to .090) of its value; 8 of 10 captions rise; 25 % of the "
        "best eighth look so already, 12 % of all.",
        "VCS does not notice swapped colours: -.010 (-.050 to .030).",
    ]
    summary = (
        "VCS gains from 2 of 2 kinds of rewrites that add no truth, and does not lose by 1 of 2 that take some away: "
        "60 captions of 20 videos, 2026-01-31."
    )
    assert warning in made.numbers["notices"]
    (stressed,) = made.numbers["stresses"]
    assert (stressed["metric"], stressed["summary"], stressed["holes"]) == ("vcs", summary, holes)
    shown = [made.text.index(text) for text in (warning, "Can a metric be fooled?", summary, *holes)]
    assert shown == sorted(shown)
    assert "loses by negation" not in made.text
    assert "Not stressed yet: reelsieve stress evqa --dataset 'my clips'" in made.text
    effects = {effect["rewrite"]: effect for effect in stressed["stress"]["effects"]}
    assert (effects["noun_list"]["change"], effects["noun_list"]["rank_high"]) == (0.19, 17.0)
    assert set(effects) == {"noun_list", "stock_opening", "swapped_colours", "negation"}


def test_a_metric_without_a_hole_takes_one_line(engine: Engine, tmp_path: Path) -> None:
    dataset, vcs = make_scored(engine)
    put(engine, dataset, vcs, FINE)
    made = report_on(engine, dataset, tmp_path, ("vcs", "evqa"))
    assert "VCS shows no hole in 1 kind of rewrites: 60 captions of 20 videos, 2026-01-31." in made.text
    assert not [notice for notice in made.numbers["notices"] if "VCS" in notice]


def test_a_stress_of_an_old_scorer_or_another_dataset_is_not_shown(engine: Engine, tmp_path: Path) -> None:
    dataset, vcs = make_scored(engine)
    put(engine, dataset, activate(engine, "vcs", "0"), GAIN)
    assert activate(engine, "vcs") == vcs
    put(engine, make_dataset(engine, "other"), vcs, GAIN)
    made = report_on(engine, dataset, tmp_path, ("vcs", "evqa"))
    assert made.numbers["stresses"] == []
    assert "raised" not in made.text
    assert "Not stressed yet" not in made.text, "without people or a stress there is no section on trust"


def test_next_to_ratings_the_page_names_the_commands(engine: Engine, tmp_path: Path) -> None:
    dataset = make_dataset(engine, "my clips")
    ids = add_captions(engine, dataset, 6, ("alpha", "beta"))
    set_scores(engine, {i: place / 11 for place, i in enumerate(ids)})
    rate(engine, {i: (place % 5,) for place, i in enumerate(ids)})
    assert f"Not stressed yet: {COMMAND}" in report_on(engine, dataset, tmp_path).text
