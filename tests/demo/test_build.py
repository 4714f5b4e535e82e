"""The written folder: complete, readable, repeatable, in the project's manifest format; and the one that ships."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from demo import FOLDER, HASHES
from lab.demo.__main__ import make_shipped_dataset
from lab.demo.build import FILES, create_demo, make_demo_clips
from lab.demo.render import render_frames
from lab.demo.systems import SYSTEMS
from orchestration.cli.demo import copy_dataset

N_CLIPS = 3


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_bytes().splitlines()]


def frames(path: Path) -> Iterator[np.ndarray]:
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            yield frame.to_ndarray(format="rgb24")


def is_equal(one: Path, two: Path) -> bool:
    return one.read_bytes() == two.read_bytes()


def segments_of(row: dict[str, Any]) -> list[dict[str, Any]]:
    return list(row.get("segments", []))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "set"
    create_demo(folder, n_clips=N_CLIPS, seed=11)
    return folder


def test_two_builds_agree_in_every_byte_and_every_pixel(built: Path, tmp_path: Path) -> None:
    create_demo(tmp_path, n_clips=N_CLIPS, seed=11)
    for name in FILES:
        assert (built / f"{name}.jsonl").read_bytes() == (tmp_path / f"{name}.jsonl").read_bytes()
    for row in rows(built, "videos"):
        for one, two in zip(frames(built / str(row["path"])), frames(tmp_path / str(row["path"])), strict=True):
            np.testing.assert_array_equal(one, two)


def test_clips_decode_to_what_was_drawn(built: Path) -> None:
    for key, clip in make_demo_clips(N_CLIPS, 11).items():
        path = built / "videos" / f"{key}.mp4"
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
            assert (stream.width, stream.height, stream.average_rate) == (224, 160, 15)
            assert not container.streams.audio
            assert container.duration is not None
            duration_s = container.duration / 1_000_000
        decoded = list(frames(path))
        assert len(decoded) == clip.n_frames
        errors = [np.abs(one.astype(int) - two).mean() for one, two in zip(decoded, render_frames(clip), strict=True)]
        assert max(errors) < 8
        segments = [s for row in rows(built, "captions") if row["video_id"] == key for s in segments_of(row)]
        assert max(segment["end_s"] for segment in segments) <= duration_s + 1e-6


def test_rows_are_complete_and_refer_to_each_other(built: Path) -> None:
    data = {name: rows(built, name) for name in FILES}
    videos = {row["video_id"] for row in data["videos"]}
    assert videos == {"clip_000", "clip_001", "clip_002"}
    captions = {row["caption_id"]: row for row in data["captions"]}
    assert set(captions) == {
        f"{video}__{system}" for video in videos for system in ("annotator_a", "annotator_b", *SYSTEMS)
    }
    points = {row["keypoint_id"]: row["video_id"] for row in data["keypoints"]}
    assert "clip_000__kp01" in points
    labelled = {(row["keypoint_id"], row["caption_id"]) for row in data["keypoint_labels"]}
    assert labelled == {(p, f"{video}__{system}") for p, video in points.items() for system in SYSTEMS}
    assert len(labelled) == len(data["keypoint_labels"])
    assert {row["qa_id"] for row in data["qa"] if row["quality"] == "noisy"} == {
        f"{row['qa_id']}n" for row in data["qa"] if row["quality"] == "good"
    }
    assert len(data["ratings"]) == N_CLIPS * len(SYSTEMS) * 6
    assert all(row["synthetic"] is True and row["caption_id"] in captions for row in data["ratings"])


def test_texts_are_the_segments_joined(built: Path) -> None:
    timed = [row for row in rows(built, "captions") if "segments" in row]
    assert {row["system"] for row in timed} == {"annotator_a", "annotator_b"}
    for row in timed:
        assert row["text"] == " ".join(segment["text"] for segment in segments_of(row))


def test_field_names_are_those_of_the_project_manifests(built: Path, shared_data: Path) -> None:
    for name in FILES:
        ours, theirs = ({key for row in rows(f, name) for key in row} for f in (built, shared_data / "clips"))
        assert ours - {"synthetic"} == theirs


def test_the_folder_says_that_it_is_synthetic(built: Path) -> None:
    assert "Everything in this folder is synthetic" in (built / "README.txt").read_text(encoding="utf-8")


def test_what_ships_is_what_the_lab_makes(tmp_path: Path) -> None:
    """Another encoder makes other bytes of the same pictures, which differ by less than a step of 256 on average."""
    make_shipped_dataset(tmp_path)
    made = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert {path.relative_to(FOLDER) for path in FOLDER.rglob("*") if path.is_file()} == made
    clips = [path for path in made if path.suffix == ".mp4" and not is_equal(FOLDER / path, tmp_path / path)]
    for path in clips:
        pairs = zip(frames(FOLDER / path), frames(tmp_path / path), strict=True)
        assert max(np.abs(one.astype(int) - two).mean() for one, two in pairs) < 1
    kept = {Path(HASHES)} if clips else set()
    assert [path for path in made.difference(clips, kept) if not is_equal(FOLDER / path, tmp_path / path)] == []


def test_the_shipped_hashes_are_those_of_the_files() -> None:
    pairs = [line.split("  ") for line in (FOLDER / HASHES).read_text().splitlines()]
    assert {name: hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() for _, name in pairs} == {
        name: digest for digest, name in pairs
    }


def test_a_copy_that_was_stopped_is_completed_and_a_complete_one_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "captions.jsonl").write_text("half of a row")
    copy_dataset(tmp_path)
    copied = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert copied == {path.relative_to(FOLDER) for path in FOLDER.rglob("*") if path.is_file()}
    assert [path for path in copied if not is_equal(tmp_path / path, FOLDER / path)] == []
    (tmp_path / "captions.jsonl").write_text("corrected")
    copy_dataset(tmp_path)
    assert (tmp_path / "captions.jsonl").read_text() == "corrected"
