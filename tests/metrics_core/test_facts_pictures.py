"""Facts about pictures, on drawn clips whose truth is known."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, zoom

from metrics_core.facts.measure import measure_video
from metrics_core.facts.motion import measure_motion, split_motion
from metrics_core.facts.pictures import (
    PictureFacts,
    compute_frame_durations,
    laplacian_variance,
    list_cuts,
    mark_repeated_frames,
    shrink_picture,
)
from metrics_core.facts.signatures import convert_to_unit_vectors
from metrics_core.frames.records import FrameReadError
from tests.metrics_core.frames_clips import RATE, encode_at, encode_pictures, encode_sound, set_rotation

HEIGHT, WIDTH, N = 144, 256, 48
Picture = NDArray[np.uint8]


def photo(seed: int = 0, height: int = HEIGHT, width: int = WIDTH) -> Picture:
    """A picture with structure of many sizes, uint8 (height, width, 3)."""
    noise = np.random.default_rng(seed).normal(size=(height, width))
    layers = [gaussian_filter(noise, sigma, mode="wrap") * sigma for sigma in (1.5, 4, 10)]
    layer = sum(layer / layer.std() for layer in layers)
    return np.repeat(np.clip(128 + 30 * layer, 30, 225).astype(np.uint8)[..., None], 3, axis=2)


def grey(pictures: Any) -> Picture:
    """Luma of any type, shape (T, H, W), as pictures of three colours."""
    return np.repeat(np.clip(np.stack(list(pictures)), 0, 255).astype(np.uint8)[..., None], 3, axis=3)


def pan(pixels: int, n: int = N, seed: int = 0) -> Picture:
    wide = photo(seed, width=WIDTH + pixels * n)
    return np.stack([wide[:, pixels * t : pixels * t + WIDTH] for t in range(n)])


def measured(folder: Path, pictures: Picture, codec: str = "libx264", rate: int = RATE, **options: str) -> PictureFacts:
    path = folder / f"clip.{'avi' if codec == 'mpeg4' else 'mkv'}"
    facts, has_sound, _ = measure_video(encode_pictures(path, codec, "yuv420p", pictures, rate=rate, **options))
    assert not has_sound
    return facts


# Codings of every kind that matters: with and without frames of both directions, few bits, key frames only, no vectors.
CODINGS = {
    "B-frames": ("libx264", {"bf": "3", "g": "24", "crf": "18"}),
    "few bits": ("libx264", {"crf": "35"}),
    "key frames only": ("libx264", {"g": "1", "crf": "23"}),
    "mpeg4": ("mpeg4", {"bf": "2", "g": "12", "flags": "qscale", "global_quality": "300"}),
    "hevc": ("libx265", {"x265-params": "log-level=none"}),
    "vp9": ("libvpx-vp9", {"cpu-used": "8", "deadline": "realtime"}),
}


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("speed", [0, 1, 4])
def test_a_pan_moves_by_its_heights_a_second(tmp_path: Path, coding: str, speed: int) -> None:
    codec, options = CODINGS[coding]
    facts = measured(tmp_path, pan(speed), codec, **options)
    heights = speed * RATE / HEIGHT
    assert facts.motion == pytest.approx(heights, rel=0.05, abs=0.003)
    assert facts.camera_motion == pytest.approx(heights, rel=0.05, abs=0.003)
    assert facts.object_motion == pytest.approx(0, abs=0.05)
    assert facts.cuts == 0
    assert facts.static_share == (1 if speed == 0 else 0)


def test_motion_and_change_are_those_of_time_and_not_of_frames(tmp_path: Path) -> None:
    frames = pan(2, 60)
    whole, half, third = (measured(tmp_path, frames[::every], rate=RATE // every, crf="23") for every in (1, 2, 3))
    for fact in ("motion", "camera_motion", "frame_change"):
        value = getattr(whole, fact)
        assert getattr(half, fact) == pytest.approx(value, rel=0.05)
        assert getattr(third, fact) == pytest.approx(value, rel=0.05)


@pytest.mark.parametrize("pixels", [0.5, 1.5, 5, 12, 40, 61.5])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_shift_is_measured_to_a_fraction_of_a_pixel(pixels: float, seed: int) -> None:
    """Against the exact shift of a periodic picture by its Fourier series."""
    wide = photo(seed, 360, 720)[..., 0].astype(np.float64)
    waves = np.exp(2j * np.pi * np.fft.fftfreq(wide.shape[1]) * pixels)
    moved = np.fft.ifft(np.fft.fft(wide, axis=1) * waves, axis=1).real
    before, after = (shrink_picture(np.clip(each[:, :640], 0, 255).astype(np.uint8)) for each in (wide, moved))
    found = measure_motion(before, after, 0.2)
    assert found is not None
    assert found.camera == pytest.approx(pixels / 360 / 0.2, rel=0.05)
    assert found.length == pytest.approx(pixels / 360 / 0.2, rel=0.07)
    assert found.objects < 0.02


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_clip_that_players_turn_moves_by_the_height_of_its_upright_picture(tmp_path: Path, turns: int) -> None:
    """An upright phone clip, stored lying, against its upright copy: the same motion, signature, change and bars."""
    tall = photo(3, 256, 144 + 3 * 40)
    upright = np.stack([tall[:, 3 * t : 3 * t + 144] for t in range(40)])
    upright[:, 60:140, 20:100] = photo(4, 80, 80)
    paths = [
        encode_pictures(tmp_path / f"{turn}.mp4", "libx264", "yuv420p", np.rot90(upright, turn, (1, 2)), crf="12")
        for turn in (turns, 0)
    ]
    (stored, *_), (copy, *_) = (measure_video(path) for path in (set_rotation(paths[0], turns), paths[1]))
    for fact in ("motion", "camera_motion", "object_motion", "frame_change"):
        assert getattr(stored, fact) == pytest.approx(getattr(copy, fact), rel=0.1)
    assert copy.camera_motion == pytest.approx(3 * RATE / 256, rel=0.1)
    signatures = [bytes.fromhex(each.signature or "") for each in (stored, copy)]
    ((_, likeness), _) = convert_to_unit_vectors(signatures) @ convert_to_unit_vectors(signatures).T
    assert likeness > 0.95


def test_the_motion_of_pictures_without_structure_is_not_known() -> None:
    flat = np.full((72, 128), 90, np.float32)
    assert measure_motion(flat, flat + 5, 0.2) is None
    assert measure_motion(flat[:7], flat[:7], 0.2) is None


def test_a_zoom_over_a_photo_is_motion_of_the_camera_only(tmp_path: Path) -> None:
    large = photo(1)[..., 0].astype(np.float64)
    frames = []
    for t in range(N):
        scaled = zoom(large, 1 + 0.01 * t, order=1)
        top, left = (scaled.shape[0] - HEIGHT) // 2, (scaled.shape[1] - WIDTH) // 2
        frames.append(scaled[top : top + HEIGHT, left : left + WIDTH])
    facts = measured(tmp_path, grey(frames), crf="16")
    assert facts.camera_motion is not None
    assert facts.object_motion is not None
    # A point moves by a hundredth of its distance from the middle with every frame, in a picture 1.24 times as large.
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    distance = np.hypot(y - (HEIGHT - 1) / 2, x - (WIDTH - 1) / 2).mean() / HEIGHT
    assert facts.camera_motion == pytest.approx(distance * 0.01 * RATE / 1.24, rel=0.15)
    assert facts.object_motion < 0.3 * facts.camera_motion


def test_a_thing_that_moves_before_a_still_camera(tmp_path: Path) -> None:
    frames = np.repeat(photo(2)[None], N, axis=0)
    thing = photo(3, 64, 64)
    for t in range(N):
        frames[t, 40:104, 4 + 3 * t : 68 + 3 * t] = thing
    facts = measured(tmp_path, frames, bf="0", crf="18")
    assert facts.camera_motion == pytest.approx(0, abs=0.01)
    assert facts.object_motion is not None
    # The thing covers a ninth of the picture and moves three pixels a frame.
    assert facts.object_motion == pytest.approx(3 * RATE / HEIGHT * 64 * 64 / (HEIGHT * WIDTH), rel=0.5)
    assert facts.static_share == 0


def test_motion_of_exact_vectors() -> None:
    y, x = np.mgrid[8:160:16, 8:256:16] * 1.0
    places, areas = (x + 1j * y).ravel(), np.full(160, 256.0)
    shift = np.full(160, 3 - 4j)
    found = split_motion(places, shift, areas, (160, 256), 0.5)
    assert found is not None
    assert (found.length, found.camera, found.objects) == pytest.approx((2.5, 2.5, 0))
    turn = (places - places.mean()) * (0.02 + 0.01j)
    found = split_motion(places, turn, areas, (160, 256), 1)
    assert found is not None
    assert found.camera == pytest.approx(np.abs(turn).mean())
    assert found.objects == pytest.approx(0, abs=1e-9)
    thing = shift.copy()
    thing[16:32] += 8
    found = split_motion(places, thing, areas, (160, 256), 1)
    assert found is not None
    assert (found.camera, found.objects) == pytest.approx((5, 0.8))
    # Blocks of no weight have no say.
    found = split_motion(places, thing, areas * (thing == shift), (160, 256), 1)
    assert found is not None
    assert (found.length, found.camera, found.objects) == pytest.approx((5, 5, 0))
    # Of blocks that leave the picture with the camera nothing is known.
    assert split_motion(places, shift * 100, areas, (160, 256), 1) is None


def test_a_small_actor_before_a_still_camera_is_no_still_picture(tmp_path: Path) -> None:
    """What stands still and what does not, under many and under few bits."""
    background, actor = photo(2)[..., 0], photo(3, 24, 10)[..., 0]
    draw = np.random.default_rng(0)
    noise = draw.normal(0, 4, (90, HEIGHT, WIDTH))
    waving = np.repeat(background[None], 90, axis=0)
    box = waving.copy()
    for t in range(90):
        left = round(120 + 8 * np.sin(2 * np.pi * t / 30))
        waving[t, 80:104, left : left + 10] = actor
        # At 125 pixels a second, over less than a hundredth of the picture.
        box[t, 60:76, round(4 + 125 / RATE * t) % 240 :][:, :16] = 76
    slow = pan(1, 90)[..., 0]
    slow[1::2] = slow[:-1:2]
    stills = [np.repeat(background[None], 90, axis=0), background + noise, np.full((90, HEIGHT, WIDTH), 120)]
    for pictures, is_still in [*((each, True) for each in stills), (waving, False), (box, False), (slow, False)]:
        for crf in ("18", "35"):
            share = measured(tmp_path, grey(pictures), crf=crf).static_share
            assert share is not None
            assert share > 0.9 if is_still else share < 0.2


def test_cuts_stand_at_their_frames_and_nothing_else_is_one(tmp_path: Path) -> None:
    shots = np.concatenate([pan(1, 20, 4), pan(2, 15, 5), pan(0, 13, 6)])
    assert measured(tmp_path, shots).cuts == 2
    assert measured(tmp_path, shots[:30], "libvpx-vp9", deadline="realtime").cuts == 1
    flash = pan(1, 24, 4)
    flash[12] = 235
    assert measured(tmp_path, flash).cuts == 0
    fade = (pan(0, 24, 4) * np.linspace(1, 0, 24)[:, None, None, None]).astype(np.uint8)
    assert measured(tmp_path, fade).cuts == 0
    assert list_cuts([1.0] * 19 + [30.0] + [2.0] * 14 + [45.0] + [0.0] * 12, 6) == [20, 35]
    assert list_cuts([30.0], 2) == []


@pytest.mark.parametrize("crf", ["18", "35"])
def test_repeated_frames_are_counted_and_make_no_cuts(tmp_path: Path, crf: str) -> None:
    """Fast pans of ten pictures a second in a file of thirty, and of 24 in one of 60; the second shot begins a cut."""
    shots = np.concatenate([pan(9, 24, 4), pan(9, 16, 5)])
    thirds = measured(tmp_path, np.repeat(shots, 3, axis=0), crf=crf)
    assert thirds.cuts == measured(tmp_path, shots, rate=10, crf=crf).cuts
    assert thirds.repeated_share == pytest.approx(2 / 3, abs=0.03)
    pulled = measured(tmp_path, np.repeat(shots, [2, 3] * 20, axis=0), rate=60, crf=crf)
    assert pulled.cuts == 0
    assert pulled.repeated_share == pytest.approx(0.6, abs=0.03)
    assert measured(tmp_path, shots, crf=crf).repeated_share == pytest.approx(0, abs=0.03)


def test_a_small_or_slow_mover_is_no_repeat(tmp_path: Path) -> None:
    still, along, down = np.repeat(photo(2)[..., 0][None], 90, axis=0), np.full((90, HEIGHT, WIDTH), 100), pan(1, 90)
    box = still.copy()
    for t in range(90):
        box[t, 60:76, 4 + t : 20 + t] = 220
        along[t, 10 + t : 26 + t, 100:116] = 160
    for pictures in (box, along, down[..., 0] // 10 + 6):
        for crf in ("18", "35"):
            assert measured(tmp_path, grey(pictures), crf=crf).repeated_share == pytest.approx(0, abs=0.02)
        thirds = np.repeat(pictures[::3], 3, axis=0)
        share = measured(tmp_path, grey(thirds), crf="12").repeated_share
        assert share == pytest.approx(2 / 3, abs=0.03)
    for crf in ("18", "35"):
        assert measured(tmp_path, grey(still), crf=crf).repeated_share > 0.9


def test_a_cut_among_repeated_frames_is_one() -> None:
    threes = [0.1, 0.3, 6.0]
    changes = [*threes * 5, 0.1, 0.3, 40.0, *threes * 5]
    assert list_cuts(changes, 6) == [18]
    assert mark_repeated_frames(changes, 6, [18]) == [change < 1 for change in changes]
    assert mark_repeated_frames([], 2) == []


def test_black_and_frozen_tails(tmp_path: Path) -> None:
    frames = np.concatenate([pan(3, 30), np.zeros((10, HEIGHT, WIDTH, 3), np.uint8)])
    assert measured(tmp_path, frames, crf="18").black_share == pytest.approx(10 / 40, abs=0.002)
    frames = np.concatenate([pan(3, 30), np.repeat(pan(3, 30)[-1:], 30, axis=0)])
    for crf in ("18", "35"):
        facts = measured(tmp_path, frames, crf=crf)
        # The step in which the pan ends counts as one that moves.
        assert facts.static_share == pytest.approx(0.5, abs=0.11)
        # Under few bits the picture is still worked out while it is frozen.
        assert facts.frozen_share == pytest.approx(0.5, abs=0.11 if crf == "18" else 0.21)
    assert measured(tmp_path, frames[:30], crf="18").frozen_share == 0


@pytest.mark.parametrize("options", [{"bf": "0"}, {"bf": "2"}])
def test_a_file_of_variable_rate_has_the_facts_of_its_constant_copy(tmp_path: Path, options: dict[str, str]) -> None:
    """A shot that moves in every frame, one of five pictures a second, and one that is held before it moves."""
    shots = np.concatenate([pan(2, 30, 4), pan(1, 9, 5), pan(2, 30, 6)])
    ticks = [*range(30), *range(30, 78, 6), 78, *range(140, 170)]
    copies = np.repeat(shots, np.diff([*ticks, 170]), axis=0)
    for suffix in ("mp4", "mkv"):
        varying = encode_at(tmp_path / f"varying.{suffix}", ticks, pictures=list(shots), rate=30, crf="16", **options)
        constant = encode_pictures(tmp_path / f"constant.{suffix}", "libx264", "yuv420p", copies, crf="16", **options)
        (own, *_), (other, *_) = (measure_video(path) for path in (varying, constant))
        assert own.cuts == other.cuts == 2
        assert own.static_share == pytest.approx(other.static_share, abs=0.03)
        assert own.frozen_share == pytest.approx(other.frozen_share, abs=0.03)
        assert other.static_share is not None
        assert other.static_share > 0.3


def test_time_stamps_that_jump_by_days_cost_no_time(tmp_path: Path) -> None:
    day = 25 * 24 * 3600
    path = encode_at(tmp_path / "jump.mkv", [*range(20), *range(30 * day, 30 * day + 20)], pictures=list(pan(2, 40)))
    facts = measure_video(path)[0]
    assert (facts.static_share, facts.motion) == (pytest.approx(1, abs=1e-3), 0)


def test_black_share_is_one_of_the_time(tmp_path: Path) -> None:
    """A black frame that is shown for two seconds of three."""
    pictures = [np.zeros((HEIGHT, WIDTH, 3), np.uint8) if number == 14 else photo(2) for number in range(30)]
    path = encode_at(tmp_path / "slow.mkv", [*range(15), *range(75, 90)], pictures=pictures, rate=30)
    assert measure_video(path)[0].black_share == pytest.approx(61 / 90, abs=0.01)
    assert compute_frame_durations([4.0]).tolist() == [1.0]


def test_what_a_video_is_too_short_or_too_slow_for_is_not_known(tmp_path: Path) -> None:
    short = measured(tmp_path, pan(2, 4))
    assert (short.motion, short.frame_change, short.static_share, short.frozen_share) == (None, None, None, None)
    assert short.repeated_share == 0
    slow = measured(tmp_path, pan(9, 8), rate=1)
    assert (slow.motion, slow.static_share) == (None, 0)
    assert slow.frame_change is not None


def test_a_blurred_picture_is_less_sharp_the_more_it_is_blurred(tmp_path: Path) -> None:
    luma = photo(7)[..., 0].astype(np.float64)
    blurred = [gaussian_filter(luma, sigma).astype(np.uint8) for sigma in (0, 0.5, 1, 2, 4)]
    drawn = [laplacian_variance(picture) for picture in blurred]
    assert drawn == sorted(drawn, reverse=True)
    clips = [np.repeat(np.repeat(picture[None, ..., None], 3, axis=3), 8, axis=0) for picture in blurred]
    coded = [measured(tmp_path, clip, crf="12").sharpness for clip in clips]
    assert all(value is not None for value in coded)
    assert coded == sorted(coded, reverse=True)
    assert coded[0] > 4 * coded[-1]
    # Against the variance of the whole Laplacian, written down another way.
    picture = photo(8)[..., 0].astype(np.float64)
    whole = sum(np.roll(picture, step, axis) for step in (-1, 1) for axis in (0, 1)) - 4 * picture
    assert laplacian_variance(photo(8)[..., 0]) == pytest.approx(whole[1:-1, 1:-1].var(), rel=0.1)
    assert laplacian_variance(np.zeros((2, 9), np.uint8)) is None


def test_brightness_and_contrast(tmp_path: Path) -> None:
    frames = np.zeros((20, HEIGHT, WIDTH, 3), np.uint8)
    frames[:10, :, : WIDTH // 2] = 255
    frames[10:] = 128
    facts = measured(tmp_path, frames, crf="10")
    assert (facts.brightness_min, facts.brightness_max) == pytest.approx((0.5, 0.5), abs=0.02)
    assert facts.contrast_max == pytest.approx(0.5, abs=0.02)
    full = encode_pictures(tmp_path / "full.mp4", "libx264", "yuvj420p", np.full_like(frames, 128), crf="10")
    assert measure_video(full)[0].brightness == pytest.approx(0.5, abs=0.02)
    deep = encode_pictures(tmp_path / "deep.mp4", "libx264", "yuv420p10le", np.full_like(frames, 128), crf="10")
    assert measure_video(deep)[0].brightness == pytest.approx(0.5, abs=0.02)


def test_letterbox_is_the_share_of_the_bars(tmp_path: Path) -> None:
    frames = pan(2, 16)
    assert measured(tmp_path, frames).letterbox == 0
    frames[:, :18] = frames[:, -18:] = 0
    assert measured(tmp_path, frames, crf="16").letterbox == pytest.approx(0.25, abs=0.02)
    frames[:, :, :32] = frames[:, :, -32:] = 0
    assert measured(tmp_path, frames, crf="16").letterbox == pytest.approx(1 - 0.75 * 0.75, abs=0.02)
    assert measured(tmp_path, np.zeros_like(frames)).letterbox is None


@pytest.mark.parametrize("crf", ["16", "30"])
def test_bars_may_be_grainy_or_grey_and_a_white_frame_does_not_end_them(tmp_path: Path, crf: str) -> None:
    frames = np.concatenate([pan(2, 30), pan(2, 30, 3)])
    frames[:, :18] = frames[:, -18:] = 0
    white = frames.copy()
    white[15] = 255
    assert measured(tmp_path, white, crf=crf).letterbox == pytest.approx(0.25, abs=0.03)
    draw = np.random.default_rng(1)
    grain = np.clip(frames + draw.normal(0, 6, frames.shape[:3])[..., None], 0, 255).astype(np.uint8)
    assert measured(tmp_path, grain, crf=crf).letterbox == pytest.approx(0.25, abs=0.03)
    frames[:, :18] = frames[:, -18:] = 24
    assert measured(tmp_path, frames, crf=crf).letterbox == pytest.approx(0.25, abs=0.03)


def test_dark_structure_at_an_edge_is_no_bar(tmp_path: Path) -> None:
    frames = pan(2, 60)
    frames[:, :18] //= 8
    assert measured(tmp_path, frames, crf="16").letterbox == pytest.approx(0, abs=0.02)


def test_a_file_without_a_video_is_refused_as_everywhere(tmp_path: Path) -> None:
    with pytest.raises(FrameReadError):
        measure_video(encode_sound(tmp_path / "sound.mp4"))


@pytest.mark.slow
@pytest.mark.parametrize("key", ["great_wall_aerial", "eye_makeup", "coloured_eggs"])
def test_facts_of_a_filmed_clip_hold_under_another_coding(tmp_path: Path, shared_data: Path, key: str) -> None:
    """A cheap part of benchmarks/encodings.py: four seconds at few bits and half the frames, and at half the size."""
    (path,) = (shared_data / "clips" / "videos").glob(f"{key}.*")
    with av.open(str(path)) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in islice(container.decode(video=0), 100)]
    pictures = np.stack(frames)
    own, *others = (
        measured(tmp_path, pictures, rate=24, crf="12", preset="veryfast"),
        measured(tmp_path, pictures[::2], rate=12, crf="35", preset="veryfast"),
        measured(tmp_path, pictures[:, ::2, ::2], rate=24, crf="23", preset="veryfast"),
    )
    for other in others:
        for fact in ("motion", "frame_change", "brightness", "contrast"):
            assert getattr(other, fact) == pytest.approx(getattr(own, fact), rel=0.15)
        assert own.static_share is not None
        assert other.static_share == pytest.approx(own.static_share, abs=0.1)
    # Of few frames a second a jump within fast motion may look like a cut.
    assert others[1].cuts == own.cuts
