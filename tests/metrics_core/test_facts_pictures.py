"""Facts about pictures, on drawn clips whose truth is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, zoom

from metrics_core.facts.measure import measure_video
from metrics_core.facts.pictures import PictureFacts, cuts, letterbox, motion_of, sharpness
from metrics_core.frames.records import FrameReadError
from tests.metrics_core.frames_clips import encode_pictures, encode_sound

HEIGHT, WIDTH, N = 144, 256, 48
Picture = NDArray[np.uint8]


def photo(seed: int = 0, height: int = HEIGHT, width: int = WIDTH) -> Picture:
    """A picture with structure of many sizes, uint8 (height, width, 3)."""
    noise = np.random.default_rng(seed).normal(size=(height, width))
    layers = [gaussian_filter(noise, sigma, mode="wrap") * sigma for sigma in (1.5, 4, 10)]
    layer = sum(layer / layer.std() for layer in layers)
    return np.repeat(np.clip(128 + 30 * layer, 30, 225).astype(np.uint8)[..., None], 3, axis=2)


def pan(pixels: int, n: int = N, seed: int = 0) -> Picture:
    wide = photo(seed, width=WIDTH + pixels * n)
    return np.stack([wide[:, pixels * t : pixels * t + WIDTH] for t in range(n)])


def measured(folder: Path, pictures: Picture, codec: str = "libx264", **options: str) -> PictureFacts:
    suffix = "avi" if codec == "mpeg4" else "mkv"
    facts, has_sound = measure_video(encode_pictures(folder / f"clip.{suffix}", codec, "yuv420p", pictures, **options))
    assert not has_sound
    return facts


@pytest.mark.parametrize("speed", [0, 1, 4])
@pytest.mark.parametrize(
    ("codec", "options"),
    [
        ("libx264", {"bf": "0", "g": "24"}),
        ("libx264", {"bf": "3", "g": "24", "crf": "18"}),
        ("mpeg4", {"bf": "0", "g": "12", "qscale": "3", "flags": "qscale", "global_quality": "300"}),
        ("mpeg4", {"bf": "2", "g": "12", "flags": "qscale", "global_quality": "300"}),
    ],
)
def test_a_pan_moves_by_its_pixels_a_frame(tmp_path: Path, codec: str, options: dict[str, str], speed: int) -> None:
    facts = measured(tmp_path, pan(speed), codec, **options)
    assert facts.motion == pytest.approx(speed, abs=0.15)
    assert facts.camera_motion == pytest.approx(speed, abs=0.15)
    assert facts.object_motion == pytest.approx(0, abs=0.25)
    assert facts.cuts == 0
    # A key frame draws the same picture a little otherwise.
    assert facts.static_share is not None
    assert (facts.static_share > 0.95) == (speed == 0)


@pytest.mark.parametrize("codec", ["libvpx-vp9", "libx265"])
def test_a_codec_without_vectors_has_no_motion_but_a_change(tmp_path: Path, codec: str) -> None:
    options = {"x265-params": "log-level=none"} if codec == "libx265" else {"cpu-used": "8", "deadline": "realtime"}
    still, moving = (measured(tmp_path, pan(speed, 24), codec, **options) for speed in (0, 4))
    assert (moving.motion, moving.camera_motion, moving.object_motion) == (None, None, None)
    assert still.frame_change is not None
    assert moving.frame_change is not None
    assert still.frame_change < 1 < 5 < moving.frame_change


def test_a_zoom_over_a_photo_is_motion_of_the_camera_alone(tmp_path: Path) -> None:
    large = photo(1)[..., 0].astype(np.float64)
    frames = []
    for t in range(N):
        scaled = zoom(large, 1 + 0.01 * t, order=1)
        top, left = (scaled.shape[0] - HEIGHT) // 2, (scaled.shape[1] - WIDTH) // 2
        frames.append(scaled[top : top + HEIGHT, left : left + WIDTH])
    grey = np.clip(np.stack(frames), 0, 255).astype(np.uint8)
    facts = measured(tmp_path, np.repeat(grey[..., None], 3, axis=3), bf="0", crf="16")
    assert facts.camera_motion is not None
    assert facts.object_motion is not None
    assert facts.camera_motion > 0.4
    assert facts.object_motion < 0.5 * facts.camera_motion


def test_a_thing_that_moves_before_a_still_camera(tmp_path: Path) -> None:
    frames = np.repeat(photo(2)[None], N, axis=0)
    thing = photo(3, 64, 64)
    for t in range(N):
        frames[t, 40:104, 4 + 3 * t : 68 + 3 * t] = thing
    facts = measured(tmp_path, frames, bf="0", crf="18")
    assert facts.camera_motion == pytest.approx(0, abs=0.1)
    assert facts.object_motion is not None
    # The thing covers a ninth of the picture and moves three pixels a frame.
    assert facts.object_motion == pytest.approx(3 * 64 * 64 / (HEIGHT * WIDTH), rel=0.5)


def test_motion_of_exact_vectors() -> None:
    y, x = np.mgrid[0:10, 0:16] * 16.0
    places, areas = (x + 1j * y).ravel(), np.full(160, 256.0)
    shift = np.full(160, 3 - 4j)
    found = motion_of(places, shift, areas)
    assert found is not None
    assert (found.length, found.camera, found.objects) == pytest.approx((5, 5, 0))
    turn = (places - places.mean()) * (0.02 + 0.01j)
    found = motion_of(places, turn, areas)
    assert found is not None
    assert found.camera == pytest.approx(np.abs(turn).mean())
    assert found.objects == pytest.approx(0, abs=1e-9)
    thing = shift.copy()
    thing[:16] += 8
    found = motion_of(places, thing, areas)
    assert found is not None
    assert (found.camera, found.objects) == pytest.approx((5, 0.8))
    assert motion_of(places[:7], shift[:7], areas[:7]) is None
    assert motion_of(np.zeros(9, complex), shift[:9], areas[:9]) is not None


def test_cuts_stand_at_their_frames_and_nothing_else_is_one(tmp_path: Path) -> None:
    shots = np.concatenate([pan(1, 20, 4), pan(2, 15, 5), pan(0, 13, 6)])
    assert measured(tmp_path, shots).cuts == 2
    assert measured(tmp_path, shots[:30], "libvpx-vp9", deadline="realtime").cuts == 1
    flash = pan(1, 24, 4)
    flash[12] = 235
    assert measured(tmp_path, flash).cuts == 0
    fade = (pan(0, 24, 4) * np.linspace(1, 0, 24)[:, None, None, None]).astype(np.uint8)
    assert measured(tmp_path, fade).cuts == 0
    assert cuts([1.0] * 19 + [30.0] + [2.0] * 14 + [45.0] + [0.0] * 12) == [20, 35]
    assert cuts([30.0]) == []


def test_black_and_frozen_tails(tmp_path: Path) -> None:
    frames = np.concatenate([pan(3, 30), np.zeros((10, HEIGHT, WIDTH, 3), np.uint8)])
    assert measured(tmp_path, frames, crf="18").black_share == pytest.approx(10 / 40)
    frames = np.concatenate([pan(3, 30), np.repeat(pan(3, 30)[-1:], 10, axis=0)])
    assert measured(tmp_path, frames, crf="18").frozen_share == pytest.approx(10 / 39, abs=1.1 / 39)
    assert measured(tmp_path, frames[:30], crf="18").frozen_share == 0


def test_a_blurred_picture_is_less_sharp_the_more_it_is_blurred(tmp_path: Path) -> None:
    luma = photo(7)[..., 0].astype(np.float64)
    blurred = [gaussian_filter(luma, sigma).astype(np.uint8) for sigma in (0, 0.5, 1, 2, 4)]
    drawn = [sharpness(picture) for picture in blurred]
    assert drawn == sorted(drawn, reverse=True)
    clips = [np.repeat(np.repeat(picture[None, ..., None], 3, axis=3), 8, axis=0) for picture in blurred]
    coded = [measured(tmp_path, clip, crf="12").sharpness for clip in clips]
    assert all(value is not None for value in coded)
    assert coded == sorted(coded, reverse=True)
    assert coded[0] > 4 * coded[-1]
    # Against the variance of the whole Laplacian, written down another way.
    picture = photo(8)[..., 0].astype(np.float64)
    whole = sum(np.roll(picture, step, axis) for step in (-1, 1) for axis in (0, 1)) - 4 * picture
    assert sharpness(photo(8)[..., 0]) == pytest.approx(whole[1:-1, 1:-1].var(), rel=0.1)
    assert sharpness(np.zeros((2, 9), np.uint8)) is None


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
    assert letterbox(np.array([16, 90], np.uint8), np.array([90, 90], np.uint8)) == 0.5


def test_a_file_without_a_video_is_refused_as_everywhere(tmp_path: Path) -> None:
    with pytest.raises(FrameReadError):
        measure_video(encode_sound(tmp_path / "sound.mp4"))
