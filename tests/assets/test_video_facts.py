"""Facts about videos, from files to columns: measured once, tried again where they failed, never of another file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from assets.ingest.run import ingest_folder
from assets.selection.select import make_selection
from assets.sources.facts import measure_texts, measure_videos
from db.evidence.facts import (
    VideoFacts,
    list_measurement_errors,
    list_unmeasured_videos,
    store_video_facts,
)
from db.manifest.datasets import Dataset, find_dataset
from db.schema import video
from db.selection.freeze import Selection
from db.selection.recipes import SelectionError, parse_recipe
from db.selection.stored_selections import load_selection_rows
from metrics_core.facts.models import find_fact_models
from metrics_core.facts.pictures import PICTURE_FACTS_VERSION
from tests.assets.manifests import write_manifest
from tests.db.builders import set_scores
from tests.metrics_core.frames_clips import RATE, encode_pictures

CLIPS = {"still": 0, "slow": 1, "fast": 3}


def pan(pixels: int, seed: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    blocks = np.random.default_rng(seed).integers(30, 220, (12, 60, 3), dtype=np.uint8)
    wide = np.kron(blocks, np.ones((8, 8, 1), np.uint8))
    return np.stack([wide[:, pixels * t : pixels * t + 160] for t in range(48)])


def heights_a_second(pixels: float) -> float:
    """The motion of a clip of 96 rows that moves by so many pixels a frame."""
    return pixels * RATE / 96


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three clips of known motion, a fourth without a file, and a caption of each."""
    rows: dict[str, list[dict[str, Any]]] = {"videos": [], "captions": []}
    for number, (key, pixels) in enumerate(CLIPS.items()):
        encode_pictures(tmp_path / f"{key}.mp4", "libx264", "yuv420p", pan(pixels, number), bf="0", g="24", crf="18")
        rows["videos"].append({"video_id": key, "path": f"{key}.mp4"})
    rows["videos"].append({"video_id": "text"})
    for key in (*CLIPS, "text"):
        rows["captions"].append(
            {"caption_id": key, "video_id": key, "role": "candidate", "system": "a", "text": f"A {key} clip."}
        )
    return write_manifest(tmp_path, **rows)


@pytest.fixture
def clips(engine: Engine, folder: Path) -> Dataset:
    return ingested(engine, folder)


def ingested(engine: Engine, folder: Path) -> Dataset:
    ingest_folder(engine, folder, "clips", n_shards=1)
    with engine.connect() as connection:
        dataset = find_dataset(connection, "clips")
    assert dataset is not None
    return dataset


def measure(engine: Engine, dataset: Dataset, models: str | None = None) -> int:
    return measure_videos(engine, dataset, 0, lambda _: None, models)


def shown(engine: Engine, columns: str) -> dict[str, tuple[Any, ...]]:
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(f"SELECT sample, {columns} FROM sample_scores ORDER BY sample")
        return {row[0]: tuple(row[1:]) for row in rows}


def test_videos_are_measured_once_and_shown_beside_their_captions(engine: Engine, clips: Dataset) -> None:
    assert measure(engine, clips) == 3
    assert measure(engine, clips) == 0
    found = shown(engine, "motion, cuts, has_sound, letterbox")
    assert found["text"] == (None, None, None, None)
    for key, pixels in CLIPS.items():
        motion, *others = found[key]
        assert motion == pytest.approx(heights_a_second(pixels), abs=heights_a_second(0.15))
        assert others == [0, False, 0.0]


def test_text_and_speech_are_measured_once_the_models_are_there_and_stay_where_they_are_not(
    engine: Engine, clips: Dataset
) -> None:
    def stored() -> set[tuple[Any, ...]]:
        query = "SELECT models, text_share, text_area, speech_share FROM video_fact"
        with engine.connect() as connection:
            return {tuple(row) for row in connection.exec_driver_sql(query)}

    models = find_fact_models()
    assert models is not None
    assert measure(engine, clips) == 3
    assert stored() == {(None, None, None, None)}
    assert measure(engine, clips, models) == 3
    # Blocks of colours are no text, and the clips have no sound track.
    assert stored() == {(models, 0.0, 0.0, None)}
    assert shown(engine, "text_share, text_area, speech_share")["slow"] == (0.0, 0.0, None)
    # A machine without the models leaves these rows alone, and other models measure anew.
    assert measure(engine, clips, models) == measure(engine, clips) == 0
    assert stored() == {(models, 0.0, 0.0, None)}
    with engine.connect() as connection:
        assert len(list_unmeasured_videos(connection, PICTURE_FACTS_VERSION, "m 2", clips.dataset_id, 0)) == 3


def test_a_machine_without_the_models_keeps_what_they_measured_of_the_same_file(engine: Engine, clips: Dataset) -> None:
    with engine.connect() as connection:
        one, other, third = list_unmeasured_videos(connection, PICTURE_FACTS_VERSION, None, clips.dataset_id, 0)
    first = [VideoFacts(a.video_id, a.content_sha256, {"motion": 1.0, "text_share": 0.5}) for a in (one, other)]
    unread = VideoFacts(third.video_id, third.content_sha256, {}, "unreadable", "no frame")
    store_video_facts(engine, "rule 1", "m 1", [*first, unread])

    def store_anew(status: Any, error: str | None) -> list[tuple[Any, ...]]:
        facts = {} if error else {"motion": 2.0}
        later = [
            VideoFacts(one.video_id, one.content_sha256, facts, status, error),
            VideoFacts(other.video_id, b"another file", facts, status, error),
            VideoFacts(third.video_id, third.content_sha256, facts, status, error),
        ]
        store_video_facts(engine, "rule 2", None, later)
        query = "SELECT rule, models, motion, text_share, text_area, speech_share FROM video_fact ORDER BY video_id"
        with engine.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(query)]

    # The file could not be read for a moment.
    assert store_anew("failed", "the decoder died")[0] == ("rule 2", "m 1", None, 0.5, None, None)
    assert store_anew("ok", None) == [
        ("rule 2", "m 1", 2.0, 0.5, None, None),
        ("rule 2", None, 2.0, None, None, None),
        ("rule 2", None, 2.0, None, None, None),
    ]
    with engine.connect() as connection:
        # The models have nothing left to do at a file that they have measured.
        waiting = list_unmeasured_videos(connection, "rule 2", "m 1", clips.dataset_id, 0)
    assert {a.video_id for a in waiting} == {other.video_id, third.video_id}
    # A machine with the models may read what another cannot.
    assert store_anew("unreadable", "no frame")[0] == ("rule 2", None, None, None, None, None)
    with engine.connect() as connection:
        waiting = list_unmeasured_videos(connection, "rule 2", "m 1", clips.dataset_id, 0)
    assert {a.video_id for a in waiting} == {one.video_id, other.video_id, third.video_id}


def test_a_video_that_cannot_be_read_is_tried_once_with_the_models(engine: Engine, clips: Dataset) -> None:
    def pending(models: str | None) -> int:
        with engine.connect() as connection:
            return len(list_unmeasured_videos(connection, PICTURE_FACTS_VERSION, models, clips.dataset_id, 0))

    with engine.connect() as connection:
        found = list_unmeasured_videos(connection, PICTURE_FACTS_VERSION, None, clips.dataset_id, 0)
    bad = [VideoFacts(one.video_id, one.content_sha256, {}, "unreadable", "no frame") for one in found]
    store_video_facts(engine, PICTURE_FACTS_VERSION, None, bad)
    assert (pending(None), pending("m 1")) == (0, 3)
    store_video_facts(engine, PICTURE_FACTS_VERSION, "m 1", bad)
    assert (pending(None), pending("m 1"), pending("m 2")) == (0, 0, 3)


def test_recipes_make_strata_of_motion(engine: Engine, clips: Dataset) -> None:
    measure(engine, clips)
    with engine.connect() as connection:
        ids = dict(connection.execute(sa.text("SELECT key, sample_id FROM sample")).all())
    set_scores(engine, {ids["still"]: 0.1, ids["slow"]: 0.9, ids["fast"]: 0.8, ids["text"]: 0.7})
    recipe = parse_recipe(
        {"by": "vcs", "per": "motion", "bands": [0.2, 0.6], "quotas": {"*": 1}, "where": "has_sound = false"}
    )
    chosen = make_selection(engine, clips, recipe, lambda: pytest.fail("no text is compared"), lambda _: None)
    keys = [row["sample"] for part in load_selection_rows(engine, chosen.selection_id) for row in part]
    assert keys == ["slow", "fast", "still"]


def test_of_copied_videos_the_one_with_the_better_sample_stays(engine: Engine, clips: Dataset, folder: Path) -> None:
    encode_pictures(folder / "copy.mp4", "mpeg4", "yuv420p", pan(3, 2))
    (folder / "twin.mp4").write_bytes((folder / "slow.mp4").read_bytes())
    rows = [json.loads(line) for line in (folder / "videos.jsonl").read_text().splitlines()]
    captions = [json.loads(line) for line in (folder / "captions.jsonl").read_text().splitlines()]
    for key in ("copy", "twin"):
        rows.append({"video_id": key, "path": f"{key}.mp4"})
        captions += [{**captions[0], "caption_id": f"{key}{n}", "video_id": key} for n in range(2)]
    write_manifest(folder, videos=rows, captions=captions)
    ingested(engine, folder)
    with engine.connect() as connection:
        ids = dict(connection.execute(sa.text("SELECT key, sample_id FROM sample")).all())
    best = ["copy0", "slow", "fast", "still", "twin0", "twin1", "text", "copy1"]
    set_scores(engine, {ids[key]: -place / 10 for place, key in enumerate(best)})
    recipe = parse_recipe({"by": "vcs", "dedupe_videos": 0.6, "keep": 1.0})

    def select() -> Selection:
        return make_selection(engine, clips, recipe, lambda: pytest.fail("no text is compared"), lambda _: None)

    with pytest.raises(SelectionError, match=r"5 videos have none: run reelsieve facts"):
        select()
    measure(engine, clips)
    chosen = select()
    keys = [row["sample"] for part in load_selection_rows(engine, chosen.selection_id) for row in part]
    # Both captions of the better copy stay; a video without a file is like no other.
    assert keys == ["copy0", "slow", "still", "text", "copy1"]
    assert chosen.n_duplicates == 3


def test_another_file_has_no_facts_of_the_one_before(engine: Engine, clips: Dataset, folder: Path) -> None:
    measure(engine, clips)
    os.replace(folder / "fast.mp4", folder / "still.mp4")
    encode_pictures(folder / "fast.mp4", "mpeg4", "yuv420p", pan(1, 9))
    ingested(engine, folder)
    assert {key for key, (motion,) in shown(engine, "motion").items() if motion is None} == {"still", "fast", "text"}
    assert measure(engine, clips) == 2
    assert shown(engine, "motion")["still"] == (pytest.approx(heights_a_second(3), abs=heights_a_second(0.15)),)


def test_a_file_that_is_gone_fails_and_is_tried_again(engine: Engine, clips: Dataset, folder: Path) -> None:
    os.rename(folder / "slow.mp4", folder / "elsewhere.mp4")
    assert measure(engine, clips) == 3
    with engine.connect() as connection:
        failed = connection.execute(sa.text("SELECT status, error FROM video_fact WHERE status <> 'ok'")).all()
        assert list_measurement_errors(connection, "clips") == [failed[0].error]
        assert list_measurement_errors(connection, "others") == []
    assert [(row.status, "put the file back or ingest" in row.error) for row in failed] == [("failed", True)]
    assert shown(engine, "motion")["slow"] == (None,)
    os.rename(folder / "elsewhere.mp4", folder / "slow.mp4")
    assert measure(engine, clips) == 1
    assert shown(engine, "motion")["slow"] == (pytest.approx(heights_a_second(1), abs=heights_a_second(0.15)),)


def test_a_video_that_cannot_be_read_is_not_tried_again_and_one_deleted_meanwhile_is_left_out(
    engine: Engine, clips: Dataset
) -> None:
    def pending(rule: str) -> list[str]:
        with engine.connect() as connection:
            return [video.key for video in list_unmeasured_videos(connection, rule, None, clips.dataset_id, 0)]

    with engine.connect() as connection:
        found = list_unmeasured_videos(connection, PICTURE_FACTS_VERSION, None, clips.dataset_id, 0)
    gone = VideoFacts(10**6, b"x" * 32, {})
    bad = VideoFacts(found[0].video_id, found[0].content_sha256, {}, "unreadable", "no frame")
    store_video_facts(engine, PICTURE_FACTS_VERSION, None, [bad, gone])
    assert pending(PICTURE_FACTS_VERSION) == [one.key for one in found[1:]]
    assert pending("another rule") == [one.key for one in found]
    with engine.begin() as connection:
        connection.execute(sa.delete(video).where(video.c.video_id == found[0].video_id))
        assert connection.scalar(sa.text("SELECT count(*) FROM video_fact")) == 0


@pytest.mark.expensive
def test_every_caption_of_the_real_clips_has_numbers_without_a_model(engine: Engine, shared_data: Path) -> None:
    ingest_folder(engine, shared_data / "clips", "clips", n_shards=1)
    with engine.connect() as connection:
        dataset = find_dataset(connection, "clips")
    assert dataset is not None
    measure_texts(engine, dataset, 0, lambda _: None)
    assert measure(engine, dataset) == 16
    numbers = ("words", "words_per_second", "sharpness", "brightness", "cuts", "letterbox", "repeated_share", "width")
    found = shown(engine, f"motion, frame_change, has_sound, cuts, {', '.join(numbers)}")
    assert len(found) > 50
    by_video = {key.partition("__")[0]: row for key, row in found.items()}
    for key, (motion, change, has_sound, _, *values) in by_video.items():
        assert None not in (change, has_sound, *values)
        # All codecs have motion, but a frame a second shows none.
        assert (motion is None) == (key == "lobby_fern")
    cuts = {key: row[3] for key, row in by_video.items()}
    # Seen by eye: two changes of the view; the other clips but the damaged arm_wrestling are one shot.
    assert cuts["coloured_eggs"] == 2
    assert {cuts[key] for key in ("traffic_bangkok", "hair_brushing", "lobby_fern", "pool_cleaning")} == {0}
