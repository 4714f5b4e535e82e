"""What a video file is said to be."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from metrics_core.frames import DecodingWorker, NotAVideo, VideoProbe, get_shared_worker
from tests.metrics_core.frames_clips import (
    HEIGHT,
    WIDTH,
    cut_start_by_edit_list,
    encode,
    encode_sound,
    numbered_picture,
    overwrite,
    remux,
    scribble,
    set_rotation,
    truncate,
)

# duration (s), frames per second, frames, width, height, codec
REAL_CLIPS = {
    "arm_wrestling.mp4": (10.0, 28, 280, 340, 256, "h264"),
    "basketball_gym.mp4": (10.01, 30000 / 1001, 300, 426, 240, "h264"),
    "coloured_eggs.mp4": (10.0, 25, 250, 640, 360, "h264"),
    "eye_makeup.avi": (6.56, 25, 164, 320, 240, "mpeg4"),
    "great_wall_aerial.mp4": (12.0, 24, 288, 640, 360, "h264"),
    "hair_brushing.mp4": (673 / 30, 30, 673, 480, 360, "h264"),
    "lobby_fern.mp4": (20.0, 1, 20, 672, 504, "h264"),
    "pancake_flip.mkv": (10.333, 30, 310, 426, 240, "h264"),
    "pool_cleaning.mp4": (10.0, 30, 300, 340, 256, "h264"),
    "traffic_bangkok.mp4": (18.48, 25, 462, 640, 360, "h264"),
    "testcard_av1.mkv": (5.0, 25, 125, 640, 360, "av1"),
    "tiny_unordered.mov": (0.125, 32, 4, 50, 50, "h264"),
    "keyboard_rotated90.mov": (0.1, 30, 3, 320, 568, "h264"),
    "counter_h265.mp4": (1.0, 10, 10, 128, 128, "hevc"),
    "testpattern_10bit.mp4": (1.0, 30, 30, 200, 200, "h264"),
}


@pytest.mark.parametrize("name", REAL_CLIPS)
def test_real_clips_are_whole(worker: DecodingWorker, shared_data: Path, name: str) -> None:
    path = shared_data / "clips" / "videos" / name
    duration_s, fps, n_frames, width, height, codec = REAL_CLIPS[name]
    expected = VideoProbe(
        pytest.approx(duration_s, abs=1e-3), pytest.approx(fps), n_frames, width, height, codec, "ok", None
    )
    assert worker.probe_video(path) == expected


def test_a_really_corrupted_file_is_damaged(worker: DecodingWorker, shared_data: Path) -> None:
    probe = worker.probe_video(shared_data / "clips" / "videos" / "testcard_corrupted.mp4")
    assert probe.status == "damaged"
    assert probe.error is not None
    assert probe.error.startswith("at 3.00 s a packet does not decode")
    assert (probe.n_frames, probe.width, probe.height, probe.codec) == (49, 1280, 720, "h264")


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("clip.mp4", "libx264", None),
        ("clip.mkv", "libx264", None),
        ("clip.mp4", "libx265", {"x265-params": "log-level=none:keyint=30"}),
        ("clip.avi", "mpeg4", {"bf": "2"}),
        ("clip.webm", "libvpx", {"cpu-used": "8"}),
        ("clip.ts", "libx264", None),
        ("clip.h264", "libx264", None),
    ],
)
@pytest.mark.parametrize("n_frames", [40, 340])
def test_clips_of_any_kind_are_whole(
    worker: DecodingWorker, tmp_path: Path, name: str, codec: str, options: dict[str, str] | None, n_frames: int
) -> None:
    probe = worker.probe_video(encode(tmp_path / name, n_frames, codec, options))
    assert (probe.status, probe.error) == ("ok", None)
    assert (probe.n_frames, probe.width, probe.height) == (n_frames, WIDTH, HEIGHT)
    if not name.endswith(".h264"):  # a bare stream states no rate
        assert probe.fps == pytest.approx(30)
        assert probe.duration_s == pytest.approx(n_frames / 30, abs=2e-3)


@pytest.mark.parametrize("n_frames", [1, 2, 299, 300, 301])
def test_clips_around_the_end_of_full_decoding_are_whole(worker: DecodingWorker, tmp_path: Path, n_frames: int) -> None:
    probe = worker.probe_video(encode(tmp_path / "clip.mp4", n_frames))
    assert (probe.status, probe.n_frames, probe.duration_s) == ("ok", n_frames, pytest.approx(n_frames / 30))


def test_size_is_that_of_the_upright_picture(worker: DecodingWorker, tmp_path: Path) -> None:
    probe = worker.probe_video(set_rotation(encode(tmp_path / "clip.mp4", 3), 3))
    assert (probe.width, probe.height) == (HEIGHT, WIDTH)


def test_an_edit_list_is_no_damage(worker: DecodingWorker, tmp_path: Path) -> None:
    probe = worker.probe_video(cut_start_by_edit_list(encode(tmp_path / "clip.mp4", 64), 10))
    assert (probe.status, probe.n_frames) == ("ok", 54)
    assert probe.duration_s == pytest.approx(54 / 30)


def packets_of(path: Path) -> list[tuple[int, int, float, bool]]:
    """Place and size in the file, time, and whether it is a key frame, of all packets."""
    with av.open(str(path)) as container:
        packets = [packet for packet in container.demux(container.streams.video[0]) if packet.size]
        return [(p.pos, p.size, float(p.pts * p.time_base), p.is_keyframe) for p in packets]


@pytest.mark.parametrize("name", ["clip.mp4", "clip.mkv", "clip.avi"])
def test_corrupt_bytes_in_the_middle_are_found(worker: DecodingWorker, tmp_path: Path, name: str) -> None:
    codec, options = ("mpeg4", {"bf": "2"}) if name.endswith("avi") else ("libx264", None)
    path = encode(tmp_path / name, 120, codec, options)
    begin = int(path.stat().st_size * 0.55)
    hit_s = next(time_s for place, size, time_s, _ in packets_of(path) if place + size > begin)
    probe = worker.probe_video(scribble(path, 0.55, 4000))
    assert probe.status == "damaged"
    assert probe.error is not None
    assert float(probe.error.split()[1]) == pytest.approx(hit_s, abs=0.15)
    assert probe.n_frames is not None
    assert probe.n_frames < 120


@pytest.mark.parametrize("content", [b"\x00", b"\xff"])
def test_a_lost_key_frame_behind_the_first_300_frames_is_found(
    worker: DecodingWorker, tmp_path: Path, content: bytes
) -> None:
    path = encode(tmp_path / "clip.mp4", 420)
    place, size, time_s, _ = [packet for packet in packets_of(path) if packet[3]][-2]
    assert time_s == pytest.approx(360 / 30)
    overwrite(path, place, content * size)
    probe = worker.probe_video(path)
    assert probe.status == "damaged"
    assert probe.error is not None
    assert probe.error.startswith(f"at {time_s:.2f} s")


@pytest.mark.parametrize("name", ["clip.mp4", "clip.mkv"])
def test_a_truncated_file_is_damaged(worker: DecodingWorker, tmp_path: Path, name: str) -> None:
    options = {"movflags": "+faststart"} if name.endswith("mp4") else {}
    path = truncate(remux(encode(tmp_path / "whole.mp4", 120), tmp_path / name, **options), 0.5)
    probe = worker.probe_video(path)
    assert probe.status == "damaged"
    assert probe.n_frames is not None
    assert 30 < probe.n_frames < 90
    assert probe.duration_s == pytest.approx(probe.n_frames / 30, abs=0.1)


def test_packets_that_are_missing_are_holes(worker: DecodingWorker, tmp_path: Path) -> None:
    options = {"x264-params": "open-gop=1:keyint=30:bframes=2:b-adapt=0:scenecut=0"}
    whole = encode(tmp_path / "whole.mp4", 90, options=options)
    probe = worker.probe_video(remux(whole, tmp_path / "cut.mkv", first_key_frame=1))
    assert probe.status == "damaged"
    assert probe.error is not None
    assert probe.error.startswith("at 0.00 s a packet gives no frame")


def test_an_mp4_without_its_header_is_undecodable(worker: DecodingWorker, tmp_path: Path) -> None:
    path = truncate(encode(tmp_path / "clip.mp4", 60), 0.5)  # here the header stands at the end
    probe = worker.probe_video(path)
    assert probe.status == "undecodable"
    assert probe.error is not None
    assert "container cannot be opened" in probe.error
    assert (probe.duration_s, probe.fps, probe.n_frames, probe.width, probe.codec) == (None, None, None, None, None)


def test_a_first_frame_that_does_not_decode_makes_it_undecodable(worker: DecodingWorker, tmp_path: Path) -> None:
    path = encode(tmp_path / "clip.mp4", 60)
    place, size, *_ = packets_of(path)[0]
    overwrite(path, place, b"\xff" * size)
    probe = worker.probe_video(path)
    assert probe.status == "undecodable"
    assert probe.error is not None
    assert "the first frame cannot be decoded" in probe.error
    assert probe.codec == "h264"


def test_files_without_a_video_stream(worker: DecodingWorker, tmp_path: Path) -> None:
    clip = encode(tmp_path / "clip.ts", 30)
    contents = {
        "empty.mp4": b"",
        "zeros.mp4": bytes(5000),
        "README.md": b"# A text\n\nabout videos.\n" * 50,
        "ansi.txt": b"\x1b[31mred\x1b[0m\n" * 50,  # FFmpeg would take it for a picture of a terminal
        "list.m3u8": f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{clip.name}\n#EXT-X-ENDLIST\n".encode(),
        "list.ffconcat": f"ffconcat version 1.0\nfile {clip.name}\n".encode(),
    }
    for name, content in contents.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(NotAVideo, match=name):
            worker.probe_video(path)
    with pytest.raises(NotAVideo, match="holds no video stream"):
        worker.probe_video(encode_sound(tmp_path / "sound.m4a"))
    with pytest.raises(NotAVideo, match="not a file"):
        worker.probe_video(tmp_path)
    with pytest.raises(FileNotFoundError):
        worker.probe_video(tmp_path / "missing.mp4")


def test_the_cover_of_a_song_is_no_video(worker: DecodingWorker, tmp_path: Path) -> None:
    path = tmp_path / "song.m4a"
    with av.open(str(encode_sound(tmp_path / "plain.m4a"))) as sound, av.open(str(path), "w", format="mp4") as song:
        track = song.add_stream_from_template(sound.streams.audio[0])
        cover = song.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = WIDTH, HEIGHT, "yuvj420p"
        cover.disposition = av.stream.Disposition.attached_pic
        song.mux(cover.encode(av.VideoFrame.from_ndarray(numbered_picture(1), format="rgb24")))
        for packet in sound.demux(sound.streams.audio[0]):
            if packet.size:
                packet.stream = track
                song.mux(packet)
    with pytest.raises(NotAVideo, match="holds no video stream"):
        worker.probe_video(path)


def test_the_readme_of_the_real_clips_is_not_a_video(shared_data: Path) -> None:
    with pytest.raises(NotAVideo, match=r"README\.md"):
        get_shared_worker().probe_video(shared_data / "clips" / "README.md")


def test_a_decoder_that_takes_too_long_makes_it_undecodable(tmp_path: Path) -> None:
    path = encode(tmp_path / "clip.mp4", 300)
    with DecodingWorker() as worker:
        probe = worker.probe_video(path, timeout_s=1e-4)
        assert (probe.status, probe.error) == ("undecodable", "decoding exceeded the limit of 0.0001 s")
        assert worker.probe_video(path).status == "ok"
