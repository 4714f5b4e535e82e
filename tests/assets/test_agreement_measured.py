"""Metrics against people in the database: what is compared, what is left out, and what is stored."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from scipy import stats
from sqlalchemy.engine import Engine

from assets.agreement.judged import (
    COMMON_WORDS,
    COSINE,
    LENGTH,
    MAJORITY,
    RunJudgements,
    load_judged_samples,
)
from assets.agreement.table import compute_agreement, load_agreement
from db import schema
from db.manifest.datasets import Dataset
from db.reports.judgements import LABELS_ASPECT
from tests.assets.reporting import agree
from tests.assets.verifying import HashEncoder, score_simply
from tests.db.builders import (
    add_keypoint,
    add_label,
    add_reference,
    add_sample,
    add_video,
    change_text,
    make_dataset,
    set_scores,
)

VALUES = [0.9, 0.1, 0.8, 0.3, 0.7, 0.2, 0.4, 0.6]
RATINGS = [[5, 4], [1, 2], [4, 5], [3, 2], [4, 4], [1, 1], [3, 3], [2, 4]]


def rate(engine: Engine, sample_id: int, rater: str, value: float, aspect: str = "quality") -> None:
    row = {"sample_id": sample_id, "rater": rater, "aspect": aspect, "value": value}
    with engine.begin() as connection:
        connection.execute(schema.rating.insert().values(**row, row_sha256=b"row"))


def stored(engine: Engine) -> dict[tuple[str, str, str, str], Any]:
    with engine.connect() as connection:
        rows = connection.execute(sa.select(schema.agreement)).all()
    return {(row.metric, row.aspect, row.over, row.statistic): row for row in rows if row.against == "people"}


def ids_of(engine: Engine, dataset: Dataset) -> set[int]:
    """The rows of a dataset."""
    query = sa.select(schema.agreement.c.agreement_id).where(schema.agreement.c.dataset_id == dataset.dataset_id)
    with engine.connect() as connection:
        return set(connection.scalars(query))


@pytest.fixture
def samples(engine: Engine, clips: Dataset) -> list[int]:
    """Two systems' captions of four videos, rated by two people."""
    ids = []
    for video in range(4):
        video_id = add_video(engine, clips, f"v{video}")
        add_reference(engine, clips, video_id, f"r{video}", "a dog runs far")
        for system in ("brief", "long"):
            text = "a dog" + " runs far" * (video if system == "long" else 0)
            ids.append(add_sample(engine, clips, video_id, f"{system}{video}", text, system=system))
    for sample_id, ratings in zip(ids, RATINGS, strict=True):
        for rater, value in zip("ab", ratings, strict=True):
            rate(engine, sample_id, rater, value)
    return ids


def test_metrics_baselines_and_raters_stand_in_one_table(engine: Engine, clips: Dataset, samples: list[int]) -> None:
    scorer_id = set_scores(engine, dict(zip(samples, VALUES, strict=True)))
    score_simply(engine, clips)
    agree(engine, clips, ["vcs", "evqa"])
    rows = stored(engine)
    # Two raters of 8 captions share too few for a row of one rater.
    assert {key[0] for key in rows} == {"vcs", LENGTH, MAJORITY, COMMON_WORDS, "raters"}
    row = rows["vcs", "quality", "captions", "kendall_b"]
    means = [sum(each) / 2 for each in RATINGS]
    assert row.value == pytest.approx(stats.kendalltau(VALUES, means).statistic)
    assert row.low <= row.value <= row.high
    assert (row.scorer_id, row.n, row.n_undefined, row.n_stale, row.baseline) == (scorer_id, 8, 0, 0, False)
    assert (row.n_videos, 0 < row.p < 1) == (4, True)
    assert rows["vcs", "quality", "systems", "kendall_b"].n == 2
    assert rows[LENGTH, "quality", "captions", "kendall_b"].baseline
    assert rows[LENGTH, "quality", "captions", "kendall_b"].scorer_id is None
    assert rows["raters", "quality", "captions", "krippendorff_ordinal"].n == 16


def test_the_cosine_of_whole_texts_stands_beside_the_metrics_where_it_is_stored(
    engine: Engine, clips: Dataset, samples: list[int]
) -> None:
    """With the nearest of two references; a stale one is left out."""
    set_scores(engine, dict(zip(samples, VALUES, strict=True)))
    with engine.connect() as connection:
        videos = connection.scalars(sa.select(schema.video.c.video_id).order_by(schema.video.c.video_id)).all()
        captions = connection.scalars(sa.select(schema.sample.c.text).order_by(schema.sample.c.sample_id)).all()
    for video_id in videos:
        add_reference(engine, clips, video_id, f"other{video_id}", "a cat sleeps")
    agree(engine, clips, ["vcs"])
    assert not any(key[0] == COSINE for key in stored(engine))
    encoder = HashEncoder()
    scorer_id = score_simply(engine, clips, encoder)["cosine"]
    agree(engine, clips, ["vcs"])
    unit = {text: encoder.vector(text) for text in (*captions, "a dog runs far", "a cat sleeps")}
    cosines = [max(unit[text] @ unit["a dog runs far"], unit[text] @ unit["a cat sleeps"]) for text in captions]
    row = stored(engine)[COSINE, "quality", "captions", "kendall_b"]
    assert (row.n, row.baseline, row.scorer_id) == (8, True, scorer_id)
    assert row.value == pytest.approx(
        stats.kendalltau(cosines, [sum(each) / 2 for each in RATINGS]).statistic, abs=1e-6
    )
    add_reference(engine, clips, videos[0], "new", "never embedded")
    agree(engine, clips, ["vcs"])
    row = stored(engine)[COSINE, "quality", "captions", "kendall_b"]
    assert (row.n, row.n_stale) == (6, 2)


def test_stale_scores_are_left_out_and_counted(engine: Engine, clips: Dataset, samples: list[int]) -> None:
    set_scores(engine, dict(zip(samples, VALUES, strict=True)))
    # Another reference makes the scores of both captions of a video stale; their texts and so their ratings stay.
    with engine.connect() as connection:
        video_id = connection.scalar(sa.select(schema.sample.c.video_id).where(schema.sample.c.sample_id == samples[0]))
    add_reference(engine, clips, video_id, "another", "a cat sleeps")
    agree(engine, clips, ["vcs"])
    row = stored(engine)["vcs", "quality", "captions", "kendall_b"]
    assert (row.n, row.n_undefined, row.n_stale) == (6, 2, 2)


def test_scores_that_are_undefined_are_left_out(engine: Engine, clips: Dataset, samples: list[int]) -> None:
    set_scores(engine, {**dict(zip(samples, VALUES, strict=True)), samples[1]: None})
    agree(engine, clips, ["vcs"])
    row = stored(engine)["vcs", "quality", "captions", "kendall_b"]
    assert (row.n, row.n_undefined, row.n_stale) == (7, 1, 0)


def test_labels_are_an_aspect_and_a_judges_are_not(engine: Engine, clips: Dataset, samples: list[int]) -> None:
    set_scores(engine, dict(zip(samples, VALUES, strict=True)))
    with engine.connect() as connection:
        video_of = dict(connection.execute(sa.select(schema.sample.c.sample_id, schema.sample.c.video_id)).all())
    shares = {}
    for place, sample_id in enumerate(samples[::2]):
        keypoints = [add_keypoint(engine, clips, video_of[sample_id], f"{place} {i}", "a dog") for i in range(4)]
        for i, keypoint in enumerate(keypoints):
            add_label(engine, keypoint, sample_id, i < place)
            add_label(engine, keypoint, samples[1], True, source="judge")
        shares[sample_id] = place / 4
    agree(engine, clips, ["vcs"])
    row = stored(engine)["vcs", LABELS_ASPECT, "captions", "kendall_b"]
    assert row.n == 4
    # Keypoints are an input of ECS, not of VCS, so no score is stale.
    assert row.value == pytest.approx(stats.kendalltau(VALUES[::2], list(shares.values())).statistic)
    assert not any(key[0] == "one rater" and key[1] == LABELS_ASPECT for key in stored(engine))


def test_new_rows_replace_the_old_ones_of_this_dataset(engine: Engine, clips: Dataset, samples: list[int]) -> None:
    other = make_dataset(engine, "other")
    rate(engine, add_sample(engine, other, add_video(engine, other, "o"), "o"), "a", 3)
    assert agree(engine, other, ["vcs"])
    rows_of_other = ids_of(engine, other)
    agree(engine, clips, ["vcs"])
    before = ids_of(engine, clips)
    rows = agree(engine, clips, ["vcs"])
    assert len(ids_of(engine, clips)) == len(before) == len(rows)
    assert not before & ids_of(engine, clips)
    with engine.begin() as connection:
        connection.execute(sa.delete(schema.rating).where(schema.rating.c.sample_id.in_(samples)))
    assert agree(engine, clips, ["vcs"]) == []
    assert (ids_of(engine, clips), ids_of(engine, other)) == (set(), rows_of_other)


def test_no_judgement_reads_no_score(engine: Engine, clips: Dataset) -> None:
    sample_id = add_sample(engine, clips, add_video(engine, clips, "v"), "c")
    set_scores(engine, {sample_id: 0.5})
    with engine.connect() as connection:
        judged = load_judged_samples(connection, clips, ["vcs"])
    assert (judged.sample_ids.size, judged.metric_values, compute_agreement(judged)) == (0, {}, [])


def test_what_is_read_is_what_was_computed(engine: Engine, clips: Dataset, samples: list[int]) -> None:
    set_scores(engine, dict(zip(samples, VALUES, strict=True)))
    with engine.connect() as connection:
        assert load_agreement(connection, clips) == ([], None)
    rows = agree(engine, clips, ["vcs"])
    with engine.connect() as connection:
        found, made_at = load_agreement(connection, clips)
    assert found == rows
    assert made_at is not None
    change_text(engine, samples[0], "another text")
    assert agree(engine, clips, ["vcs"]) != rows


def test_a_run_reads_the_judgements_once(engine: Engine, clips: Dataset, samples: list[int]) -> None:
    """So the conclusions of a run rest on one state; the next run looks again."""
    judgements = RunJudgements()
    first = judgements.load("run", engine, clips)
    assert first.sample_ids.tolist() == samples
    rate(engine, samples[0], "cid", 5)
    assert judgements.load("run", engine, clips) is first
    assert judgements.load("next run", engine, clips).raters["quality"] == ("a", "b", "cid")
