"""The part of the report with means of all captions that are estimated from a drawn part."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.promise.terms import JUDGE
from db.manifest.datasets import Dataset
from db.selection.draws import Draw, list_wanted_samples, take_draw
from tests.assets.reporting import add_captions, rate, report_on
from tests.conftest import filled_template
from tests.db.builders import activate, make_dataset, set_scores

SYSTEMS = ("good", "poor")
TITLE = "means of all captions"
SCOPE = "of these captions; it does not compare systems"


def truth(sample_id: int) -> float:
    return sample_id * 7 % 5 / 5


def fill(engine: Engine) -> tuple[Dataset, list[int]]:
    dataset = make_dataset(engine, "clips")
    ids = add_captions(engine, dataset, 60, SYSTEMS)
    rng = np.random.default_rng(3)
    # By the alphabet evqa is before vcs, which knows what the judge will answer.
    set_scores(engine, {i: float(rng.random()) for i in ids}, "evqa")
    set_scores(engine, {i: truth(i) / 2 for i in ids})
    return dataset, ids


template = filled_template(fill)


def draw_judge(engine: Engine, dataset: Dataset, n: int) -> list[int]:
    with engine.begin() as connection:
        drawn = list_wanted_samples(connection, dataset, Draw(n))
        take_draw(connection, dataset, JUDGE, activate(engine, JUDGE), Draw(n))
    set_scores(engine, {i: truth(i) for i in drawn}, JUDGE)
    return drawn


def test_a_judge_on_a_part_gives_means_of_all(engine: Engine, clips: tuple[Dataset, list[int]], tmp_path: Path) -> None:
    dataset, ids = clips
    drawn = draw_judge(engine, dataset, 50)
    made = report_on(engine, dataset, tmp_path, ("vcs", "evqa", JUDGE))
    rows = made.numbers["estimated_means"]
    assert len(rows) == 3 * 2
    (whole,) = [row for row in rows if row["group_kind"] == "dataset" and row["helper"] == "vcs"]
    assert (whole["expensive_score"], whole["n"], whole["size"], whole["half_width"]) == (JUDGE, 50, 120, 0.05)
    assert whole["value"] == pytest.approx(np.mean([truth(i) for i in ids]))
    assert whole["plain"] == pytest.approx(np.mean([truth(i) for i in drawn]))
    # The page shows one helper, the first metric in its order, though another would have the narrower interval.
    first = made.numbers["metrics"][0]["name"]
    (shown,) = [row for row in rows if row["group_kind"] == "dataset" and row["helper"] == first]
    table = made.html.partition("Estimated means of judge")[2].partition("</table>")[0]
    cells = [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<td.*?</td>", table)]
    assert re.findall(r'<th scope="row">(.*?)</th>', table) == ["all systems", *SYSTEMS]
    assert f"{shown['value']:.2f}".lstrip("0") in cells[0]
    assert cells[1] == "50 of 120"
    assert cells[5] == (f"{shown['n_more']:,}" if shown["n_more"] is not None else "–")


def test_ratings_of_a_part_give_means_too(engine: Engine, clips: tuple[Dataset, list[int]], tmp_path: Path) -> None:
    dataset, _ = clips
    with engine.begin() as connection:
        drawn = list_wanted_samples(connection, dataset, Draw(40))
    rate(engine, {i: (1.0 + 4 * truth(i),) for i in drawn}, "<b>fun</b>")
    made = report_on(engine, dataset, tmp_path, ("vcs", "evqa"))
    assert f"Ratings of <b>fun</b>: {TITLE}" in made.text
    assert "more answers for ± 0.2" in made.text
    assert SCOPE in made.text
    with engine.connect() as connection:
        comment = connection.scalar(sa.text("SELECT obj_description(to_regclass('estimated_means'), 'pg_class')"))
    assert SCOPE in comment


def test_without_a_score_on_a_part_the_page_has_no_such_means(
    engine: Engine, clips: tuple[Dataset, list[int]], tmp_path: Path
) -> None:
    dataset, ids = clips
    set_scores(engine, {i: truth(i) for i in ids}, JUDGE)
    made = report_on(engine, dataset, tmp_path, ("vcs", "evqa", JUDGE))
    assert TITLE not in made.text
    assert made.numbers["estimated_means"] == []
