"""Means of scores over videos, against numbers by hand and against a second computation of the same formula."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from db.manifest.datasets import Dataset
from db.scores.quality import MeanScore, StatusCount, count_statuses_with_reasons, load_mean_scores
from tests.db.builders import add_sample, add_video, change_text, empty, make_dataset, set_scores


def add_scores(
    engine: Engine, dataset: Dataset, by_video: Sequence[Sequence[float | None]], kind: str = "caption"
) -> int:
    """Score captions of new videos with VCS; the scorer's number."""
    values: dict[int, float | None] = {}
    for place, of_video in enumerate(by_video):
        video = add_video(engine, dataset, f"{kind} video {place}")
        for number, value in enumerate(of_video):
            values[add_sample(engine, dataset, video, f"{place} {number}", kind=kind, **_qa(kind))] = value
    return set_scores(engine, values)


def _qa(kind: str) -> dict[str, str]:
    return {"question": "What?", "answer": "That."} if kind == "qa" else {}


def by_hand(clusters: Sequence[Sequence[float]]) -> tuple[float, float]:
    n = sum(map(len, clusters))
    mean = math.fsum(map(math.fsum, clusters)) / n
    squares = math.fsum((math.fsum(cluster) - mean * len(cluster)) ** 2 for cluster in clusters)
    return mean, math.sqrt(squares * len(clusters) / (len(clusters) - 1)) / n


def test_mean_and_error_by_hand(engine: Engine) -> None:
    """Totals 1 and 0.5 of 2 and 1 scores, mean 0.5; one more of the second kind. Undefined scores do not count.

    Three videos: residuals 1 - 2 * 0.5 = 0, 1 - 0.5 = 0.5 and 0 - 0.5 = -0.5, so the error is
    sqrt(3 / 2 * (0 + 0.25 + 0.25)) / 4.
    """
    dataset = make_dataset(engine)
    scorer_id = add_scores(engine, dataset, [[0.25, 0.75], [1.0], [0.0, None], [None]])
    with engine.connect() as connection:
        found = load_mean_scores(connection, scorer_id, dataset.dataset_id)
    assert found == [MeanScore("caption", 4, 3, 0.5, True, pytest.approx(math.sqrt(0.75) / 4))]


def test_one_video_has_a_mean_and_no_error(engine: Engine) -> None:
    dataset = make_dataset(engine)
    scorer_id = add_scores(engine, dataset, [[0.25, 0.75]])
    with engine.connect() as connection:
        found = load_mean_scores(connection, scorer_id, dataset.dataset_id, 0)
        nowhere = load_mean_scores(connection, scorer_id, dataset.dataset_id, 1)
    assert (found, nowhere) == ([MeanScore("caption", 2, 1, 0.5, True, None)], [])


def test_equal_scores_do_not_vary(engine: Engine) -> None:
    dataset = make_dataset(engine)
    scorer_id = add_scores(engine, dataset, [[0.5, 0.5], [0.5]])
    with engine.connect() as connection:
        (found,) = load_mean_scores(connection, scorer_id, dataset.dataset_id)
    assert (found.varies, found.mean, found.standard_error) == (False, 0.5, 0.0)


def test_kinds_and_shards_have_means_of_their_own(engine: Engine) -> None:
    dataset = make_dataset(engine, n_shards=2)
    shards = {number: dataset.compute_shard(f"caption video {number}") for number in range(8)}
    scorer_id = add_scores(engine, dataset, [[number / 8] for number in range(8)])
    set_scores(engine, {_pair(engine, dataset): 1.0})
    for shard in (0, 1):
        values = [number / 8 for number, of_shard in shards.items() if of_shard == shard]
        with engine.connect() as connection:
            found = load_mean_scores(connection, scorer_id, dataset.dataset_id, shard)
        (captions,) = [each for each in found if each.kind == "caption"]
        assert (captions.n, captions.mean) == (len(values), pytest.approx(sum(values) / len(values)))
    with engine.connect() as connection:
        whole = load_mean_scores(connection, scorer_id, dataset.dataset_id)
    assert [(each.kind, each.n) for each in whole] == [("caption", 8), ("qa", 1)]


def _pair(engine: Engine, dataset: Dataset) -> int:
    return add_sample(engine, dataset, add_video(engine, dataset, "asked"), "pair", kind="qa", **_qa("qa"))


clusters = st.lists(st.lists(st.floats(-7, 7, width=32), min_size=1, max_size=4), min_size=2, max_size=5)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(clusters)
def test_against_the_formula_in_python(engine: Engine, values: list[list[float]]) -> None:
    empty(engine)
    dataset = make_dataset(engine)
    scorer_id = add_scores(engine, dataset, values)
    with engine.connect() as connection:
        (found,) = load_mean_scores(connection, scorer_id, dataset.dataset_id)
    mean, error = by_hand(values)
    assert (found.mean, found.standard_error) == (pytest.approx(mean, abs=1e-9), pytest.approx(error, abs=1e-9))


def test_statuses_come_with_their_commonest_reason(engine: Engine) -> None:
    dataset = make_dataset(engine)
    video = add_video(engine, dataset, "v")
    ids = [add_sample(engine, dataset, video, str(number)) for number in range(5)]
    scorer_id = set_scores(engine, {ids[0]: 0.5, ids[1]: None, ids[2]: None, ids[3]: 0.25})
    change_text(engine, ids[3], "another")
    with engine.connect() as connection:
        found = count_statuses_with_reasons(connection, scorer_id, dataset.dataset_id, 0)
    assert found == [
        StatusCount("caption", "undefined", 2, "undefined for a reason"),
        StatusCount("caption", "ok", 1, None),
        StatusCount("caption", "stale", 1, "its inputs changed since it was scored: run reelsieve score again"),
        StatusCount("caption", "unscored", 1, None),
    ]
