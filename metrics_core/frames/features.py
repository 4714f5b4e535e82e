"""Compute image features of the sampled frames of videos. The next videos are decoded while the encoder works."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from metrics_core.facts.pictures import VideoMeasurement
from metrics_core.frames.decoding import DecodingWorker
from metrics_core.frames.memory import estimate_video_bytes
from metrics_core.frames.pool import DecoderPool, TakeDecoder, compute_time_limit
from metrics_core.frames.records import DecodedFrames, DecoderFailed, FrameReadError
from metrics_core.frames.sampling import choose_frame_indices
from metrics_core.protocols import ImageEncoder, ModelIdentity

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class FrameEncoder:
    """An image encoder together with the rule that samples the frames of a video. every: the distance between two
    sampled frames. cap: the most sampled frames of a video, None for no limit. See `choose_frame_indices`. reader: as
    in `DecodingWorker.read_frames`; all readers give the same frames.
    """

    image_encoder: ImageEncoder
    every: int = 30
    cap: int | None = None
    reader: str = "pyav"

    @property
    def identity(self) -> ModelIdentity:
        """Return the identity of the encoder with the sampling rule among its parameters: other frames have other
        features.
        """
        encoder = self.image_encoder.identity
        params = {**encoder.params, "features": "frames", "every": self.every, "cap": self.cap}
        return ModelIdentity(encoder.model_id, encoder.revision, params)


@dataclass(frozen=True, slots=True)
class VideoToEncode(Generic[Key]):
    """A video file to compute features of, by any `key`. duration_s limits the time of decoding; n_frames and n_pixels
    (of one frame) estimate the memory, None the largest. open_path: makes a file readable where `path` is not enough,
    as a context manager that gives a path or raises FrameReadError. wants_facts, with_models: whether to measure facts
    too, also by models.

    The memory limits the number of videos decoded at once.
    """

    key: Key
    path: Path
    duration_s: float | None = None
    n_frames: int | None = None
    n_pixels: int | None = None
    held_bytes: int = 0
    open_path: Callable[[], AbstractContextManager[Path]] | None = None
    wants_facts: bool = False
    with_models: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class FrameFeatures:
    """Image features of one video's sampled frames, in the order shown: frame numbers `indices` (T,), `times_s` (T,) in
    seconds, and `features` (T, dim). n_frames: the decodable frames of the whole video. reader: the name of the reader
    that decoded it. measurement: facts from the same pass; None where it measured none.
    """

    indices: NDArray[np.int64]
    times_s: NDArray[np.float64]
    features: NDArray[np.float32]
    n_frames: int
    reader: str
    measurement: VideoMeasurement | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _PreparedFrames:
    """Sampled frames of a video, preprocessed for the encoder, since the pixels of the file are far larger."""

    indices: NDArray[np.int64]
    times_s: NDArray[np.float64]
    n_frames: int
    reader: str
    images: list[Any]
    measurement: VideoMeasurement | None


def compute_frame_features(
    encoder: FrameEncoder, videos: Iterable[VideoToEncode[Key]], pool: DecoderPool | None = None
) -> Iterator[tuple[Key, FrameFeatures | FrameReadError]]:
    """Decode and encode the sampled frames of videos, and yield (key, FrameFeatures) in the order of the videos. An
    error of reading, decoding or preprocessing one video is yielded as (key, FrameReadError). pool: the decoders to
    use; None for a single one. Raises the errors of the encoder, and RuntimeError where a decoder process does not
    start.

    Decoding and preprocessing run in threads of the pool while the calling thread encodes. A batch is filled with
    frames of consecutive videos. At most two videos per decoder are in memory, as preprocessed images, and fewer where
    they would take more than the memory of the pool. The model loads before the first video is decoded; without a video
    it does not load.
    """
    rest = iter(videos)
    first = next(rest, None)
    if first is None:
        return
    encoder.image_encoder.load()
    pool = pool or DecoderPool()
    waiting: deque[tuple[Key, _PreparedFrames | FrameReadError]] = deque()
    images: list[Any] = []
    rows: deque[NDArray[np.float32]] = deque()
    # Closed explicitly, because the traceback of an encoder's error would keep the decoders alive.
    with closing(
        pool.decode_in_order(chain([first], rest), partial(_decode_video, encoder), partial(_estimate_bytes, encoder))
    ) as ahead:
        for video, decoded in ahead:
            waiting.append((video.key, decoded))
            if isinstance(decoded, _PreparedFrames):
                images += decoded.images
                # The batch holds them now.
                decoded.images.clear()
            # Several batches in one call: a GPU computes one while the next is prepared.
            if whole := len(images) // encoder.image_encoder.batch_size * encoder.image_encoder.batch_size:
                rows.extend(encoder.image_encoder.encode_preprocessed(images[:whole]))
                del images[:whole]
            yield from _pop_complete(waiting, rows)
    if images:
        rows.extend(encoder.image_encoder.encode_preprocessed(images))
    yield from _pop_complete(waiting, rows)


def _pop_complete(
    waiting: deque[tuple[Key, _PreparedFrames | FrameReadError]], rows: deque[NDArray[np.float32]]
) -> Iterator[tuple[Key, FrameFeatures | FrameReadError]]:
    """Remove from `waiting` the first videos whose features are complete, and yield them in order."""
    while waiting:
        key, decoded = waiting[0]
        if isinstance(decoded, FrameReadError):
            waiting.popleft()
            yield key, decoded
            continue
        if len(rows) < len(decoded.indices):
            return
        waiting.popleft()
        features = np.stack([rows.popleft() for _ in decoded.indices])
        yield (
            key,
            FrameFeatures(
                decoded.indices, decoded.times_s, features, decoded.n_frames, decoded.reader, decoded.measurement
            ),
        )


def _estimate_bytes(encoder: FrameEncoder, video: VideoToEncode[Any]) -> int:
    n_sampled = encoder.cap
    if video.n_frames is not None:
        n_sampled = len(choose_frame_indices(video.n_frames, encoder.every, encoder.cap))
    return estimate_video_bytes(video.n_pixels, n_sampled, encoder.image_encoder.fit) + video.held_bytes


def _decode_video(
    encoder: FrameEncoder, take_decoder: TakeDecoder, video: VideoToEncode[Any]
) -> _PreparedFrames | FrameReadError:
    try:
        with video.open_path() if video.open_path else nullcontext(video.path) as path:
            with take_decoder() as worker:
                frames, measurement = _read_frames(encoder, worker, video, path)
            images = _preprocess_frames(encoder.image_encoder, video.path, frames)
    except FrameReadError as error:
        return error
    return _PreparedFrames(frames.indices, frames.times_s, frames.n_frames, frames.reader, images, measurement)


def _read_frames(
    encoder: FrameEncoder, worker: DecodingWorker, video: VideoToEncode[Any], path: Path
) -> tuple[DecodedFrames, VideoMeasurement | None]:
    """Read the sampled frames of a video, and measure its facts in the same pass if they are wanted."""
    sampling: dict[str, Any] = {"every": encoder.every, "cap": encoder.cap, "fit": encoder.image_encoder.fit}
    limit = compute_time_limit(video.duration_s)
    if video.wants_facts:
        # Where one pass fails, two show which of both has no result and why; facts are then left to their own.
        with suppress(FrameReadError):
            measurement, frames = worker.measure_and_read(
                path, **sampling, with_models=video.with_models, timeout_s=limit
            )
            return frames, measurement
    return worker.read_frames(path, **sampling, timeout_s=limit, reader=encoder.reader), None


def _preprocess_frames(encoder: ImageEncoder, path: Path, frames: DecodedFrames) -> list[Any]:
    try:
        return [encoder.preprocess(pixels) for pixels in frames.pixels]
    except Exception as error:  # no error over the frames of one video may end the work on the others
        reason = f"its frames cannot be prepared for the encoder (unexpected {type(error).__name__}: {error})"
        raise DecoderFailed(path, reason) from error
