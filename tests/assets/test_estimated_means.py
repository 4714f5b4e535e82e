"""Mean ratings of all captions, estimated from the drawn part that people rated and corrected by a metric."""

from __future__ import annotations

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.agreement.estimated_means import EstimatedMean, estimate_mean_ratings
from db.manifest.datasets import Dataset
from db.manifest.draws import build_draw_order
from db.schema import sample
from db.scores.scorers import list_scorers
from tests.assets.reporting import rate
from tests.conftest import Template, filled_template
from tests.db.builders import add_sample, add_video, make_dataset, set_scores

SYSTEMS = ("good", "poor")
N_VIDEOS = 120


def truth(sample_id: int) -> float:
    return 1.0 + sample_id * 7 % 5


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


@pytest.fixture
def clips(engine: Engine, template: Template[Dataset]) -> Dataset:
    return template.filled


def list_drawn(engine: Engine, dataset: Dataset) -> list[tuple[int, str]]:
    query = sa.select(sample.c.sample_id, sample.c.system).where(sample.c.dataset_id == dataset.dataset_id)
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(query.order_by(*build_draw_order(0)))]


def estimate(engine: Engine, dataset: Dataset, metric: str) -> dict[str | None, EstimatedMean]:
    with engine.connect() as connection:
        (scorer,) = [scorer for scorer in list_scorers(connection) if scorer.metric == metric]
        return {mean.system: mean for mean in estimate_mean_ratings(connection, dataset, scorer)}


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
    rate(engine, {sample_id: (truth(sample_id),) for sample_id, _ in drawn[:100]}, "fun")
    mean = estimate(engine, clips, "evqa")[None]
    made = mean.estimate
    assert made.value == pytest.approx(made.plain, abs=0.1)
    assert made.low < np.mean([truth(sample_id) for sample_id, _ in drawn]) < made.high
    assert 0.8 < made.gain < 1.2
    assert 50 < mean.n_more < 140


def test_ratings_after_a_gap_do_not_count(engine: Engine, clips: Dataset) -> None:
    drawn = list_drawn(engine, clips)
    rate(engine, {sample_id: (3.0,) for place, (sample_id, _) in enumerate(drawn[:60]) if place != 20}, "fun")
    means = estimate(engine, clips, "vcs")
    assert means[None].estimate.n == 20
    gap = drawn[20][1]
    before = sum(system == gap for _, system in drawn[:20])
    assert gap not in means if before < 10 else means[gap].estimate.n == before


def test_too_few_ratings_give_no_mean(engine: Engine, clips: Dataset) -> None:
    assert estimate(engine, clips, "vcs") == {}
    rate(engine, {sample_id: (3.0,) for sample_id, _ in list_drawn(engine, clips)[:9]}, "fun")
    assert estimate(engine, clips, "vcs") == {}
