"""What a report reads of a dataset's scores, against plain Python over the same values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from db.evidence.verdicts import MANIFEST_LABEL_SOURCE
from db.manifest.datasets import Dataset
from db.reports import videos as report_videos
from db.reports.samples import list_extreme_samples, load_values_and_ranks
from db.reports.values import (
    count_kept_by_system,
    create_reported_table,
    draw_values,
    list_systems,
    load_commonest_reasons,
    load_values_at_ranks,
    tally_statuses,
)
from db.reports.videos import load_judgements_by_video, load_values_by_video
from tests.conftest import Template, filled_template
from tests.db.builders import add_sample, add_video, change_text, make_dataset, set_scores

METRICS = ["vcs", "evqa", "ecs"]
SYSTEMS = ["alpha", "beta", "gamma"]
N_VIDEOS = 9


def vcs_of(place: int) -> float | None:
    """Many equal values, and none for every seventh sample."""
    return None if place % 7 == 6 else (place * 5 % 8) / 8


def fill(engine: Engine) -> tuple[Dataset, list[int]]:
    """Captions of three systems, those of a video far apart in the table; ECS has scored nothing, EVQA some."""
    dataset = make_dataset(engine, "clips", 2)
    videos = [add_video(engine, dataset, f"v{number}", status="text_only") for number in range(N_VIDEOS)]
    ids = [
        add_sample(engine, dataset, video, f"{system}_{number}", f"a dog {system}", system=system)
        for system in SYSTEMS
        for number, video in enumerate(videos)
    ]
    set_scores(engine, {i: vcs_of(place) for place, i in enumerate(ids)})
    set_scores(engine, {i: 1 - place / 100 for place, i in enumerate(ids) if place % 2}, "evqa")
    return dataset, ids


template = filled_template(fill)


@pytest.fixture
def clips(engine: Engine, template: Template[tuple[Dataset, list[int]]]) -> tuple[Dataset, list[int]]:
    return template.filled


@contextmanager
def collected(engine: Engine, dataset: Dataset) -> Iterator[Connection]:
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection, connection.begin():
        create_reported_table(connection, dataset, METRICS)
        yield connection


def videos_of(connection: Connection) -> dict[int, int]:
    return {row[0]: row[1] for row in connection.exec_driver_sql("SELECT sample_id, video_id FROM sample")}


def scores_of(connection: Connection, relation: str) -> list[tuple[Any, ...]]:
    columns = "".join(f", {metric}, COALESCE({metric}_status, 'unscored')" for metric in METRICS)
    query = f"SELECT sample_id, kind, shard, system{columns} FROM {relation} ORDER BY sample_id"
    return [tuple(row) for row in connection.exec_driver_sql(query)]


def test_the_rows_are_those_of_view_sample_scores(engine: Engine, clips: tuple[Dataset, list[int]]) -> None:
    dataset, ids = clips
    with collected(engine, dataset) as connection:
        assert scores_of(connection, "reported") == scores_of(connection, "sample_scores")
        assert tally_statuses(connection, METRICS) == {
            "vcs": [("caption", "ok", 24, 0.0, 0.875), ("caption", "undefined", 3, None, None)],
            "evqa": [("caption", "unscored", 14, None, None), ("caption", "ok", 13, 0.75, 0.99)],
            "ecs": [("caption", "unscored", 27, None, None)],
        }
    change_text(engine, ids[0], "another caption")
    with collected(engine, dataset) as connection:
        assert load_values_and_ranks(connection, [ids[0]], METRICS)[ids[0]]["vcs_status"] == "stale"
        assert scores_of(connection, "reported") == scores_of(connection, "sample_scores")


def test_why_samples_have_no_value(engine: Engine, clips: tuple[Dataset, list[int]]) -> None:
    with collected(engine, clips[0]) as connection:
        scorer_id = connection.exec_driver_sql("SELECT scorer_id FROM scorer WHERE metric = 'vcs'").scalar_one()
        stored = connection.exec_driver_sql("SELECT DISTINCT error FROM score WHERE error IS NOT NULL").scalar_one()
        assert load_commonest_reasons(connection, "vcs", scorer_id) == {"undefined": stored}


def test_ranks_count_equal_values_half(engine: Engine, clips: tuple[Dataset, list[int]]) -> None:
    dataset, ids = clips
    values = [value for place in range(len(ids)) if (value := vcs_of(place)) is not None]
    with collected(engine, dataset) as connection:
        shown = load_values_and_ranks(connection, ids[3:20], METRICS)
    assert set(shown) == set(ids[3:20])
    for place, sample_id in list(enumerate(ids))[3:20]:
        value, rank = vcs_of(place), shown[sample_id]["vcs_rank"]
        assert shown[sample_id]["ecs_rank"] is None
        if value is None:
            assert rank is None
        else:
            below, equal = sum(other < value for other in values), values.count(value)
            assert rank == pytest.approx((below + equal / 2) / len(values))


def test_extremes_are_of_different_videos(
    engine: Engine, clips: tuple[Dataset, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, ids = clips
    # The best three captions are of one video.
    set_scores(engine, {i: 2.0 if place % N_VIDEOS == 4 else place / 100 for place, i in enumerate(ids)})
    for rows_at_a_time in (50, 2):
        monkeypatch.setattr("db.reports.samples.ROWS", rows_at_a_time)
        with collected(engine, dataset) as connection:
            first, second, third = list_extreme_samples(connection, "caption", "vcs", 3, best=True)
            assert (ids.index(first) % N_VIDEOS, second, third) == (4, ids[26], ids[25])
            assert list_extreme_samples(connection, "caption", "vcs", 2, best=False) == ids[:2]
            assert len(list_extreme_samples(connection, "caption", "vcs", 50, best=False)) == N_VIDEOS
            assert list_extreme_samples(connection, "caption", "ecs", 2, best=True) == []


def test_thresholds_and_what_they_leave(engine: Engine, clips: tuple[Dataset, list[int]]) -> None:
    dataset, ids = clips
    values = sorted((v for place in range(len(ids)) if (v := vcs_of(place)) is not None), reverse=True)
    places = [12, 6, 3, 1]
    with collected(engine, dataset) as connection:
        cuts = load_values_at_ranks(connection, "caption", "vcs", places, len(values))
        assert cuts == [values[place - 1] for place in places]
        left_over = count_kept_by_system(connection, "caption", {"ecs": cuts, "vcs": cuts})
        assert count_kept_by_system(connection, "qa", {"vcs": cuts}) == {"vcs": []}
        assert (left_over["ecs"], [row[0] for row in left_over["vcs"]]) == ([], SYSTEMS)
        for system, n, left in left_over["vcs"]:
            start = SYSTEMS.index(system) * N_VIDEOS
            own = [v for place in range(start, start + N_VIDEOS) if (v := vcs_of(place)) is not None]
            assert (n, left) == (len(own), [sum(v >= cut for v in own) for cut in cuts])
        assert list_systems(connection) == [("caption", system, N_VIDEOS, N_VIDEOS) for system in SYSTEMS]


def test_a_draw_is_the_same_each_time(engine: Engine, clips: tuple[Dataset, list[int]]) -> None:
    dataset, ids = clips
    with collected(engine, dataset) as connection:
        drawn = draw_values(connection, "caption", ["vcs"], 10)
        assert drawn == draw_values(connection, "caption", ["vcs"], 20)[:10]
    assert len({sample_id for sample_id, _ in drawn}) == 10
    assert all(values == [vcs_of(ids.index(sample_id))] for sample_id, values in drawn)


@pytest.mark.parametrize("batch", [1, 4, 4096])
def test_values_come_video_by_video(
    engine: Engine, clips: tuple[Dataset, list[int]], batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_videos, "_VIDEOS", batch)
    dataset, ids = clips
    with collected(engine, dataset) as connection:
        batches = list(load_values_by_video(connection, "caption", ["vcs", "evqa"], ["gamma", "alpha"]))
        video_of = videos_of(connection)
        # The connection can be used after the stream.
        assert connection.exec_driver_sql("SELECT 1").scalar_one() == 1
    wanted = sorted(
        (video_of[i], {"alpha": 1, "beta": -1, "gamma": 0}[SYSTEMS[place // N_VIDEOS]], vcs_of(place))
        for place, i in enumerate(ids)
        if place % 7 != 6
    )
    videos, systems, values = (np.concatenate([each[part] for each in batches]) for part in range(3))
    known = np.isfinite(values[:, 0])
    found = zip(videos[known].tolist(), systems[known].tolist(), values[known, 0].tolist(), strict=True)
    assert sorted(found) == wanted
    assert (values.shape, int(np.isfinite(values[:, 1]).sum())) == ((27, 2), 13)
    seen: set[int] = set()
    for each in batches:
        assert seen.isdisjoint(each.video_ids.tolist())
        seen.update(each.video_ids.tolist())
    if batch == 1:
        assert len(batches) == N_VIDEOS


def test_ratings_and_labels_are_averaged_by_sample(engine: Engine, clips: tuple[Dataset, list[int]]) -> None:
    from db.schema import keypoint, keypoint_label, rating

    dataset, ids = clips
    aspect = 'it\'s "good" 100%s ' + "é" * 80
    with engine.begin() as connection:
        video_of = videos_of(connection)
        rows = [{"sample_id": ids[0], "rater": r, "aspect": aspect, "value": v} for r, v in (("a", 1.0), ("b", 4.0))]
        connection.execute(sa.insert(rating), [{**row, "row_sha256": b""} for row in rows])
        points = [
            {"dataset_id": dataset.dataset_id, "video_id": video_of[ids[1]], "key": key, "text": key, "row_sha256": b""}
            for key in "abc"
        ]
        query = sa.insert(keypoint).returning(keypoint.c.keypoint_id)
        for place, point in enumerate(points):
            keypoint_id = connection.execute(query.values(**point, dimension="d")).scalar_one()
            label = {"sample_id": ids[1], "keypoint_id": keypoint_id, "covered": place != 1, "row_sha256": b""}
            source = "a judge" if place == 2 else MANIFEST_LABEL_SOURCE
            connection.execute(sa.insert(keypoint_label).values(**label, source=source))
    with collected(engine, dataset) as connection:
        batches = list(load_judgements_by_video(connection, "caption", [aspect, "labels"], "labels", SYSTEMS))
    by_video = {
        video: values
        for each in batches
        for video, values in zip(each.video_ids.tolist(), each.values.tolist(), strict=True)
    }
    assert by_video[video_of[ids[0]]] == [2.5, pytest.approx(np.nan, nan_ok=True)]
    assert by_video[video_of[ids[1]]] == [pytest.approx(np.nan, nan_ok=True), 0.5]
    assert (len(by_video), {place for each in batches for place in each.system_places.tolist()}) == (2, {0})
