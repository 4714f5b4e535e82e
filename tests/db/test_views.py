"""The views an analyst queries, over rows whose right answer is plain to see."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine

from assets.metrics.registry import METRIC_INPUTS
from db import schema
from db.evidence.verdicts import MANIFEST_LABEL_SOURCE, VERDICT_INPUTS, VerdictRow, VerdictSet, store_verdict_sets
from db.manifest.datasets import Dataset
from db.schema import view_definition
from db.schema.facts import VIDEO_FACTS
from db.schema.inputs import TEXT, VIDEO
from db.schema.migrate import migrate
from db.schema.views import VIEWS, create_views, explain_refused_metrics, has_current_views
from db.scores.pending import load_samples
from db.scores.sample_scores import FACT_COLUMNS, list_columns_without_metrics
from db.scores.store import ScoreRow
from tests.conftest import filled_template
from tests.db.builders import (
    INPUT,
    TWO_METRICS,
    activate,
    add_keypoint,
    add_label,
    add_reference,
    add_sample,
    add_video,
    change_text,
    make_dataset,
    make_dataset_of_two_metrics,
    ok,
    remove,
    set_scores,
    undefined,
    write_fresh,
)

SAMPLE_SCORES = [
    *("dataset", "shard", "video", "kind", "sample", "system", "text", "video_status", "duration_s"),
    *("width", "height", "fps", "codec", "n_frames", "licence", "source_url", "collected_at", "opt_out", "sample_id"),
    *("words", "sentences", "words_per_second", "repetition", "boilerplate", "digit_share", "name_share", "language"),
    *VIDEO_FACTS,
    *("n_references", "mean_ratings", "tags", "own_fields"),
    *("vcs", "vcs_status", "vcs_is_stale", "vcs_models"),
    *("evqa", "evqa_status", "evqa_is_stale", "evqa_models"),
]


OF_METRICS = SAMPLE_SCORES.index("vcs")


template = filled_template(make_dataset_of_two_metrics)


def rows(engine: Engine, query: str) -> list[dict[str, Any]]:
    with engine.connect() as connection:
        return [dict(row) for row in connection.execute(sa.text(query)).mappings()]


def test_sample_scores_has_one_row_per_sample_and_null_where_undefined(engine: Engine, clips: Dataset) -> None:
    video_id = add_video(engine, clips, "v", status="damaged")
    samples = [add_sample(engine, clips, video_id, f"s{i}", f"caption {i}") for i in range(4)]
    set_scores(engine, {samples[0]: 0.75, samples[1]: None})
    evqa = activate(engine, "evqa")
    write_fresh(engine, evqa, [ok(samples[0], -0.5), undefined(samples[2], "failed")])
    found = rows(engine, "SELECT sample, vcs, vcs_status, evqa, evqa_status FROM sample_scores ORDER BY sample")
    assert [tuple(row.values()) for row in found] == [
        ("s0", 0.75, "ok", -0.5, "ok"),
        ("s1", None, "undefined", None, None),
        ("s2", None, None, None, "failed"),
        ("s3", None, None, None, None),
    ]
    (first,) = rows(engine, "SELECT * FROM sample_scores WHERE sample = 's0'")
    assert list(first) == SAMPLE_SCORES
    assert first == {
        "dataset": "clips",
        "shard": 0,
        "video": "v",
        "kind": "caption",
        "sample": "s0",
        "system": "brief",
        "text": "caption 0",
        "video_status": "damaged",
        "duration_s": 4.0,
        "width": None,
        "height": None,
        "fps": None,
        "codec": None,
        "n_frames": None,
        **dict.fromkeys(("licence", "source_url", "collected_at", "opt_out")),
        "sample_id": samples[0],
        **dict.fromkeys(FACT_COLUMNS),
        "n_references": 0,
        "mean_ratings": None,
        "tags": [],
        "own_fields": None,
        "vcs": 0.75,
        "vcs_status": "ok",
        "vcs_is_stale": False,
        "vcs_models": "tiny",
        "evqa": -0.5,
        "evqa_status": "ok",
        "evqa_is_stale": False,
        "evqa_models": "tiny",
    }
    (unscored,) = rows(engine, "SELECT * FROM sample_scores WHERE sample = 's3'")
    assert (unscored["vcs_models"], unscored["evqa_models"]) == (None, None)


def test_sample_scores_has_ratings_own_fields_and_the_number_of_references(engine: Engine, clips: Dataset) -> None:
    told = add_video(engine, clips, "v", extra={"site": "a", "year": 2001, "note": None})
    bare = add_video(engine, clips, "w")
    for number in range(3):
        add_reference(engine, clips, told, f"r{number}", f"text {number}")
    add_reference(engine, clips, told, "equal", "text 1")
    own = {"site": "b", "note": "kept", "year": None, "more": {"n": None}}
    samples = {
        key: add_sample(engine, clips, video_id, key, extra=extra)
        for key, video_id, extra in (("a", told, own), ("b", told, None), ("c", bare, own), ("d", bare, None))
    }
    with engine.begin() as connection:
        for sample_id, rater, aspect, value in (
            (samples["a"], "r1", "overall", 1.0),
            (samples["a"], "r2", "overall", 4.0),
            (samples["a"], "r1", "style", 5.0),
            (samples["b"], "r1", "overall", 3.0),
        ):
            row = {"sample_id": sample_id, "rater": rater, "aspect": aspect, "value": value, "row_sha256": b""}
            connection.execute(sa.insert(schema.rating).values(row))
    found = rows(engine, "SELECT n_references, mean_ratings, own_fields FROM sample_scores ORDER BY sample")
    assert [tuple(row.values()) for row in found] == [
        # A null of the sample gives way to the value of its video, as in recipes.
        (3, {"overall": 2.5, "style": 5.0}, {"site": "b", "note": "kept", "year": 2001, "more": {"n": None}}),
        (3, {"overall": 3.0}, {"site": "a", "year": 2001, "note": None}),
        (0, None, own),
        (0, None, None),
    ]


def test_no_metric_has_the_name_of_another_column() -> None:
    assert list_columns_without_metrics() == {*SAMPLE_SCORES[:OF_METRICS]}


def test_what_nobody_asks_sample_scores_for_is_not_read(engine: Engine, clips: Dataset) -> None:
    with engine.connect() as connection:

        def plan(columns: str) -> str:
            return "\n".join(connection.exec_driver_sql(f"EXPLAIN SELECT {columns} FROM sample_scores").scalars())

        assert {"rating", "reference", "video"} & set(re.findall(r"\w+", plan("sample, system, vcs_models"))) == set()
        whole = set(re.findall(r"\w+", plan("*")))
        assert {"rating", "reference", "video"} <= whole


def test_the_name_of_a_table_is_its_key_and_no_record(engine: Engine, clips: Dataset) -> None:
    add_sample(engine, clips, add_video(engine, clips, "v"), "s")
    assert rows(engine, "SELECT sample FROM sample") == [{"sample": "s"}]
    assert rows(engine, "SELECT video FROM video") == [{"video": "v"}]
    joined = rows(engine, "SELECT sample, video FROM sample_scores NATURAL JOIN sample")
    assert joined == [{"sample": "s", "video": "v"}]


def test_sample_scores_shows_the_active_scorer_alone(engine: Engine, clips: Dataset) -> None:
    video_id = add_video(engine, clips, "v")
    samples = [add_sample(engine, clips, video_id, f"s{i}") for i in range(2)]
    query = "SELECT vcs, vcs_status FROM sample_scores ORDER BY sample"
    set_scores(engine, dict.fromkeys(samples, 0.1), version="1")
    set_scores(engine, {samples[1]: 0.2}, version="2")
    assert [tuple(row.values()) for row in rows(engine, query)] == [(None, None), (0.2, "ok")]
    activate(engine, version="1")
    assert [tuple(row.values()) for row in rows(engine, query)] == [(0.1, "ok"), (0.1, "ok")]


def test_score_history_keeps_the_scores_of_retired_scorers(engine: Engine, clips: Dataset) -> None:
    sample_id = add_sample(engine, clips, add_video(engine, clips, "v"), "s")
    old = set_scores(engine, {sample_id: 0.1}, version="1")
    new = set_scores(engine, {sample_id: None}, version="2")
    query = "SELECT scorer_id, scorer_status, code_version, value, status, error FROM score_history ORDER BY scorer_id"
    assert [tuple(row.values()) for row in rows(engine, query)] == [
        (old, "retired", "1", 0.1, "ok", None),
        (new, "active", "2", None, "undefined", "undefined for a reason"),
    ]
    (row, _) = rows(engine, "SELECT dataset, kind, sample, system, metric FROM score_history")
    assert row == {"dataset": "clips", "kind": "caption", "sample": "s", "system": "brief", "metric": "vcs"}


def test_dataset_summary_counts_each_thing_of_its_own_dataset(engine: Engine, clips: Dataset) -> None:
    fill(engine, clips)
    fill(engine, make_dataset(engine, "other", 7), twice=True)
    make_dataset(engine, "zero")
    summary = rows(engine, "SELECT * FROM dataset_summary ORDER BY dataset")
    counts = {
        "videos": 4,
        "bad_videos": 2,
        "references": 3,
        "captions": 3,
        "qa": 2,
        "keypoints": 2,
        "ratings": 2,
        "rejects": 1,
        "scores": 3,
        "old_ratings": 0,
    }
    assert summary == [
        {"dataset": "clips", "shards": 1, **counts},
        {"dataset": "other", "shards": 7, **{name: 2 * n for name, n in counts.items()}},
        {"dataset": "zero", "shards": 1, **dict.fromkeys(counts, 0)},
    ]


VERDICT_COLUMNS = [
    *("dataset", "shard", "video", "sample", "system", "dimension", "keypoint", "keypoint_text", "segment_index"),
    *("probability", "threshold", "covered", "sentence_index", "sentence", "is_stale", "label"),
    *("sample_id", "keypoint_id"),
]


def verify(engine: Engine, scorer_id: int, sample_id: int, probabilities: Mapping[int, float | None]) -> None:
    """Store a verdict on each keypoint; one without a probability is of a caption without sentences."""
    verdicts = tuple(
        VerdictRow(keypoint_id, None, None, None, 0)
        if probability is None
        else VerdictRow(keypoint_id, probability, 1, "A dog runs.", 2)
        for keypoint_id, probability in probabilities.items()
    )
    with engine.connect() as connection:
        (sample,) = load_samples(connection, [sample_id], VERDICT_INPUTS)
    store_verdict_sets(engine, scorer_id, "run", [VerdictSet(sample_id, sample.input_sha256, 2, verdicts)])


def test_keypoint_verdicts_shows_what_was_found_beside_threshold_and_label(engine: Engine, clips: Dataset) -> None:
    video_id = add_video(engine, clips, "v")
    sample_id = add_sample(engine, clips, video_id, "s")
    running = add_keypoint(engine, clips, video_id, "k0", "events", "A dog runs.", 3)
    panning = add_keypoint(engine, clips, video_id, "k1", "camera", "It pans.")
    add_label(engine, running, sample_id, True, source=MANIFEST_LABEL_SOURCE)
    add_label(engine, panning, sample_id, True, source="judge:tiny")
    scorer_id = activate(engine, "ecs")
    verify(engine, scorer_id, sample_id, {running: 0.75, panning: 0.5})
    components = {"thresholds": {"events": 0.75, "camera": 0.5000001}}
    write_fresh(engine, scorer_id, [ScoreRow(sample_id, INPUT, {}, 0.5, components, "ok", None)])
    first, second = rows(engine, "SELECT * FROM keypoint_verdicts ORDER BY keypoint")
    assert list(first) == VERDICT_COLUMNS
    assert first == {
        "dataset": "clips",
        "shard": 0,
        "video": "v",
        "sample": "s",
        "system": "brief",
        "dimension": "events",
        "keypoint": "k0",
        "keypoint_text": "A dog runs.",
        "segment_index": 3,
        "probability": 0.75,
        "threshold": 0.75,
        "covered": True,
        "sentence_index": 1,
        "sentence": "A dog runs.",
        "is_stale": False,
        "label": True,
        "sample_id": sample_id,
        "keypoint_id": running,
    }
    assert (second["keypoint"], second["covered"], second["label"]) == ("k1", False, None)


def test_a_keypoint_is_covered_or_not_once_there_is_a_threshold(engine: Engine, clips: Dataset) -> None:
    video_id = add_video(engine, clips, "v")
    keypoints = {name: add_keypoint(engine, clips, video_id, name, name) for name in ("decided", "other")}
    samples = {name: add_sample(engine, clips, video_id, name) for name in ("scored", "silent", "unscored", "failed")}
    scorer_id = activate(engine, "ecs")
    for name, sample_id in samples.items():
        verify(engine, scorer_id, sample_id, dict.fromkeys(keypoints.values(), None if name == "silent" else 0.25))
    components = {"thresholds": {"decided": 0.25}}
    scores = [ScoreRow(samples[name], INPUT, {}, 0.5, components, "ok", None) for name in ("scored", "silent")]
    write_fresh(engine, scorer_id, [*scores, undefined(samples["failed"], "failed")])
    found = rows(engine, "SELECT sample, keypoint, covered FROM keypoint_verdicts")
    covered = {(row["sample"], row["keypoint"]): row["covered"] for row in found}
    assert covered == {
        ("scored", "decided"): True,
        ("silent", "decided"): False,
        **{(name, "decided"): None for name in ("unscored", "failed")},
        **{(name, "other"): None for name in samples},
    }


def test_keypoint_verdicts_shows_active_scorers_alone(engine: Engine, clips: Dataset) -> None:
    video_id = add_video(engine, clips, "v")
    sample_id = add_sample(engine, clips, video_id, "s")
    keypoint_id = add_keypoint(engine, clips, video_id, "k")
    query = "SELECT probability FROM keypoint_verdicts ORDER BY probability"
    for version, probability in (("1", 0.25), ("2", 0.5)):
        verify(engine, activate(engine, "ecs", version), sample_id, {keypoint_id: probability})
    assert rows(engine, query) == [{"probability": 0.5}]
    verify(engine, activate(engine, "other"), sample_id, {keypoint_id: 0.75})
    assert rows(engine, query) == [{"probability": 0.5}, {"probability": 0.75}]
    activate(engine, "ecs", "1")
    assert rows(engine, query) == [{"probability": 0.25}, {"probability": 0.75}]
    remove(engine, schema.keypoint, keypoint_id)
    assert rows(engine, query) == []


def test_views_of_other_metrics_are_out_of_date(engine: Engine, clips: Dataset) -> None:
    assert clips
    with engine.connect() as connection:
        assert has_current_views(connection, TWO_METRICS)
        assert not has_current_views(connection, {"vcs": METRIC_INPUTS["vcs"]})
        assert not has_current_views(connection, dict(reversed(TWO_METRICS.items())))


def identities(engine: Engine) -> dict[str, int]:
    """What Postgres itself calls each view, anew whenever one is made."""
    query = (
        "SELECT name, CAST(to_regclass(name) AS oid) AS oid FROM view_definition WHERE to_regclass(name) IS NOT NULL"
    )
    return {row["name"]: row["oid"] for row in rows(engine, query)}


def test_views_that_are_as_they_should_be_are_left_alone(database: URL, engine: Engine, clips: Dataset) -> None:
    before = identities(engine)
    assert set(before) == set(VIEWS)
    with engine.begin() as connection:
        create_views(connection, TWO_METRICS)
    assert identities(engine) == before
    migrate(database, TWO_METRICS)
    assert identities(engine) == before


@pytest.mark.parametrize("view", ["dataset_summary", "keypoint_verdicts"])
def test_a_view_that_an_earlier_version_made_is_made_anew(
    database: URL, engine: Engine, clips: Dataset, view: str
) -> None:
    """Neither of the two has a column for each metric: their definition is all that can tell."""
    before = rows(engine, f"SELECT * FROM {view}")
    with engine.begin() as connection:
        connection.exec_driver_sql(f"DROP VIEW {view}")
        connection.exec_driver_sql(f"CREATE VIEW {view} AS SELECT 'of an earlier version' AS dataset")
        earlier = sa.update(view_definition).where(view_definition.c.name == view)
        connection.execute(earlier.values(sql_sha256=b"another"))
        assert not has_current_views(connection, TWO_METRICS)
    migrate(database, TWO_METRICS)
    assert rows(engine, f"SELECT * FROM {view}") == before
    with engine.connect() as connection:
        assert has_current_views(connection, TWO_METRICS)


def test_a_view_that_is_gone_is_made_anew(database: URL, engine: Engine, clips: Dataset) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP VIEW current_score CASCADE")
        assert not has_current_views(connection, TWO_METRICS)
    migrate(database, TWO_METRICS)
    assert rows(engine, "SELECT * FROM current_score") == []
    assert len(rows(engine, "SELECT * FROM dataset_summary")) == 1


def test_a_metric_that_depends_on_something_else_gets_other_views(engine: Engine, clips: Dataset) -> None:
    sample_id = add_sample(engine, clips, add_video(engine, clips, "v", content=b"frames"), "s")
    set_scores(engine, {sample_id: 0.5})
    query = "SELECT vcs, vcs_status FROM sample_scores"
    assert rows(engine, query) == [{"vcs": 0.5, "vcs_status": "ok"}]
    with engine.begin() as connection:
        create_views(connection, {**TWO_METRICS, "vcs": (TEXT, VIDEO)})
    assert rows(engine, query) == [{"vcs": None, "vcs_status": "stale"}]


def test_verdicts_on_another_text_decide_nothing_and_say_so(engine: Engine, clips: Dataset) -> None:
    video_id = add_video(engine, clips, "v")
    sample_id = add_sample(engine, clips, video_id, "s")
    keypoint_id = add_keypoint(engine, clips, video_id, "k", "events")
    scorer_id = activate(engine, "ecs")
    verify(engine, scorer_id, sample_id, {keypoint_id: 0.75})
    scores = [ScoreRow(sample_id, INPUT, {}, 1.0, {"thresholds": {"events": 0.5}}, "ok", None)]
    write_fresh(engine, scorer_id, scores)
    query = "SELECT probability, covered, is_stale FROM keypoint_verdicts"
    assert rows(engine, query) == [{"probability": 0.75, "covered": True, "is_stale": False}]
    change_text(engine, sample_id, "A cat sleeps.")
    assert rows(engine, query) == [{"probability": 0.75, "covered": None, "is_stale": True}]


def fill(engine: Engine, dataset: Dataset, twice: bool = False) -> None:
    """Two good videos and two bad ones; 5 samples with 3 ok scores of active scorers, and others that do not count."""
    for name in ("x", "y") if twice else ("x",):
        statuses = ["ok", "text_only", "damaged", "undecodable"]
        videos = [add_video(engine, dataset, name + status, status=status) for status in statuses]
        for i in range(3):
            add_reference(engine, dataset, videos[0], f"{name}r{i}", "a reference")
        samples = [add_sample(engine, dataset, videos[i], f"{name}s{i}") for i in range(3)]
        samples += [add_sample(engine, dataset, videos[0], f"{name}q{i}", kind="qa") for i in range(2)]
        set_scores(engine, dict.fromkeys(samples, 0.1), version="old")
        set_scores(engine, {samples[0]: 0.5, samples[1]: None, samples[3]: 0.25})
        set_scores(engine, {samples[0]: 0.5}, metric="evqa")
        for i in range(2):
            add_keypoint(engine, dataset, videos[0], f"{name}k{i}")
        with engine.begin() as connection:
            for i in range(2):
                connection.execute(
                    schema.rating.insert().values(
                        sample_id=samples[i], rater="ann", aspect="detail", value=i, row_sha256=b"row"
                    )
                )
            connection.execute(
                schema.ingest_reject.insert().values(
                    dataset_id=dataset.dataset_id, source=name, line=1, code="bad", reason="bad", raw="{"
                )
            )


@pytest.mark.parametrize(
    ("digest", "reason"),
    [
        ("sha256(s.no_such_column)", "column s.no_such_column does not exist"),
        ("s.text_sha256 ||", "syntax error at or near"),
        ("sha256(convert_to(count(*)::text, 'UTF8'))", "aggregate functions are not allowed in WHERE"),
        ("sha256(COALESCE(status, 'none')::bytea)", 'column reference "status" is ambiguous'),
        ("s.text", "function encode(text, unknown) does not exist"),
        ("sha256(sha256(s.text_sha256) || int8send(1 / 0))", "division by zero"),
    ],
)
def test_a_metric_whose_inputs_postgres_refuses_is_left_out(engine: Engine, digest: str, reason: str) -> None:
    both = {**TWO_METRICS, "broken": (TEXT, replace(TEXT, name="mood", digest=digest))}
    with engine.begin() as connection:
        create_views(connection, both)
    with engine.connect() as connection:
        assert has_current_views(connection, both)
        assert [*explain_refused_metrics(connection, both)] == ["broken"]
        assert explain_refused_metrics(connection, both)["broken"].startswith(reason)
        assert explain_refused_metrics(connection, TWO_METRICS) == {}
        columns = connection.execute(sa.text("SELECT * FROM sample_scores LIMIT 0")).keys()
    assert list(columns) == SAMPLE_SCORES
    # Once it is mended, the views are made anew; and where the table of its source is only to be made.
    mended = {**both, "broken": (replace(TEXT, digest="sha256(int8send(s.sample_id % 2))"),)}
    unmade = sa.Table("not_made_yet", sa.MetaData())
    with engine.begin() as connection:
        assert not has_current_views(connection, mended)
        assert not has_current_views(connection, both, [unmade])
        create_views(connection, mended)
        assert has_current_views(connection, mended)
        assert explain_refused_metrics(connection, mended) == {}
