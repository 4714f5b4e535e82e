"""Copies of drawn and of real clips are told from unlike clips by their signatures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, zoom

from metrics_core.facts.measure import FrameMeasurer, convert_to_luma, measure_video
from metrics_core.facts.signatures import MAX_LOOKS, SignatureScan, compute_edges, convert_to_unit_vectors
from tests.metrics_core.frames_clips import encode_pictures

N, HEIGHT, WIDTH = 90, 120, 160
# As a page and docs/facts.md name copies.
ALIKE = 0.6
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
    """Without 5 % at each side."""
    return np.ascontiguousarray(pictures[:, 6:-6, 8:-8])


def between_bars(pictures: Pictures) -> Pictures:
    """Made square and then upright, as for phones: bars take two thirds of the picture."""
    return np.pad(pictures, ((0, 0), (120, 120), (0, 0), (0, 0)))


def in_a_frame(pictures: Pictures) -> Pictures:
    return np.pad(pictures, ((0, 0), (18, 18), (24, 24), (0, 0)))


def with_logo(pictures: Pictures) -> Pictures:
    """With a white box on a quarter of the width by a sixth of the height."""
    marked = pictures.copy()
    marked[:, 94:114, 115:155] = 235
    return marked


def signature(folder: Path, pictures: Pictures, codec: str = "libx264", **options: str) -> bytes:
    facts, *_ = measure_video(encode_pictures(folder / "clip.mkv", codec, "yuv420p", pictures, **options))
    assert facts.signature is not None
    return bytes.fromhex(facts.signature)


def scanned(lumas: Iterable[NDArray[np.uint8]]) -> SignatureScan:
    scan = SignatureScan()
    for luma in lumas:
        scan.add_frame(luma)
    return scan


def signature_of(lumas: Iterable[NDArray[np.uint8]]) -> bytes:
    found = scanned(lumas).compute_signature()
    assert found is not None
    return found


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The signatures of three scenes as they were drawn."""
    return [signature(tmp_path_factory.mktemp("whole"), scene(seed)) for seed in range(3)]


def alike(one: bytes, other: bytes) -> float:
    units = convert_to_unit_vectors([one, other])
    return float(units[0] @ units[1])


@pytest.mark.parametrize(
    ("change", "codec", "options", "at_least"),
    [
        (np.asarray, "libx264", {"crf": "38"}, 0.95),
        (np.asarray, "mpeg4", {}, 0.95),
        (scaled, "libx264", {}, 0.95),
        (cropped, "libx264", {}, ALIKE),
        (with_logo, "libx264", {}, ALIKE),
        (between_bars, "libx264", {"crf": "30"}, 0.9),
        (in_a_frame, "libx264", {}, 0.9),
    ],
)
def test_a_copy_is_alike(
    tmp_path: Path,
    wholes: list[bytes],
    change: Callable[[Pictures], Pictures],
    codec: str,
    options: dict[str, str],
    at_least: float,
) -> None:
    for seed, whole in enumerate(wholes):
        assert alike(whole, signature(tmp_path, change(scene(seed)), codec, **options)) >= at_least


def test_unlike_clips_are_not() -> None:
    """Of the pairs of 80 clips none comes near the similarity of a copy."""
    units = convert_to_unit_vectors(
        [signature_of(picture[..., 0] for picture in scene(seed)[::10]) for seed in range(100, 180)]
    )
    pairs = (units @ units.T)[np.triu_indices(len(units), 1)]
    assert len(pairs) == 3160
    assert pairs.max() < 0.5


# What a copy of a real clip may have lost or gained, given its frames and their number a second.
Frames = list[NDArray[np.uint8]]
CHANGES: dict[str, Callable[[Frames, int], Frames]] = {
    "5 % cropped": lambda frames, _: [inside(frame, 0.05) for frame in frames],
    "a logo": lambda frames, _: [boxed(frame) for frame in frames],
    "the middle 60 %": lambda frames, _: frames[len(frames) // 5 : len(frames) - len(frames) // 5],
    "no first second": lambda frames, rate: frames[rate:],
}


def inside(luma: NDArray[np.uint8], share: float) -> NDArray[np.uint8]:
    rows, columns = (int(size * share) for size in luma.shape)
    return luma[rows:-rows, columns:-columns]


def boxed(luma: NDArray[np.uint8]) -> NDArray[np.uint8]:
    height, width = luma.shape
    marked = luma.copy()
    marked[height * 3 // 4 : height * 3 // 4 + height // 6, width * 7 // 10 : width * 7 // 10 + width // 4] = 235
    return marked


@pytest.fixture(scope="module")
def real_clips(shared_data: Path) -> dict[str, tuple[Frames, int]]:
    """The frames of real clips, at most 10 a second, and how many a second."""
    clips = {}
    for path in sorted((shared_data / "clips" / "videos").iterdir()):
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            step = max(1, round(float(stream.average_rate or 25) / 10))
            frames = [
                convert_to_luma(frame).copy()
                for packet in container.demux(stream)
                for frame in decoded(packet)
                if frame.pts is not None
            ][::step]
        # The others are damaged, or end before a second is over.
        if len(frames) > 15 and path.stem != "testcard_corrupted":
            clips[path.stem] = frames, max(1, round(float(stream.average_rate or 25) / step))
    return clips


def decoded(packet: av.Packet) -> list[av.VideoFrame]:
    try:
        return [frame for frame in packet.decode() if isinstance(frame, av.VideoFrame)]
    except av.error.InvalidDataError:
        return []


@pytest.mark.slow
def test_copies_of_real_clips_are_known_again_and_no_two_clips_are_alike(
    real_clips: dict[str, tuple[Frames, int]],
) -> None:
    assert len(real_clips) >= 10
    whole = {key: signature_of(frames) for key, (frames, _) in real_clips.items()}
    units = convert_to_unit_vectors(list(whole.values()))
    assert (units @ units.T)[np.triu_indices(len(units), 1)].max() < 0.44
    missed = {
        (key, change): similarity
        for key, (frames, rate) in real_clips.items()
        for change, change_of in CHANGES.items()
        if (similarity := alike(whole[key], signature_of(change_of(frames, rate)))) < ALIKE
    }
    assert not missed


@pytest.mark.slow
def test_copies_of_three_seconds_without_the_first_are_known_again(real_clips: dict[str, tuple[Frames, int]]) -> None:
    shorts = {key: (frames[: 3 * rate], rate) for key, (frames, rate) in real_clips.items() if len(frames) >= 3 * rate}
    assert len(shorts) >= 9
    found = {key: alike(signature_of(frames), signature_of(frames[rate:])) for key, (frames, rate) in shorts.items()}
    # A third is gone, and in one clip the camera moves on meanwhile.
    assert min(found.values()) > 0.55
    assert sum(similarity >= ALIKE for similarity in found.values()) >= len(found) - 1


def test_edges_are_slopes_of_the_blurred_picture() -> None:
    """Against the blur at places a little beside each other, written down as sums."""
    picture = np.random.default_rng(5).integers(16, 235, (128, 128), dtype=np.uint8)
    means = picture.reshape(32, 4, 32, 4).mean(axis=(1, 3))
    at = np.arange(32) + 0.5

    def blurred(y: float, x: float) -> float:
        down, across = (np.exp(-(((at - centre) / 1.5) ** 2) / 2) for centre in (y, x))
        return float((means * np.outer(down, across)).sum() / down.sum() / across.sum())

    centres, step = [2.0, 6.0, 10.0, 14.0, 18.0, 22.0, 26.0, 30.0], 1e-4
    slopes = np.array(
        [
            [
                (blurred(y, x + step) - blurred(y, x - step)) / (2 * step),
                (blurred(y + step, x) - blurred(y - step, x)) / (2 * step),
            ]
            for y in centres
            for x in centres
        ]
    )
    lengths = np.hypot(*slopes.T)
    expected = slopes / (lengths + 0.3 * sorted(lengths)[32] + 0.1)[:, None]
    assert compute_edges(picture) == pytest.approx(expected.T.ravel(), abs=1e-6)


@pytest.mark.parametrize("n", [1, 5, 8, 31, 32, 33, 64, 65, 500, 3001])
def test_looks_lie_at_even_distances_and_are_enough_for_any_length(n: int) -> None:
    # A slope whose direction turns with time, so that each look tells its frame.
    y, x = np.mgrid[0:8, 0:8]
    frames = [
        (128 + 12 * (np.cos(turn) * (x - 4) + np.sin(turn) * (y - 4))).astype(np.uint8) for turn in np.linspace(0, 3, n)
    ]
    scan = scanned(frames)
    assert min(n, MAX_LOOKS // 2) <= len(scan.looks) <= MAX_LOOKS
    assert scan.frame_step * (len(scan.looks) - 1) < n <= scan.frame_step * len(scan.looks)
    for place, look in enumerate(scan.looks):
        assert (compute_edges(look) == compute_edges(frames[place * scan.frame_step])).all()


@pytest.mark.parametrize("fps", [None, 1.0, 25.0, 240.0])
def test_a_short_clip_of_any_rate_is_looked_at_eight_times_at_least(tmp_path: Path, fps: float | None) -> None:
    path = encode_pictures(tmp_path / "clip.mkv", "libx264", "yuv420p", scene(1)[:8])
    measurer, lumas = FrameMeasurer(fps, None), []
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            measurer.add_frame(frame)
            lumas.append(convert_to_luma(frame).copy())
    assert len(lumas) == 8
    assert measurer.compute_facts().signature == signature_of(lumas).hex()
    assert len(scanned(lumas).looks) == 8


def test_a_signature_is_the_mean_of_looks_around_four_moments() -> None:
    frames = [picture[..., 0] for picture in scene(3)[:20]]
    looks = [compute_edges(frame) for frame in frames]
    moments = []
    for centre in (0.125, 0.375, 0.625, 0.875):
        weights = [np.exp(-((((t + 0.5) / 20 - centre) / 0.12) ** 2) / 2) for t in range(20)]
        moments.append(sum(w * look for w, look in zip(weights, looks, strict=True)) / sum(weights))
    edges = np.concatenate(moments)
    least = 0.4 * float(np.sqrt((edges**2).mean()))
    signs = np.array([(edge >= least) - float(edge <= -least) for edge in edges])
    assert 0 < (signs == 0).sum() < 256
    found = signature_of(frames)
    assert len(found) == 128
    assert convert_to_unit_vectors([found])[0] == pytest.approx(signs / np.linalg.norm(signs), abs=1e-6)


def test_the_halves_of_a_signature_are_signs() -> None:
    (unit,) = convert_to_unit_vectors([bytes([0b10000001, 0b01100000])])
    assert unit == pytest.approx(np.array([1, -1, -1, 0, 0, 0, 0, 1]) / 2)


def test_light_does_not_change_a_signature() -> None:
    frames = [picture[..., 0] for picture in scene(4)[::10]]
    darker = [(16 + (frame - 16.0) * 0.5).astype(np.uint8) for frame in frames]
    assert alike(signature_of(frames), signature_of(darker)) > 0.98


def test_flat_and_small_frames() -> None:
    flat = np.full((90, 160), 16, np.uint8)
    assert np.abs(compute_edges(flat)).max() < 1e-9
    assert SignatureScan().compute_signature() is None
    assert scanned([flat, flat + np.uint8(40)]).compute_signature() is None
    assert compute_edges(np.arange(6, dtype=np.uint8).reshape(2, 3) * 40).shape == (128,)
    one = signature_of([scene(1)[0, :, :, 0]])
    assert alike(one, one) == pytest.approx(1)
    # Black before and behind does not matter to what is between.
    assert alike(one, signature_of([scene(1)[0, :, :, 0]] * 9 + [flat])) > 0.9
