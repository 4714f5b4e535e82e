"""Copies of drawn clips are told from unlike clips by their signatures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.fft import dctn
from scipy.ndimage import gaussian_filter, zoom

from metrics_core.facts.measure import measure_video
from metrics_core.facts.signatures import frame_bits, signature_of, units_of
from tests.metrics_core.frames_clips import encode_pictures

N, HEIGHT, WIDTH = 90, 120, 160
Pictures = NDArray[np.uint8]


def scene(seed: int) -> Pictures:
    """Large soft shapes over which the camera pans, as in photographs."""
    noise = np.random.default_rng(seed).normal(size=(HEIGHT, WIDTH + N))
    soft = gaussian_filter(noise, 12)
    wide = np.clip(128 + 45 * soft / soft.std() + 8 * noise, 16, 235).astype(np.uint8)
    frames = np.stack([wide[:, t : t + WIDTH] for t in range(N)])
    return np.repeat(frames[..., None], 3, axis=3)


def scaled(pictures: Pictures) -> Pictures:
    return np.ascontiguousarray(zoom(pictures, (1, 0.5, 0.5, 1), order=1))


def cropped(pictures: Pictures) -> Pictures:
    return np.ascontiguousarray(pictures[:, 4:-4, 4:-4])


def signature(folder: Path, pictures: Pictures, codec: str = "libx264", **options: str) -> bytes:
    facts, _ = measure_video(encode_pictures(folder / "clip.mkv", codec, "yuv420p", pictures, **options))
    assert facts.signature is not None
    return bytes.fromhex(facts.signature)


def alike(one: bytes, other: bytes) -> float:
    units = units_of([one, other])
    return float(units[0] @ units[1])


@pytest.mark.parametrize(
    ("change", "codec", "options", "at_least"),
    [
        (np.asarray, "libx264", {"crf": "38"}, 0.85),
        (np.asarray, "mpeg4", {}, 0.85),
        (scaled, "libx264", {}, 0.85),
        (cropped, "libx264", {}, 0.6),
    ],
)
def test_a_copy_is_alike(
    tmp_path: Path, change: Callable[[Pictures], Pictures], codec: str, options: dict[str, str], at_least: float
) -> None:
    for seed in range(3):
        whole = signature(tmp_path, scene(seed))
        assert alike(whole, signature(tmp_path, change(scene(seed)), codec, **options)) >= at_least


def test_unlike_clips_are_not() -> None:
    """Of the pairs of 80 clips none comes near the similarity of a copy."""
    signatures = []
    for seed in range(100, 180):
        found = signature_of([frame_bits(picture[..., 0]) for picture in scene(seed)[::30]])
        assert found is not None
        signatures.append(found)
    units = units_of(signatures)
    pairs = (units @ units.T)[np.triu_indices(len(units), 1)]
    assert len(pairs) == 3160
    assert pairs.max() < 0.5


def test_bits_are_the_coarsest_waves_of_the_cosine_transform() -> None:
    picture = scene(1)[0, :, :, 0][:128, :128]
    picture = np.ascontiguousarray(np.pad(picture, ((0, 128 - picture.shape[0]), (0, 0)), mode="edge"))
    means = picture.reshape(32, 4, 32, 4).mean(axis=(1, 3))
    waves = dctn(means, type=2)[:8, :8]
    waves[0, 0] = 0
    assert frame_bits(picture).tolist() == (waves > np.median(waves)).ravel().tolist()


def test_flat_and_small_frames() -> None:
    assert not frame_bits(np.full((90, 160), 16, np.uint8)).any()
    assert frame_bits(np.arange(6, dtype=np.uint8).reshape(2, 3) * 40).shape == (64,)
    assert signature_of([]) is None
    short = signature_of([frame_bits(scene(1)[0, :, :, 0])])
    assert short is not None
    assert len(short) == 64
    assert alike(short, short) == pytest.approx(1)
