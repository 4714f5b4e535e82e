"""Thresholds of shards and the check that shards are alike, on a real database and in a real run of the asset."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.definitions.curation import Curation
from assets.definitions.thresholds import ALIKE_CHECK, threshold
from assets.metrics.registry import METRIC_INPUTS, SCORERS
from db.manifest.datasets import Dataset
from db.schema.views import create_views
from db.scores.score_arrays import load_score_arrays
from metrics_core.calibration import compute_share_thresholds
from metrics_core.calibration.search import KEPT_SHARES
from metrics_core.selection.distribution import compute_group_means
from metrics_core.selection.strata import count_in_share
from tests.db.builders import add_sample, add_video, make_dataset, set_scores

N_SHARDS, N_VIDEOS = 3, 150


@pytest.fixture
def clips(engine: Engine) -> Dataset:
    with engine.begin() as connection:
        create_views(connection, METRIC_INPUTS)
    return make_dataset(engine, n_shards=N_SHARDS)


def fill(engine: Engine, dataset: Dataset, lift: float) -> tuple[int, dict[int, list[tuple[int, float]]]]:
    """Two captions a video, those of shard 1 better by `lift`; the scorer and, by shard, videos and values."""
    values: dict[int, float | None] = {}
    by_shard: dict[int, list[tuple[int, float]]] = {shard: [] for shard in range(N_SHARDS)}
    for number in range(N_VIDEOS):
        key = f"video {number}"
        video, shard = add_video(engine, dataset, key), dataset.compute_shard(key)
        for place in range(2):
            value = (number * 37 % 101 + place) / 250 + (lift if shard == 1 else 0.0)
            values[add_sample(engine, dataset, video, f"{key} {place}")] = value
            by_shard[shard].append((video, value))
    values[add_sample(engine, dataset, video, "undefined")] = None
    return set_scores(engine, values), by_shard


def materialised(engine: Engine, dataset: Dataset, home: Path) -> dg.ExecuteInProcessResult:
    curation = Curation(lambda: home, None, lambda: engine, SCORERS)
    return dg.materialize(
        [threshold],
        partition_key=dataset.name,
        resources={"curation": curation},
        instance=_instance(dataset),
        selection=["threshold"],
    )


def _instance(dataset: Dataset) -> dg.DagsterInstance:
    instance = dg.DagsterInstance.ephemeral()
    instance.add_dynamic_partitions("dataset", [dataset.name])
    return instance


def test_the_cutoffs_of_shards_and_the_means_of_videos_are_those_by_hand(engine: Engine, clips: Dataset) -> None:
    scorer_id, by_shard = fill(engine, clips, 0.0)
    with engine.begin() as connection:
        (arrays,) = load_score_arrays(connection, clips, {"vcs": scorer_id}).values()
    known = np.isfinite(arrays.values["vcs"])
    values, of_shard = arrays.values["vcs"][known], arrays.shards[known]
    found = compute_share_thresholds(values, of_shard)
    means, positions = compute_group_means(values, arrays.video_ids[known])
    shards = of_shard[positions].tolist()
    expected = [
        (shard, len(rows), f"keep {share:g}", cut, sum(value >= cut for _, value in rows))
        for shard, rows in by_shard.items()
        for share in KEPT_SHARES
        for cut in [sorted((value for _, value in rows), reverse=True)[count_in_share(share, len(rows)) - 1]]
    ]
    assert [(one.shard, one.n, one.objective, one.at_least, one.n_kept) for one in found] == expected
    videos: dict[tuple[int, int], list[float]] = {}
    for shard, rows in by_shard.items():
        for video, value in rows:
            videos.setdefault((shard, video), []).append(value)
    by_hand = sorted((shard, sum(pair) / 2) for (shard, _), pair in videos.items())
    np.testing.assert_allclose(sorted(zip(shards, means, strict=True)), by_hand)


@pytest.mark.parametrize(("lift", "is_alike"), [(0.0, True), (0.3, False)])
def test_the_asset_stores_all_cutoffs_and_says_which_shard_is_other(
    engine: Engine, clips: Dataset, tmp_path: Path, lift: float, is_alike: bool
) -> None:
    fill(engine, clips, lift)
    # Without a score, question-answer pairs change no name of a score.
    add_sample(engine, clips, add_video(engine, clips, "v"), "q", kind="qa", question="q", answer="a")
    for _ in range(2):
        result = materialised(engine, clips, tmp_path)
    (check,) = result.get_asset_check_evaluations()
    assert (check.check_name, check.passed, check.severity) == (ALIKE_CHECK, is_alike, dg.AssetCheckSeverity.WARN)
    if is_alike:
        assert check.description == "In every shard, scores are distributed as in the others."
    else:
        beginning = (
            f"3 of {N_SHARDS} shards differ from the rest in scores: vcs in shard 1 (Cliff's delta 0.93), vcs in "
        )
        assert str(check.description).startswith(beginning)
    with engine.connect() as connection:
        query = "SELECT shard IS NULL, count(*) FROM score_threshold WHERE method = 'quantile' GROUP BY 1 ORDER BY 1"
        assert [tuple(row) for row in connection.execute(sa.text(query))] == [(False, 4 * N_SHARDS), (True, 4)]
