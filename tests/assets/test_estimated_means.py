"""Means of ratings and of a judge over all captions, estimated from a drawn part and corrected by a metric."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.promise.estimated_means import EstimatedMean, estimate_means, load_estimated_means, store_estimated_means
from assets.promise.terms import JUDGE
from assets.selection.select import make_selection
from db.manifest.datasets import Dataset
from db.manifest.draws import build_draw_order
from db.schema import rating, sample, score, selection
from db.scores.scorers import list_scorers
from db.selection.draws import Draw, list_wanted_samples, take_draw
from db.selection.promises import list_selected_ids
from db.selection.recipes import parse_recipe
from metrics_core.promise import count_further_answers
from tests.assets.reporting import rate
from tests.conftest import filled_template
from tests.db.builders import activate, add_sample, add_video, make_dataset, set_scores

SQL_PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
SYSTEMS = ("good", "poor")
N_VIDEOS = 120


def truth(sample_id: int) -> float:
    return 1.0 + 4 * (sample_id * 97 % 241) / 240


def fill(engine: Engine) -> Dataset:
    """A caption of two systems for each of 120 videos; vcs knows the ratings, evqa nothing of them."""
    dataset, ids = make_dataset(engine, "clips"), []
    for number in range(N_VIDEOS):
        video = add_video(engine, dataset, f"v{number}")
        ids += [add_sample(engine, dataset, video, f"v{number}_{s}", system=s) for s in SYSTEMS]
    rng = np.random.default_rng(2)
    set_scores(engine, {i: truth(i) / 5 for i in ids})
    set_scores(engine, {i: float(rng.random()) for i in ids}, "evqa")
    return dataset


template = filled_template(fill)


def list_drawn(engine: Engine, dataset: Dataset) -> list[tuple[int, str]]:
    query = sa.select(sample.c.sample_id, sample.c.system).where(sample.c.dataset_id == dataset.dataset_id)
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(query.order_by(*build_draw_order(0)))]


def estimate(engine: Engine, dataset: Dataset, metric: str) -> dict[str | None, EstimatedMean]:
    with engine.connect() as connection:
        (scorer,) = [scorer for scorer in list_scorers(connection) if scorer.metric == metric]
        means = [mean for mean in estimate_means(connection, dataset, [scorer]) if mean.group_kind != "selection"]
        return {mean.group_name: mean for mean in means}


def test_a_perfect_metric_gives_the_mean_of_all_captions(engine: Engine, clips: Dataset) -> None:
    drawn = list_drawn(engine, clips)
    rate(engine, {sample_id: (truth(sample_id),) for sample_id, _ in drawn[:60]}, "fun")
    means = estimate(engine, clips, "vcs")
    for system in (None, *SYSTEMS):
        values = [truth(sample_id) for sample_id, of_sample in drawn if system in (None, of_sample)]
        made = means[system].estimate
        assert made.value == pytest.approx(np.mean(values))
        assert (made.low, made.high) == (pytest.approx(made.value), pytest.approx(made.value))
        n_rated = sum(system in (None, of_sample) for _, of_sample in drawn[:60])
        assert (made.n, made.size) == (n_rated, len(values))


def test_a_useless_metric_leaves_about_the_plain_mean(engine: Engine, clips: Dataset) -> None:
    drawn = list_drawn(engine, clips)
    rate(engine, {sample_id: (truth(sample_id),) for sample_id, _ in drawn[:60]}, "fun")
    mean = estimate(engine, clips, "evqa")[None]
    made = mean.estimate
    assert made.value == pytest.approx(made.plain, abs=0.2)
    assert made.low < np.mean([truth(sample_id) for sample_id, _ in drawn]) < made.high
    assert 0.8 < made.gain < 1.2
    assert mean.half_width == 0.2
    assert mean.n_more == count_further_answers(made, 0.2) > 0


def test_ratings_after_a_gap_do_not_count(engine: Engine, clips: Dataset) -> None:
    drawn = list_drawn(engine, clips)
    rate(engine, {sample_id: (3.0,) for place, (sample_id, _) in enumerate(drawn[:60]) if place != 20}, "fun")
    means = estimate(engine, clips, "vcs")
    assert means[None].estimate.n == 20
    gap = drawn[20][1]
    before = sum(system == gap for _, system in drawn[:20])
    assert gap not in means if before < 10 else means[gap].estimate.n == before


def test_a_group_with_a_caption_that_was_changed_after_its_answer_has_no_mean(engine: Engine, clips: Dataset) -> None:
    drawn = list_drawn(engine, clips)
    rate(engine, {sample_id: (truth(sample_id),) for sample_id, _ in drawn[:80]}, "fun")
    judge(engine, clips, Draw(60, seed=7))
    changed_id = next(i for i, system in drawn if system == "poor")
    with engine.begin() as connection:
        connection.execute(sa.delete(score).where(score.c.sample_id == changed_id))
        is_it = sample.c.sample_id == changed_id
        connection.execute(sa.update(sample).where(is_it).values(text="new", text_sha256=b"new"))
        connection.execute(sa.update(rating).values(text_sha256=b"new").where(rating.c.sample_id == changed_id))
    set_scores(engine, {changed_id: truth(changed_id) / 5})
    # The judge's seed was drawn before, too.
    assert set(estimate(engine, clips, "vcs")) == {"good"}


def test_too_few_ratings_give_no_mean(engine: Engine, clips: Dataset) -> None:
    assert estimate(engine, clips, "vcs") == {}
    rate(engine, {sample_id: (3.0,) for sample_id, _ in list_drawn(engine, clips)[:9]}, "fun")
    assert estimate(engine, clips, "vcs") == {}


def judge(engine: Engine, dataset: Dataset, draw: Draw, answers: Mapping[int, float | None] | None = None) -> list[int]:
    """Draw captions and judge them as `truth` / 5, or by `answers`; return their ids in the order of the draw."""
    with engine.begin() as connection:
        wanted = list_wanted_samples(connection, dataset, draw)
    scorer_id = activate(engine, JUDGE)
    with engine.begin() as connection:
        take_draw(connection, dataset, JUDGE, scorer_id, draw)
    set_scores(engine, {i: truth(i) / 5 for i in wanted} | dict(answers or {}), JUDGE)
    return wanted


def test_a_judge_asked_about_a_draw_gives_the_mean_of_all(engine: Engine, clips: Dataset) -> None:
    drawn = judge(engine, clips, Draw(50, seed=7))
    means = estimate(engine, clips, "vcs")
    systems = dict(list_drawn(engine, clips))
    for system in (None, *SYSTEMS):
        mean, of_group = means[system], [i for i, name in systems.items() if system in (None, name)]
        assert (mean.expensive_score, mean.group_kind, mean.helper) == (JUDGE, "system" if system else "dataset", "vcs")
        assert (mean.seed, mean.half_width) == (7, 0.05)
        assert mean.estimate.value == pytest.approx(np.mean([truth(i) / 5 for i in of_group]))
        assert mean.estimate.n == sum(i in of_group for i in drawn)
        assert mean.estimate.plain == pytest.approx(np.mean([truth(i) / 5 for i in drawn if i in of_group]))


def test_a_judge_that_cannot_judge_some_gives_the_plain_mean_of_the_others(engine: Engine, clips: Dataset) -> None:
    with engine.connect() as connection:
        refused = list_wanted_samples(connection, clips, Draw(40))[3]
    drawn = judge(engine, clips, Draw(40), {refused: None})
    mean = estimate(engine, clips, "vcs")[None]
    assert (mean.helper, mean.estimate.n, mean.estimate.size) == (None, 39, 2 * N_VIDEOS - 1)
    assert mean.estimate.value == pytest.approx(np.mean([truth(i) / 5 for i in drawn if i != refused]))


def test_a_failed_answer_is_a_gap(engine: Engine, clips: Dataset) -> None:
    drawn = judge(engine, clips, Draw(60))
    with engine.begin() as connection:
        connection.execute(
            sa.update(score)
            .where(score.c.sample_id == drawn[30], score.c.scorer_id == activate(engine, JUDGE))
            .values(status="failed", value=None, error="no answer")
        )
    assert estimate(engine, clips, "vcs")[None].estimate.n == 30


def test_a_draw_by_a_condition_counts_only_inside_of_it(engine: Engine, clips: Dataset) -> None:
    """Captions of the other system are gaps, and the few before the first of them would all be of one system."""
    judge(engine, clips, Draw(60, where="system = 'good'"))
    means = estimate(engine, clips, "vcs")
    assert set(means) == {"good"}
    assert means["good"].estimate.n == 60


def test_a_metric_that_lacks_a_value_corrects_nothing(engine: Engine, clips: Dataset) -> None:
    drawn = list_drawn(engine, clips)
    unscored = next(i for i, system in reversed(drawn) if system == "poor")
    with engine.begin() as connection:
        connection.execute(sa.delete(score).where(score.c.sample_id == unscored))
    rate(engine, {sample_id: (truth(sample_id),) for sample_id, _ in drawn[:80]}, "fun")
    means = estimate(engine, clips, "vcs")
    assert [means[name].helper for name in (None, *SYSTEMS)] == [None, "vcs", None]
    assert means[None].estimate.size == 2 * N_VIDEOS
    assert means[None].estimate.value == means[None].estimate.plain


def test_a_score_of_all_captions_needs_no_estimate(engine: Engine, clips: Dataset) -> None:
    rate(engine, {sample_id: (truth(sample_id),) for sample_id, _ in list_drawn(engine, clips)}, "fun")
    assert estimate(engine, clips, "vcs") == {}


def test_selections_have_means_unless_the_answers_made_them(engine: Engine, clips: Dataset) -> None:
    drawn = list_drawn(engine, clips)
    rate(engine, {sample_id: (truth(sample_id),) for sample_id, _ in drawn[:120]}, "fun")
    by_metric = make_selection(engine, clips, parse_recipe({"by": "evqa", "keep": 0.5}), lambda: None, print)
    make_selection(
        engine, clips, parse_recipe({"by": "evqa", "keep": 0.5, "where": "rating_fun > 2"}), lambda: None, print
    )
    store_estimated_means(engine, clips)
    query = sa.text("SELECT * FROM estimated_means WHERE group_kind = 'selection' AND helper = 'vcs'")
    with engine.connect() as connection:
        (row,) = connection.execute(query).mappings()
        ids = set(list_selected_ids(connection, by_metric.selection_id).tolist())
    assert (row["group_name"], row["size"]) == (str(by_metric.selection_id), len(ids))
    assert row["n"] == sum(i in ids for i, _ in drawn[:120])
    assert row["value"] == pytest.approx(np.mean([truth(i) for i in ids]))
    for answered_by, n_rows in (("people: funny", 1), ("judge 12ab", 1), ("people: fun", 0)):
        with engine.begin() as connection:
            connection.execute(sa.update(selection).values(promise={"answered_by": answered_by}))
        store_estimated_means(engine, clips)
        with engine.connect() as connection:
            assert len(connection.execute(query).all()) == n_rows, answered_by


def test_means_are_stored_with_names_and_replaced(engine: Engine, clips: Dataset) -> None:
    drawn = list_drawn(engine, clips)
    rate(engine, {sample_id: (truth(sample_id),) for sample_id, _ in drawn[:80]}, "fun")
    judge(engine, clips, Draw(50))
    made = store_estimated_means(engine, clips)
    # Three groups of ratings and of the judge, by vcs and by evqa; the judge helps nowhere.
    assert len(made) == 3 * 2 * 2
    query = sa.text(
        "SELECT dataset, expensive_score, helper, group_kind, group_name, value, low, high, n, size, gain, half_width, "
        "n_more FROM estimated_means ORDER BY expensive_score, helper, group_name NULLS FIRST"
    )
    with engine.connect() as connection:
        assert load_estimated_means(connection, clips) == tuple(made)
        rows = connection.execute(query).all()
        (of_page,) = re.findall(
            r"(    SELECT expensive_score, .*?)\n\n", SQL_PAGE.read_text(encoding="utf-8"), flags=re.DOTALL
        )
        shown = connection.execute(sa.text(of_page.replace("'mine'", "'clips'"))).all()
    assert [row.expensive_score for row in shown] == ["fun", "fun", JUDGE, JUDGE]
    assert shown[0].mean >= shown[1].mean
    names = [
        (name, helper, system) for name in ("fun", JUDGE) for helper in ("evqa", "vcs") for system in (None, *SYSTEMS)
    ]
    assert [(row.expensive_score, row.helper, row.group_name) for row in rows] == names
    assert {(row.dataset, row.group_kind) for row in rows} == {("clips", "dataset"), ("clips", "system")}
    useless = rows[0]
    assert useless.low < np.mean([truth(i) for i, _ in drawn]) < useless.high
    assert (useless.n, useless.size, useless.half_width) == (80, 240, 0.2)
    with engine.begin() as connection:
        connection.execute(sa.delete(rating))
    store_estimated_means(engine, clips)
    with engine.connect() as connection:
        assert {mean.expensive_score for mean in load_estimated_means(connection, clips)} == {JUDGE}
