"""Histograms and thresholds of stored scores, against plain queries and a sorted list."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from db.manifest.datasets import Dataset
from db.scores.score_arrays import load_score_arrays
from metrics_core.arrays import FloatArray, IntArray
from metrics_core.calibration import Threshold, compute_share_thresholds
from metrics_core.calibration.search import KEPT_SHARES
from metrics_core.selection.distribution import Distribution, compute_distribution, compute_group_means
from metrics_core.selection.strata import count_in_share
from tests.db.builders import (
    activate,
    add_sample,
    add_video,
    change_text,
    empty,
    make_dataset,
    set_scores,
)

DEFINED = (
    "WITH defined AS (SELECT s.shard, c.value FROM score c JOIN sample s USING (sample_id) "
    "WHERE c.scorer_id = :scorer_id AND s.dataset_id = :dataset_id AND c.value IS NOT NULL AND NOT c.is_stale) "
)
BINS = (
    "SELECT CASE WHEN low = high THEN 1 ELSE LEAST(width_bucket(value, low, high, :bins), :bins) END, count(*) "
    "FROM defined CROSS JOIN (SELECT min(value) AS low, max(value) AS high FROM defined) e GROUP BY 1"
)
THRESHOLDS = (
    "SELECT r.shard, r.n, CAST(s.share AS float8), r.value, r.n_kept FROM (SELECT shard, value, "
    "row_number() OVER (PARTITION BY shard ORDER BY value DESC) AS place, "
    "count(*) OVER (PARTITION BY shard ORDER BY value DESC) AS n_kept, "
    "count(*) OVER (PARTITION BY shard) AS n FROM defined) r JOIN unnest(CAST(:shares AS text[])) s (share) "
    "ON r.place = GREATEST(1, floor(CAST(s.share AS numeric) * r.n)) ORDER BY r.shard, CAST(s.share AS numeric)"
)


class Defined(NamedTuple):
    """The defined scores of samples of one kind."""

    values: FloatArray
    shards: npt.NDArray[np.int16]
    video_ids: IntArray


def load(engine: Engine, scorer_id: int, dataset: Dataset) -> dict[str, Defined]:
    with engine.begin() as connection:
        loaded = load_score_arrays(connection, dataset, {"vcs": scorer_id})
    return {
        kind: Defined(arrays.values["vcs"][rows], arrays.shards[rows], arrays.video_ids[rows])
        for kind, arrays in loaded.items()
        for rows in [np.isfinite(arrays.values["vcs"])]
        if rows.any()
    }


def plain(engine: Engine, query: str, **values: Any) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text(DEFINED + query), values)]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.integers(-8, 8).map(lambda n: n / 8) | st.floats(-1, 1) | st.floats(allow_nan=False, allow_infinity=False),
        min_size=1,
        max_size=12,
    )
)
def test_any_values_are_counted_as_a_plain_query_counts_them(engine: Engine, values: list[float]) -> None:
    empty(engine)
    clips = make_dataset(engine, n_shards=2)
    videos = [add_video(engine, clips, f"v{i}") for i in range(3)]
    samples = [add_sample(engine, clips, videos[i % 3], f"s{i}") for i in range(len(values) + 1)]
    scorer_id = set_scores(engine, {**dict(zip(samples, values, strict=False)), samples[-1]: None})
    (scores,) = load(engine, scorer_id, clips).values()
    made = compute_distribution(scores.values, 4)
    best = sorted(values, reverse=True)
    assert (made.n, made.low, made.high) == (len(values), min(values), max(values))
    found = compute_share_thresholds(scores.values)
    cuts = [best[count_in_share(share, len(best)) - 1] for share in KEPT_SHARES]
    assert [(one.n, one.at_least, one.n_kept) for one in found] == [
        (len(values), cut, sum(value >= cut for value in values)) for cut in cuts
    ]
    ids = {"scorer_id": scorer_id, "dataset_id": clips.dataset_id}
    in_bins = dict(plain(engine, BINS, bins=4, **ids))
    assert list(made.counts) == [in_bins.get(place, 0) for place in range(1, 5)]
    by_shard = compute_share_thresholds(scores.values, scores.shards)
    found_rows = [
        (one.shard, one.n, float(one.objective.removeprefix("keep ")), one.at_least, one.n_kept) for one in by_shard
    ]
    assert sorted(found_rows) == plain(engine, THRESHOLDS, shares=list(map(str, KEPT_SHARES)), **ids)


def test_only_fresh_scores_of_the_dataset_count(engine: Engine) -> None:
    clips, other = make_dataset(engine), make_dataset(engine, "other")
    samples = [add_sample(engine, clips, add_video(engine, clips, f"v{i}"), f"s{i}") for i in range(4)]
    elsewhere = add_sample(engine, other, add_video(engine, other, "v"), "s")
    scorer_id = set_scores(engine, dict(zip([*samples, elsewhere], [0.1, 0.2, 0.3, 0.9, 0.7], strict=True)))
    change_text(engine, samples[3], "Another.")
    of_clips, of_other = (
        compute_distribution(load(engine, scorer_id, dataset)["caption"].values, 2) for dataset in (clips, other)
    )
    assert of_clips == Distribution(3, 0.1, 0.3, (1, 2))
    assert of_other == Distribution(1, 0.7, 0.7, (1, 0))


def test_scores_come_by_kind_with_shard_and_video(engine: Engine) -> None:
    """Question-answer pairs on a scale of their own move no threshold of captions, and no mean of a video."""
    clips = make_dataset(engine, n_shards=2)
    captions, pairs, videos = {}, {}, {}
    for number in range(8):
        video_id = add_video(engine, clips, f"v{number}")
        videos[video_id] = (number / 8, clips.compute_shard(f"v{number}"))
        captions[add_sample(engine, clips, video_id, f"c{number}")] = number / 8
        pairs[add_sample(engine, clips, video_id, f"q{number}", kind="qa", question="q", answer="a")] = 2.0 + number
    scores = load(engine, set_scores(engine, {**captions, **pairs}), clips)
    assert list(scores) == ["caption", "qa"]
    rows = zip(*(column.tolist() for column in scores["caption"]), strict=True)
    assert {video: (value, shard) for value, shard, video in rows} == videos
    assert sorted(scores["qa"].values.tolist()) == sorted(pairs.values())


def test_groups_have_their_own_thresholds_and_means() -> None:
    values, groups = np.array([0.5, 0.1, 0.9, 0.5, 0.5]), np.array([4, 2, 4, 4, 2])
    assert compute_share_thresholds(values, groups) == [
        Threshold(objective=objective, n=n, at_least=cut, n_kept=1, shard=group)
        for group, n, cut in ((2, 2, 0.5), (4, 3, 0.9))
        for objective in ("keep 0.5", "keep 0.25", "keep 0.125", "keep 0.0625")
    ]
    means, positions = compute_group_means(values, groups)
    np.testing.assert_allclose(means, [0.3, 1.9 / 3])
    assert groups[positions].tolist() == [2, 4]
    assert compute_share_thresholds(np.empty(0), np.empty(0, dtype=np.intp)) == []


@pytest.mark.parametrize("n", [0, 1])
def test_without_a_defined_score(engine: Engine, n: int) -> None:
    clips = make_dataset(engine)
    samples = [add_sample(engine, clips, add_video(engine, clips, f"v{i}"), f"s{i}") for i in range(n)]
    scorer_id = set_scores(engine, dict.fromkeys(samples)) if n else activate(engine)
    assert load(engine, scorer_id, clips) == {}
