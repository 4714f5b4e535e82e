"""Videos of variable rate, of which pictures are held, that begin later than at 0, or that lost packets."""

from __future__ import annotations

from pathlib import Path

import pytest

from metrics_core.facts.measure import measure_video
from metrics_core.frames import DecodingWorker
from metrics_core.frames.endings import ends_as_declared
from tests.metrics_core.frames_clips import encode_at, remux, truncate

B_FRAMES = {"bf": "2", "g": "30", "sc_threshold": "0"}
NO_B_FRAMES = {**B_FRAMES, "bf": "0"}
KINDS = [
    ("mp4", "libx264", B_FRAMES),
    ("mp4", "libx264", NO_B_FRAMES),
    ("mov", "libx265", {"x265-params": "log-level=none:keyint=30"}),
    ("mkv", "libx264", B_FRAMES),
    ("webm", "libvpx", {"deadline": "realtime", "cpu-used": "8"}),
    ("avi", "mpeg4", {}),
    ("flv", "libx264", B_FRAMES),
    ("wmv", "mpeg4", {}),
    ("ts", "libx264", B_FRAMES),
    ("mpg", "mpeg2video", {"bf": "2"}),
]


@pytest.mark.parametrize(("suffix", "codec", "options"), KINDS)
def test_a_picture_may_be_held(
    worker: DecodingWorker, tmp_path: Path, suffix: str, codec: str, options: dict[str, str]
) -> None:
    path = encode_at(tmp_path / f"clip.{suffix}", [*range(19), *range(119, 160)], codec, **options)
    probe = worker.probe_video(path)
    assert (probe.status, probe.error, probe.n_frames) == ("ok", None, 60)
    assert probe.duration_s == pytest.approx(160 / 25, abs=0.041)
    static_share = measure_video(path)[0].static_share
    assert static_share == pytest.approx(101 / 160, abs=0.04)


@pytest.mark.parametrize(("suffix", "codec", "options"), [kind for kind in KINDS if kind[0] != "avi"])
def test_a_video_may_begin_later_than_at_0(
    worker: DecodingWorker, tmp_path: Path, suffix: str, codec: str, options: dict[str, str]
) -> None:
    probe = worker.probe_video(encode_at(tmp_path / f"clip.{suffix}", range(1000, 1050), codec, **options))
    assert (probe.status, probe.error, probe.n_frames) == ("ok", None, 50)
    assert probe.duration_s == pytest.approx(2, abs=2e-3)


@pytest.mark.parametrize(("suffix", "codec"), [("mp4", "libx264"), ("mkv", "libx264"), ("flv", "libx264")])
@pytest.mark.parametrize("last_s", [1.5, 5])
def test_the_last_picture_may_be_held(
    worker: DecodingWorker, tmp_path: Path, suffix: str, codec: str, last_s: float
) -> None:
    plain = encode_at(tmp_path / "plain.mp4", range(50), codec, **NO_B_FRAMES)
    path = remux(plain, tmp_path / f"clip.{suffix}", last_s=last_s)
    probe = worker.probe_video(path)
    assert (probe.status, probe.error) == ("ok", None)
    assert probe.duration_s == pytest.approx(49 / 25 + last_s, abs=0.041)
    static_share = measure_video(path)[0].static_share
    assert static_share == pytest.approx(last_s / (49 / 25 + last_s), abs=0.06)


@pytest.mark.parametrize("suffix", ["avi", "wmv", "webm"])
def test_a_header_that_promises_more_is_believed_where_the_file_is_whole(
    worker: DecodingWorker, tmp_path: Path, suffix: str
) -> None:
    codec = "libvpx" if suffix == "webm" else "mpeg4"
    whole = remux(encode_at(tmp_path / f"plain.{suffix}", range(100), codec), tmp_path / f"held.{suffix}", last_s=5)
    probe = worker.probe_video(whole)
    assert (probe.status, probe.duration_s) == ("ok", pytest.approx(99 / 25 + 5, abs=0.041))
    assert worker.probe_video(truncate(whole, 0.6)).status == "damaged"


@pytest.mark.parametrize("suffix", ["mkv", "flv", "wmv"])
def test_a_file_that_breaks_off_is_damaged(worker: DecodingWorker, tmp_path: Path, suffix: str) -> None:
    codec, options = ("mpeg4", {}) if suffix == "wmv" else ("libx264", B_FRAMES)
    path = encode_at(tmp_path / f"clip.{suffix}", range(200), codec, **options)
    form = {"mkv": "matroska,webm", "wmv": "asf"}.get(suffix, suffix)
    assert ends_as_declared(path, form)
    truncate(path, 0.5)
    assert not ends_as_declared(path, form)
    assert worker.probe_video(path).status == "damaged"
    path.write_bytes(path.read_bytes() + bytes(max(path.stat().st_size, 1 << 17)))  # as a download that reserved room
    assert not ends_as_declared(path, form)
    assert worker.probe_video(path).status == "damaged"


@pytest.mark.parametrize(
    ("codec", "options"),
    [("libx264", B_FRAMES), ("libx264", NO_B_FRAMES), ("libvpx-vp9", {"g": "30", "deadline": "realtime"})],
)
@pytest.mark.parametrize("lost", [range(40, 57), range(43, 60)])
def test_lost_packets_are_no_held_picture(
    worker: DecodingWorker, tmp_path: Path, codec: str, options: dict[str, str], lost: range
) -> None:
    """In the middle of a group, and right before a key frame, where no decoder sees it."""
    whole = encode_at(tmp_path / "whole.mp4", range(120), codec, **options)
    for name in ("clip.mkv", "clip.mp4"):
        probe = worker.probe_video(remux(whole, tmp_path / name, lost=lost))
        assert probe.status == "damaged"
        assert probe.error is not None
        assert "frames are missing for" in probe.error


def test_lost_references_of_a_single_group_are_noticed(worker: DecodingWorker, tmp_path: Path) -> None:
    whole = encode_at(tmp_path / "whole.mp4", range(90), g="250", bf="0", sc_threshold="0")
    assert worker.probe_video(whole).status == "ok"
    probe = worker.probe_video(remux(whole, tmp_path / "clip.mkv", lost=range(40, 60)))
    assert probe.error == "at 1.56 s frames are missing for 0.84 s"
