"""Videos through decoder, preprocessing and encoder: order, batches, errors, and what is left running."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from metrics_core.frames import FrameReadError, get_shared_worker
from metrics_core.frames.features import FrameEncoder, FrameFeatures, VideoToEncode, compute_frame_features
from metrics_core.frames.fit import MAX_PIXELS
from metrics_core.frames.pool import DecoderPool
from metrics_core.frames.records import DecoderFailed
from metrics_core.protocols import ModelIdentity
from tests.assets.manifests import write_clip


class MeanColour:
    """Encodes an image as its mean colour and size; remembers how large the batches were and which thread did what."""

    identity = ModelIdentity("mean colour", "1", {"precision": "fp64"})
    dim = 4
    fit = None

    def __init__(self, batch_size: int = 4) -> None:
        self.batch_size = batch_size
        self.batches: list[int] = []
        self.preprocessing_threads: set[str] = set()
        self.is_loaded = False

    def load(self) -> None:
        self.is_loaded = True

    def preprocess(self, image: NDArray[np.uint8]) -> Any:
        assert self.is_loaded
        self.preprocessing_threads.add(threading.current_thread().name)
        return np.append(image.reshape(-1, 3).mean(axis=0), image.size)

    def encode_preprocessed(self, images: Sequence[Any]) -> NDArray[np.float32]:
        self.batches.append(len(images))
        return np.array(images, dtype=np.float32).reshape(-1, 4)


def expected(path: Path, every: int, cap: int | None = None) -> NDArray[np.float32]:
    frames = get_shared_worker().read_frames(path, every=every, cap=cap)
    return np.array([[*image.reshape(-1, 3).mean(axis=0), image.size] for image in frames.pixels], dtype=np.float32)


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Clips of 1, 7, 12, 20 and 2 frames."""
    folder = tmp_path_factory.mktemp("clips")
    lengths = (1, 7, 12, 20, 2)
    return [write_clip(folder / f"{n}.avi", n_frames=n, brightness=60 + 30 * i) for i, n in enumerate(lengths)]


def files(paths: Sequence[Path]) -> list[VideoToEncode[str]]:
    return [VideoToEncode(path.name, path, 1.0) for path in paths]


@pytest.mark.parametrize("n_decoders", [1, 3])
def test_each_video_gets_its_own_frames_in_the_order_of_the_videos(clips: list[Path], n_decoders: int) -> None:
    images = MeanColour(batch_size=4)
    found = dict(compute_frame_features(FrameEncoder(images, every=3), files(clips), DecoderPool(n_decoders)))
    assert list(found) == [path.name for path in clips]
    for path in clips:
        encoded = found[path.name]
        assert isinstance(encoded, FrameFeatures)
        np.testing.assert_array_equal(encoded.features, expected(path, 3))
        sampled = get_shared_worker().read_frames(path, every=3)
        np.testing.assert_array_equal(encoded.indices, sampled.indices)
        np.testing.assert_array_equal(encoded.times_s, sampled.times_s)
        assert (encoded.n_frames, encoded.reader) == (sampled.n_frames, sampled.reader)
    # 1 + 3 + 4 + 7 + 1 frames.
    assert images.batches == [4, 4, 4, 4]
    assert all(name.startswith("decoder") for name in images.preprocessing_threads)


def test_a_cap_bounds_what_is_encoded(clips: list[Path]) -> None:
    ((_, encoded),) = compute_frame_features(FrameEncoder(MeanColour(), every=1, cap=5), files(clips[3:4]))
    assert isinstance(encoded, FrameFeatures)
    assert encoded.indices.tolist() == [0, 4, 8, 12, 16]
    np.testing.assert_array_equal(encoded.features, expected(clips[3], 1, 5))


def test_an_unreadable_file_gives_its_error_in_its_place(clips: list[Path], tmp_path: Path) -> None:
    text = tmp_path / "text.mp4"
    text.write_text("no video")
    videos = files([clips[0], text, clips[1], tmp_path / "gone.mp4"])
    found = list(compute_frame_features(FrameEncoder(MeanColour(), every=1), videos))
    kinds = [type(encoded) for _, encoded in found]
    assert kinds == [FrameFeatures, FrameReadError, FrameFeatures, FrameReadError]
    assert "text.mp4" in str(found[1][1])
    assert "there is no such file" in str(found[3][1])


def test_the_sampling_is_part_of_the_identity() -> None:
    plain, dense, capped = (FrameEncoder(MeanColour(), *rule).identity for rule in ((30, None), (10, None), (30, 8)))
    assert plain.params == {"precision": "fp64", "features": "frames", "every": 30, "cap": None}
    assert len({str(identity) for identity in (plain, dense, capped)}) == 3


def test_videos_are_asked_for_as_they_are_needed_and_decoders_end_with_the_caller(clips: list[Path]) -> None:
    asked: list[str] = []

    def endless() -> Any:
        while True:
            asked.append("video")
            yield VideoToEncode(len(asked), clips[0], 1.0)

    before = decoders()
    encoding: Any = compute_frame_features(FrameEncoder(MeanColour(batch_size=1)), endless(), DecoderPool(2))
    assert [next(encoding)[0] for _ in range(3)] == [1, 2, 3]
    assert len(asked) <= 3 + 2 * 2
    assert decoders() - before
    encoding.close()
    assert decoders() <= before


def test_an_error_of_the_encoder_ends_the_decoders(clips: list[Path]) -> None:
    class Broken(MeanColour):
        def encode_preprocessed(self, images: Sequence[Any]) -> NDArray[np.float32]:
            raise MemoryError("out of memory")

    before = decoders()
    with pytest.raises(MemoryError):
        list(compute_frame_features(FrameEncoder(Broken()), files(clips * 3)))
    assert decoders() <= before


def test_what_one_video_leads_to_ends_only_that_video(clips: list[Path]) -> None:
    class Picky(MeanColour):
        def preprocess(self, image: NDArray[np.uint8]) -> Any:
            if image.mean() < 35:
                raise TypeError("too dark")
            return super().preprocess(image)

    found = dict(compute_frame_features(FrameEncoder(Picky(), every=3), files(clips)))
    error = found.pop("1.avi")
    assert isinstance(error, DecoderFailed)
    assert "1.avi: its frames cannot be prepared for the encoder (unexpected TypeError: too dark)" in str(error)
    assert all(isinstance(encoded, FrameFeatures) for encoded in found.values())


@pytest.mark.parametrize(
    ("pixels", "n_frames", "held", "n_asked"),
    # All five fit; three do, so that the fourth waits; each goes alone; three files of 1.25 GiB fit into 4 GiB.
    [(32 * 32, 20, 0, 5), (MAX_PIXELS // 2, 20, 0, 4), (MAX_PIXELS, None, 0, 2), (32 * 32, 20, 5 << 28, 4)],
)
def test_fewer_videos_are_decoded_at_once_the_more_memory_they_take(
    clips: list[Path], pixels: int, n_frames: int | None, held: int, n_asked: int
) -> None:
    asked: list[str] = []

    def videos() -> Iterator[VideoToEncode[str]]:
        for path in clips:
            asked.append(path.name)
            yield VideoToEncode(path.name, path, 1.0, n_frames, pixels, held)

    encoding = compute_frame_features(FrameEncoder(MeanColour(batch_size=1)), videos(), DecoderPool(4))
    assert next(encoding)[0] == "1.avi"
    assert len(asked) == n_asked
    assert [key for key, _ in encoding] == [path.name for path in clips[1:]]


def test_nothing_is_loaded_for_no_video() -> None:
    images = MeanColour()
    assert list(compute_frame_features(FrameEncoder(images), [])) == []
    assert not images.is_loaded


def decoders() -> set[int]:
    """Ids of the decoding workers that are children of this process."""
    children = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat, command = (entry / "stat").read_text(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            parent, state = int(stat.rpartition(")")[2].split()[1]), stat.rpartition(")")[2].split()[0]
            if parent == os.getpid() and state != "Z" and b"metrics_core.frames.worker" in command:
                children.add(int(entry.name))
    return children


def test_real_clips_give_what_reading_them_gives(shared_data: Path) -> None:
    paths = [shared_data / "clips" / "videos" / name for name in ("pancake_flip.mkv", "testcard_av1.mkv")]
    digests = {path.name: hashlib.sha256(expected(path, 30).tobytes()).hexdigest() for path in paths}
    for name, encoded in compute_frame_features(FrameEncoder(MeanColour(64)), files(paths)):
        assert isinstance(encoded, FrameFeatures)
        assert hashlib.sha256(encoded.features.tobytes()).hexdigest() == digests[name]
