"""Text on screen and speech: drawn clips whose text is known, sounds made by formula, and real clips."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Container, Sequence
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path

import av
import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from scipy.signal import lfilter

from metrics_core.facts.measure import measure_and_read, measure_speech_share, measure_video
from metrics_core.facts.models import SPEECH_DETECTOR, TEXT_DETECTOR, ModelFacts, find_fact_models, find_model_file
from metrics_core.facts.screen_text import measure_text_area, read_lines_by_model
from metrics_core.facts.speech import WINDOW, measure_speech
from metrics_core.frames import DecodingWorker, NotAVideo
from metrics_core.frames.sound import RATE, decode_sound
from tests.metrics_core.frames_clips import encode_at, encode_sound, set_rotation

FPS, WIDTH, HEIGHT = 5, 320, 192
# The font has Latin, Greek, Cyrillic, Arabic, Armenian and Georgian letters; matplotlib brings it.
FONT = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
Picture = NDArray[np.uint8]
Sound = NDArray[np.float32]


def draw(text: str, size: int = 20, at: tuple[int, int] = (40, 130)) -> tuple[Picture, float]:
    """A plain picture with a text, and the share of it that the box around the ink covers."""
    image = Image.new("RGB", (WIDTH, HEIGHT), (90, 120, 80))
    pen, font = ImageDraw.Draw(image), ImageFont.truetype(FONT, size)
    pen.text(at, text, font=font, fill=(255, 255, 255))
    left, top, right, bottom = pen.textbbox(at, text, font=font)
    return np.asarray(image), (right - left) * (bottom - top) / (WIDTH * HEIGHT)


def clip(path: Path, pictures: Sequence[Picture], sound: Sound | None = None) -> Path:
    """A clip of these pictures at five a second, with a sound track if there is a sound of 16,000 samples a second."""
    with av.open(str(path), "w") as container:
        shown = container.add_stream("libx264", rate=FPS, options={"crf": "18", "bf": "0"})
        shown.height, shown.width, shown.pix_fmt = *pictures[0].shape[:2], "yuv420p"
        heard = None if sound is None else container.add_stream("aac", rate=RATE, layout="mono")
        for picture in pictures:
            container.mux(shown.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(shown.encode())
        if heard is not None and sound is not None:
            frame = av.AudioFrame.from_ndarray(sound[None], format="fltp", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = RATE, 0, Fraction(1, RATE)
            container.mux(heard.encode(frame))
            container.mux(heard.encode())
    return path


def facts(path: Path) -> ModelFacts:
    return measure_video(path, with_models=True)[2]


def babble(seconds: float) -> Sound:
    """A voice that says vowels: pulses of 120 Hz through four resonances that move six times a second."""
    rng, n = np.random.default_rng(2), round(seconds * RATE)
    time = np.arange(n) / RATE
    vowels = np.array(
        [(730, 1090, 2440, 3400), (270, 2290, 3010, 3500), (300, 870, 2240, 3300), (570, 840, 2410, 3300)]
    )
    places = np.arange(int(seconds * 6) + 2)
    heard = vowels[rng.integers(0, len(vowels), len(places))]
    pitch = 120 * (1 + 0.15 * np.sin(1.2 * np.pi * time)) * (1 + 0.02 * np.repeat(rng.normal(size=n // 80 + 1), 80)[:n])
    wave = lfilter([1], [1, -0.97], np.diff(np.floor(np.cumsum(pitch) / RATE), prepend=0)) + rng.normal(0, 0.01, n)
    for formant, width in enumerate((60, 90, 150, 200)):
        radius, state, passed = np.exp(-np.pi * width / RATE), np.zeros(2), np.zeros(n)
        angles = 2 * np.pi * np.interp(time * 6, places, heard[:, formant]) / RATE
        for start in range(0, n, 80):
            poles = [1, -2 * radius * np.cos(angles[start]), radius**2]
            passed[start : start + 80], state = lfilter([sum(poles)], poles, wave[start : start + 80], zi=state)
        wave = passed
    wave = np.diff(wave, prepend=0) * (0.1 + 0.9 * np.sqrt(np.maximum(0, np.sin(6 * np.pi * time))))
    return (0.5 * wave / np.abs(wave).max()).astype(np.float32)


@pytest.fixture(scope="module")
def voice() -> Sound:
    return babble(4)


def corners(left: float, top: float, right: float, bottom: float) -> NDArray[np.float32]:
    return np.array([(left, top), (right, top), (right, bottom), (left, bottom)], dtype=np.float32)


def test_the_area_is_that_of_all_boxes_together_inside_the_picture() -> None:
    lines = [
        ("Lobby", corners(0, 0, 9, 4)),  # 10 x 5 pixels
        ("ATM 1", corners(5, 0, 14, 4)),  # 5 columns more
        ("出口", corners(15, 18, 40, 40)),  # 5 x 2 pixels of it are in the picture
        ("A..", corners(0, 10, 9, 15)),  # a single letter
        ("- -", corners(0, 10, 9, 15)),
    ]
    picture = np.zeros((20, 20, 3), np.uint8)
    assert measure_text_area(picture, lambda _: lines) == (50 + 25 + 10) / 400
    assert measure_text_area(picture, lambda _: lines[3:]) == 0
    assert measure_text_area(picture, lambda _: []) == 0


@pytest.mark.parametrize("text", ["Hello World 42", "Größe über alles"])
def test_a_drawn_line_is_read_and_its_box_is_little_larger_than_its_ink(text: str) -> None:
    picture, ink = draw(text)
    ((read, _),) = read_lines_by_model(picture[..., ::-1].copy())
    assert read == text
    assert ink < measure_text_area(picture[..., ::-1].copy(), read_lines_by_model) < 1.5 * ink


def test_half_of_the_frames_with_a_subtitle_and_none(tmp_path: Path) -> None:
    (shown, ink), (plain, _) = draw("We meet again, Ann"), draw("")
    measured = facts(clip(tmp_path / "half.mp4", [shown] * 20 + [plain] * 20))
    assert measured.text_share == 0.5
    assert measured.text_area is not None
    assert 0.45 * ink < measured.text_area < 0.75 * ink
    assert facts(clip(tmp_path / "none.mp4", [plain] * 11)) == ModelFacts(0.0, 0.0, None)
    # Of eleven frames the first and the last are looked at.
    assert facts(clip(tmp_path / "late.mp4", [plain] * 10 + [shown])).text_share == 0.5


def test_text_in_a_picture_that_is_held_counts_as_long_as_it_is_shown(tmp_path: Path) -> None:
    (shown, _), (plain, _) = draw("We meet again, Ann"), draw("")
    path = encode_at(tmp_path / "held.mp4", [0, 50, *range(300, 500)], pictures=[plain, shown, *[plain] * 200])
    assert facts(path).text_share == 0.5


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_clip_that_players_turn_is_read_upright(tmp_path: Path, turns: int) -> None:
    shown, _ = draw("EXIT ONLY", 32, (70, 80))
    path = set_rotation(clip(tmp_path / "turned.mp4", [np.ascontiguousarray(np.rot90(shown, turns))]), turns)
    assert facts(path).text_share == 1.0


@pytest.mark.parametrize("text", ["مرحبا بالعالم", "გამარჯობა", "Բարեւ աշխարհ", "Привет, мир", "☃☺♥", "7", "···"])
def test_text_in_other_scripts_breaks_nothing(tmp_path: Path, text: str) -> None:
    measured = facts(clip(tmp_path / "other.mp4", [draw(text)[0]]))
    assert measured.text_share in (0.0, 1.0)
    assert measured.text_area is not None
    assert 0 <= measured.text_area < 0.2
    assert (measured.text_share > 0) == (measured.text_area > 0)


@pytest.mark.parametrize("size", [(2, 2), (2, 600), (600, 2), (2000, 40)])
def test_pictures_of_odd_sizes_have_no_text(tmp_path: Path, size: tuple[int, int]) -> None:
    picture = np.full((*size, 3), 128, np.uint8)
    assert facts(clip(tmp_path / "odd.mkv", [picture])) == ModelFacts(0.0, 0.0, None)


def test_without_models_nothing_of_them_is_measured(tmp_path: Path, voice: Sound) -> None:
    path = clip(tmp_path / "clip.mp4", [draw("We meet again")[0]] * 5, voice)
    assert measure_video(path)[1:] == (True, ModelFacts())
    with DecodingWorker() as worker:
        assert worker.measure_video(path)[2] == ModelFacts()
        assert worker.measure_video(path, with_models=True)[2] == facts(path)
        assert worker.measure_and_read(path, fit=None, with_models=True)[0] == measure_video(path, with_models=True)
        assert worker.measure_and_read(path, fit=None)[0] == measure_video(path)


@pytest.mark.parametrize("every", [1, 7, 200])
def test_one_pass_for_facts_and_frames_measures_what_two_do(tmp_path: Path, voice: Sound, every: int) -> None:
    shown, plain = (draw(text)[0] for text in ("We meet again, Ann", ""))
    path = clip(tmp_path / "clip.mp4", [shown] * 10 + [plain] * 20, voice)
    with_models, frames = measure_and_read(path, every, None, with_models=True)
    assert with_models == measure_video(path, with_models=True)
    assert with_models.by_models.text_share == pytest.approx(1 / 3)
    assert (with_models.by_models.speech_share or 0) > 0.5
    without, same = measure_and_read(path, every, None)
    assert without == measure_video(path) == with_models._replace(by_models=ModelFacts())
    np.testing.assert_array_equal(frames.pixels, same.pixels)


def test_speech_is_heard_where_it_is(voice: Sound) -> None:
    pause = np.zeros(len(voice), np.float32)
    alone = measure_speech([voice])
    assert alone.sound_s == 4.0
    assert 3.5 < alone.speech_s <= 4.0
    around = measure_speech([pause, voice, pause])
    assert around.sound_s == 12.0
    assert around.speech_s == pytest.approx(alone.speech_s, abs=0.3)


def test_silence_noise_and_a_tone_are_no_speech() -> None:
    n = 5 * RATE
    noise = np.random.default_rng(0).normal(0, 0.1, n).astype(np.float32)
    tone = (0.3 * np.sin(2 * np.pi * 440 / RATE * np.arange(n))).astype(np.float32)
    for sound in (np.zeros(n, np.float32), noise, tone):
        assert measure_speech([sound]) == (0.0, 5.0)
    assert measure_speech([]) == (0.0, 0.0)
    spoilt = np.full(n, np.nan, np.float32)
    spoilt[::2] = np.inf
    speech_s, sound_s = measure_speech([spoilt])
    assert 0 <= speech_s <= sound_s == 5.0


@settings(max_examples=8)
@given(st.lists(st.integers(0, 4 * RATE), max_size=6), st.integers(1, 4 * RATE))
def test_the_parts_in_which_a_sound_comes_do_not_matter(voice: Sound, places: list[int], end: int) -> None:
    sound = np.concatenate([voice] * 5)[: 16 * RATE + end]
    parts = np.split(sound, sorted(places))
    assert measure_speech(iter(parts)) == measure_speech(
        [sound[at : at + WINDOW] for at in range(0, len(sound), WINDOW)]
    )


def test_speech_is_a_share_of_the_clip_where_its_sound_is_shorter(tmp_path: Path, voice: Sound) -> None:
    plain, _ = draw("")
    whole = facts(clip(tmp_path / "whole.mp4", [plain] * 20, voice)).speech_share
    assert whole is not None
    assert whole > 0.8
    shorter = facts(clip(tmp_path / "shorter.mp4", [plain] * 80, voice)).speech_share
    longer = facts(clip(tmp_path / "longer.mp4", [plain] * 2, voice)).speech_share
    assert shorter == pytest.approx(whole / 4, rel=0.05)
    assert longer == pytest.approx(whole, rel=0.05)
    assert facts(clip(tmp_path / "silent.mp4", [plain] * 20, np.zeros(4 * RATE, np.float32))).speech_share == 0.0


@pytest.mark.slow
def test_sound_long_after_the_pictures_is_not_heard(tmp_path: Path, voice: Sound) -> None:
    plain, _ = draw("")
    minutes = np.zeros(590 * RATE, np.float32)
    path = clip(tmp_path / "long.mp4", [plain] * 2, np.concatenate([minutes, *[voice] * 20]))
    share = facts(path).speech_share
    # Some 10 of 80 s with speech are heard, in ten minutes.
    assert share == pytest.approx(10 / 600, rel=0.15)
    # Where pictures are shown, all is heard.
    assert measure_speech_share(path, 660.0) == pytest.approx(70 / 660, rel=0.15)
    assert sum(map(len, decode_sound(path, 2.0))) == pytest.approx(2 * RATE, abs=2048)


def test_a_clip_that_is_only_sound_is_refused(tmp_path: Path) -> None:
    path = encode_sound(tmp_path / "sound.mp4")
    with pytest.raises(NotAVideo):
        measure_video(path, with_models=True)
    with pytest.raises(NotAVideo):
        list(decode_sound(path))


@pytest.mark.parametrize("first_lost", [0, 20, 43])
def test_a_sound_track_that_does_not_decode_gives_no_share(tmp_path: Path, voice: Sound, first_lost: int) -> None:
    path = clip(tmp_path / "clip.mkv", [draw("")[0]] * 20, voice)
    broken = spoil_sound(path, tmp_path / "broken.mkv", range(first_lost, 1000))
    _, has_sound, measured = measure_video(broken, with_models=True)
    assert (has_sound, measured) == (True, ModelFacts(0.0, 0.0, None))


def test_a_few_lost_packets_of_sound_do_not_matter(tmp_path: Path, voice: Sound) -> None:
    path = clip(tmp_path / "clip.mkv", [draw("")[0]] * 20, voice)
    share = facts(spoil_sound(path, tmp_path / "broken.mkv", [9, 30])).speech_share
    assert share == pytest.approx(facts(path).speech_share, abs=0.05)


def spoil_sound(path: Path, broken: Path, lost: Container[int]) -> Path:
    """A copy of a clip in which the packets of sound with these numbers do not decode."""
    n = 0
    with av.open(str(path)) as source, av.open(str(broken), "w") as target:
        tracks = {stream.index: target.add_stream_from_template(stream) for stream in source.streams}
        for packet in source.demux():
            if not packet.size:
                continue
            muxed = packet
            if packet.stream.type == "audio":
                if n in lost:
                    muxed = av.Packet(b"\xfe" * packet.size)
                    muxed.pts, muxed.dts, muxed.time_base = packet.pts, packet.dts, packet.time_base
                n += 1
            muxed.stream = tracks[packet.stream_index]
            target.mux(muxed)
    return broken


def test_a_sound_in_stereo_at_another_rate_becomes_one_channel(tmp_path: Path) -> None:
    seconds = np.arange(44_100) / 44_100
    left = (0.5 * np.sin(2 * np.pi * 500 * seconds)).astype(np.float32)
    path = tmp_path / "stereo.mkv"
    with av.open(str(path), "w") as container:
        shown, heard = container.add_stream("libx264", rate=FPS), container.add_stream("pcm_s16le", rate=44_100)
        shown.width, shown.height, shown.pix_fmt, heard.layout = WIDTH, HEIGHT, "yuv420p", "stereo"
        container.mux(shown.encode(av.VideoFrame.from_ndarray(draw("")[0], format="rgb24")))
        container.mux(shown.encode())
        samples = (32767 * np.stack([left, np.zeros_like(left)], axis=1)).astype(np.int16).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="stereo")
        frame.sample_rate, frame.pts, frame.time_base = 44_100, 0, Fraction(1, 44_100)
        container.mux(heard.encode(frame))
        container.mux(heard.encode())
    sound = np.concatenate(list(decode_sound(path)))
    assert abs(len(sound) - RATE) < 64
    spectrum = np.abs(np.fft.rfft(sound[:15_900]))
    assert np.argmax(spectrum) * RATE / 15_900 == pytest.approx(500, abs=1.5)
    assert np.abs(sound[100:-100]).max() == pytest.approx(0.25, abs=0.11)


def test_the_models_are_named_by_their_packages_and_found_without_importing_them() -> None:
    assert find_fact_models() == f"rapidocr {version('rapidocr')}, silero-vad {version('silero-vad')}, rules 3"
    for file in (TEXT_DETECTOR, SPEECH_DETECTOR):
        assert find_model_file(file) is not None
    assert find_model_file(("rapidocr", "models/no_such.onnx")) is None
    assert find_model_file(("no_such_package", "model.onnx")) is None
    code = (
        "import sys, numpy; from metrics_core.facts import models, speech;"
        "assert models.find_fact_models(); assert 'rapidocr' not in sys.modules and 'onnxruntime' not in sys.modules;"
        "speech.measure_speech([numpy.zeros(16000, numpy.float32)]);"
        "assert 'onnxruntime' in sys.modules and 'torch' not in sys.modules and 'silero_vad' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_real_clips_have_the_text_that_people_see(shared_data: Path) -> None:
    # Seen by eye: a counter, keys, a clock, a closing title in a fifth of the frames looked at, and patterns.
    with_text = {"counter_h265.mp4": 1.0, "keyboard_rotated90.mov": 1.0, "testpattern_10bit.mp4": 1.0}
    shares = {
        **with_text,
        "coloured_eggs.mp4": 0.2,
        "pool_cleaning.mp4": 0.0,
        "eye_makeup.avi": 0.0,
        "pancake_flip.mkv": 0.0,
    }
    measured = {name: facts(shared_data / "clips" / "videos" / name) for name in shares}
    assert {name: one.text_share for name, one in measured.items()} == pytest.approx(shares)
    # The track of the eggs has no sound, and the first three have no track.
    assert [one.speech_share for one in measured.values()][:4] == [None, None, None, 0.0]
    assert all((measured[name].speech_share or 0) > 0.1 for name in ("eye_makeup.avi", "pancake_flip.mkv"))
