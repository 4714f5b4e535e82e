"""The arrays of a report are the rows of view sample_scores, and the judgements those of the views on them."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import Engine

from db.manifest.datasets import Dataset
from db.reports.judgements import LABELS_ASPECT
from db.reports.samples import load_statuses
from db.schema import rating
from db.scores.quality import StatusCount, count_scores_without_value
from db.scores.score_arrays import load_score_arrays, load_values
from tests.conftest import Template, filled_template
from tests.db.builders import (
    activate,
    add_keypoint,
    add_label,
    add_sample,
    add_video,
    change_text,
    empty,
    make_dataset,
    set_scores,
)
from tests.db.judging import load

METRICS = ("vcs", "evqa", "ecs")
SYSTEMS = ("alpha", "beta", "gamma")
N_VIDEOS = 9


def vcs_of(place: int) -> float | None:
    """Many equal values, and none for every seventh sample."""
    return None if place % 7 == 6 else (place * 5 % 8) / 8


def fill(engine: Engine) -> tuple[Dataset, list[int], dict[str, int]]:
    """Captions of three systems, those of a video far apart in the table; ECS has scored nothing, EVQA some."""
    dataset = make_dataset(engine, "clips", 2)
    videos = [add_video(engine, dataset, f"v{number}", status="text_only") for number in range(N_VIDEOS)]
    ids = [
        add_sample(engine, dataset, video, f"{system}_{number}", f"a dog {system}", system=system)
        for system in SYSTEMS
        for number, video in enumerate(videos)
    ]
    vcs = set_scores(engine, {i: vcs_of(place) for place, i in enumerate(ids)})
    evqa = set_scores(engine, {i: 1 - place / 100 for place, i in enumerate(ids) if place % 2}, "evqa")
    return dataset, ids, {"vcs": vcs, "evqa": evqa, "ecs": activate(engine, "ecs")}


Clips = tuple[Dataset, list[int], dict[str, int]]
template = filled_template(fill)


@pytest.fixture
def clips(engine: Engine, template: Template[Clips]) -> Clips:
    return template.filled


def test_the_arrays_are_the_rows_of_the_view(engine: Engine, clips: Clips) -> None:
    dataset, ids, scorers = clips
    other = make_dataset(engine, "other")
    elsewhere = add_sample(engine, other, add_video(engine, other, "v"), "s")
    set_scores(engine, {elsewhere: 0.25, ids[2]: None})
    question = add_sample(engine, dataset, 1, "q", kind="qa", question="q", answer="a")
    change_text(engine, ids[0], "another caption")
    query = "SELECT s.sample_id, s.video_id, s.shard, s.system, draw_number(s.kind, s.key, 0), vcs, evqa, ecs "
    query += "FROM sample s JOIN sample_scores v ON v.sample_id = s.sample_id WHERE v.dataset = 'clips' ORDER BY 1"
    with engine.begin() as connection:
        rows = [tuple(row) for row in connection.exec_driver_sql(query)]
        by_kind = load_score_arrays(connection, dataset, scorers)
    loaded = []
    for arrays in by_kind.values():
        systems = [arrays.systems[place] for place in arrays.system_places]
        values = [[None if np.isnan(v) else v for v in arrays.values[metric].tolist()] for metric in METRICS]
        columns = (arrays.sample_ids.tolist(), arrays.video_ids.tolist(), arrays.shards.tolist(), systems)
        loaded += list(zip(*columns, arrays.chances.tolist(), *values, strict=True))
    assert loaded == rows
    assert (list(by_kind), by_kind["qa"].sample_ids.tolist(), ids[0] in by_kind["caption"].sample_ids) == (
        ["caption", "qa"],
        [question],
        True,
    )


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 20), min_size=1, max_size=6), st.sampled_from([1, 3, 4_000_000]), st.randoms())
def test_values_come_past_samples_of_other_datasets(
    engine: Engine, gaps: list[int], at_once: int, random: Random
) -> None:
    """Between two samples lie none, a few or many of another dataset, which the same scorer scored."""
    empty(engine)
    clips, other = make_dataset(engine), make_dataset(engine, "other")
    video, elsewhere = add_video(engine, clips, "v"), add_video(engine, other, "v")
    values: dict[int, float | None] = {}
    asked = []
    for place, gap in enumerate(gaps):
        for number in range(gap):
            values[add_sample(engine, other, elsewhere, f"{place} {number}")] = -1.0
        asked.append(add_sample(engine, clips, video, f"s{place}"))
        values[asked[-1]] = random.choice([None, 0.25 * place])
    scorer_id = set_scores(engine, values)
    with engine.begin() as connection:
        loaded = load_values(connection, scorer_id, np.array(asked), at_once)
    assert [None if np.isnan(value) else value for value in loaded] == [values[i] for i in asked]


def test_systems_with_more_samples_come_first(engine: Engine) -> None:
    dataset = make_dataset(engine, "other", 3)
    names = ["é", "b", "b", "a", "c", "c", "c"]
    for place, system in enumerate(names):
        add_sample(engine, dataset, add_video(engine, dataset, f"v{place}"), f"s{place}", system=system)
    with engine.begin() as connection:
        (arrays,) = load_score_arrays(connection, dataset, {}).values()
    assert arrays.systems == ("c", "b", "a", "é")
    assert [arrays.systems[place] for place in arrays.system_places] == names


def test_an_empty_dataset_has_no_kinds(engine: Engine) -> None:
    with engine.begin() as connection:
        assert load_score_arrays(connection, make_dataset(engine, "other"), {"vcs": activate(engine)}) == {}


def test_scores_without_a_value_are_counted_with_the_commonest_reason(engine: Engine, clips: Clips) -> None:
    dataset, ids, scorers = clips
    change_text(engine, ids[0], "another caption")
    change_text(engine, ids[6], "yet another caption")
    query = sa.text("SELECT DISTINCT error FROM score WHERE scorer_id = :id AND value IS NULL")
    with engine.begin() as connection:
        reason = connection.execute(query, {"id": scorers["vcs"]}).scalar_one()
        counts = {metric: count_scores_without_value(connection, dataset, scorers[metric]) for metric in METRICS}
        statuses = load_statuses(connection, ids)
        views = "SELECT sample_id, vcs_status, evqa_status FROM sample_scores ORDER BY 1"
        of_view = [tuple(row) for row in connection.exec_driver_sql(views)]
    # Of 27 samples three are undefined, one of which is stale now.
    assert sorted(counts["vcs"], key=lambda count: count.status) == [
        StatusCount("caption", "stale", 2, None),
        StatusCount("caption", "undefined", 2, reason),
    ]
    assert (counts["evqa"], counts["ecs"]) == ([], [])
    assert Counter(statuses.values()) == {"ok": 36, "stale": 2, "undefined": 2}
    assert [(i, statuses.get((i, "vcs")), statuses.get((i, "evqa"))) for i in ids] == of_view


KIND = st.sampled_from(["caption", "qa"])
JUDGEMENT = st.tuples(
    st.integers(0, 5), st.sampled_from(["label", "fluency", 'it\'s "good" 100%s é']), st.integers(1, 5)
)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(KIND, min_size=6, max_size=6), st.lists(JUDGEMENT, max_size=12))
def test_judgements_come_by_kind_and_aspect(
    engine: Engine, kinds: list[str], judged: list[tuple[int, str, int]]
) -> None:
    empty(engine)
    dataset = make_dataset(engine)
    videos = [add_video(engine, dataset, f"v{place}") for place in range(6)]
    ids = [
        add_sample(engine, dataset, videos[place], f"s{place}", kind=kind, question="q", answer="a")
        if kind == "qa"
        else add_sample(engine, dataset, videos[place], f"s{place}")
        for place, kind in enumerate(kinds)
    ]
    expected: dict[tuple[str, str, str], dict[int, list[float]]] = {}
    for number, (place, aspect, value) in enumerate(judged):
        if aspect == "label":
            keypoint = add_keypoint(engine, dataset, videos[place], f"k{number}", "a dog")
            add_label(engine, keypoint, ids[place], covered=value > 2)
            add_label(engine, keypoint, ids[place], covered=True, source="a judge")
        else:
            row = {"sample_id": ids[place], "rater": f"r{number}", "aspect": aspect, "value": value, "row_sha256": b""}
            with engine.begin() as connection:
                connection.execute(sa.insert(rating), row)
        number_given = float(value > 2) if aspect == "label" else float(value)
        key = (LABELS_ASPECT, "labels") if aspect == "label" else (aspect, f"r{number}")
        expected.setdefault((kinds[place], *key), {}).setdefault(ids[place], []).append(number_given)
    with engine.begin() as connection:
        loaded = load(connection, dataset)
    assert list(loaded) == (sorted({kinds[place] for place, _, _ in judged}) or ["caption"])
    found = {}
    for kind, people in loaded.items():
        places = sorted({place for place, _, _ in judged if kinds[place] == kind})
        assert people.sample_ids.tolist() == [ids[place] for place in places]
        assert people.videos == [videos[place] for place in places]
        assert len(people.systems) == people.words.size == len(places)
        for aspect, values in people.ratings.items():
            for rater, column in zip(people.raters[aspect], values.T, strict=True):
                rows = zip(people.sample_ids.tolist(), column.tolist(), strict=True)
                found[kind, aspect, rater] = {sample_id: value for sample_id, value in rows if value == value}
    assert found == {
        key: {sample_id: pytest.approx(sum(given) / len(given)) for sample_id, given in by_sample.items()}
        for key, by_sample in expected.items()
    }
