"""Compute image features of the sampled frames of videos. The next videos are decoded while the encoder works."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from metrics_core.frames.decoding import DecodingWorker
from metrics_core.frames.fit import PictureFit
from metrics_core.frames.memory import estimate_video_bytes
from metrics_core.frames.records import DecodedFrames, DecoderFailed, FrameReadError
from metrics_core.frames.sampling import choose_frame_indices
from metrics_core.protocols import ImageEncoder, ModelIdentity

# The most bytes for all videos that are being decoded or wait for the encoder. A video that needs more is decoded by
# itself.
MAX_BYTES_IN_FLIGHT = 4 << 30

Key = TypeVar("Key")

# The greatest number of decoders for one encoder.
MAX_DECODERS = 8
# Decoding a minute of 720p takes seconds; a film in 4K takes about as long as it plays.
TIMEOUT_S, TIMEOUT_PER_SECOND_OF_VIDEO = 60.0, 4.0


@dataclass(frozen=True, slots=True)
class FrameEncoder:
    """An image encoder together with the rule that samples the frames of a video. every: the distance between two
    sampled frames. cap: the most sampled frames of a video, None for no limit. See `choose_frame_indices`.
    """

    image_encoder: ImageEncoder
    every: int = 30
    cap: int | None = None

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
    """One video file to compute features of. key: any value, which is returned with the features. duration_s: limits
    the time of decoding. n_frames, n_pixels (of one picture): estimate the memory; None counts as the greatest
    possible. open_path: makes the file readable where `path` is not enough; it returns a context manager that gives the
    path to read, or raises FrameReadError.

    The memory limits the number of videos decoded at once.
    """

    key: Key
    path: Path
    duration_s: float | None = None
    n_frames: int | None = None
    n_pixels: int | None = None
    open_path: Callable[[], AbstractContextManager[Path]] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FrameFeatures:
    """Image features of one video's sampled frames, in the order shown: frame numbers `indices` (T,), `times_s` (T,) in
    seconds, and `features` (T, dim) as the encoder gives them. n_frames: the decodable frames of the whole video.
    reader: the name of the reader that decoded it.
    """

    indices: NDArray[np.int64]
    times_s: NDArray[np.float64]
    features: NDArray[np.float32]
    n_frames: int
    reader: str


@dataclass(frozen=True, slots=True, eq=False)
class _PreparedFrames:
    """Sampled frames of a video, preprocessed for the encoder, since the pixels of the file are far larger."""

    indices: NDArray[np.int64]
    times_s: NDArray[np.float64]
    n_frames: int
    reader: str
    images: list[Any]


def compute_frame_features(
    encoder: FrameEncoder, videos: Iterable[VideoToEncode[Key]], *, n_decoders: int | None = None
) -> Iterator[tuple[Key, FrameFeatures | FrameReadError]]:
    """Decode and encode the sampled frames of videos, and yield (key, FrameFeatures) in the order of the videos. An
    error of reading, decoding or preprocessing one video is yielded as (key, FrameReadError). n_decoders: threads that
    decode, every one with a child process; None for half of the cores, at most 8. Raises the errors of the encoder, and
    RuntimeError where a decoder process does not start.

    Decoding and preprocessing run in these threads while the calling thread encodes. A batch is filled with frames of
    consecutive videos. At most two videos per decoder are in memory, as preprocessed images, and fewer where they would
    take more than `MAX_BYTES_IN_FLIGHT`. The model loads before the first video is decoded; without a video it does not
    load.
    """
    rest = iter(videos)
    first = next(rest, None)
    if first is None:
        return
    encoder.image_encoder.load()
    n_decoders = n_decoders or max(1, min(MAX_DECODERS, (os.cpu_count() or 1) // 2))
    waiting: deque[tuple[Key, _PreparedFrames | FrameReadError]] = deque()
    images: list[Any] = []
    rows: deque[NDArray[np.float32]] = deque()
    # Closed explicitly, because the traceback of an encoder's error would keep the decoders alive.
    with closing(_decode_ahead(encoder, chain([first], rest), n_decoders)) as ahead:
        for key, decoded in ahead:
            waiting.append((key, decoded))
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
        yield key, FrameFeatures(decoded.indices, decoded.times_s, features, decoded.n_frames, decoded.reader)


def _decode_ahead(
    encoder: FrameEncoder, videos: Iterable[VideoToEncode[Key]], n_decoders: int
) -> Generator[tuple[Key, _PreparedFrames | FrameReadError], None, None]:
    """Yield decoded videos in order. If memory allows, every decoder works one video ahead."""
    fit = encoder.image_encoder.fit
    with ExitStack() as stack:
        free: SimpleQueue[DecodingWorker] = SimpleQueue()
        for _ in range(n_decoders):
            free.put(stack.enter_context(DecodingWorker()))
        # Entered last, so closed first: a thread that still runs would start its closed worker again.
        pool = stack.enter_context(ThreadPoolExecutor(n_decoders, thread_name_prefix="decoder"))
        ahead: deque[tuple[Key, Future[_PreparedFrames | FrameReadError], int]] = deque()
        stack.callback(lambda: [future.cancel() for _, future, _ in ahead])
        held = 0
        for video in videos:
            needed = estimate_video_bytes(video.n_pixels, _count_sampled(encoder, video), fit)
            while ahead and (len(ahead) == 2 * n_decoders or held + needed > MAX_BYTES_IN_FLIGHT):
                key, future, freed = ahead.popleft()
                yield key, future.result()
                held -= freed
            ahead.append((video.key, pool.submit(_decode_video, encoder, fit, video, free), needed))
            held += needed
        while ahead:
            key, future, _ = ahead.popleft()
            yield key, future.result()


def _count_sampled(encoder: FrameEncoder, video: VideoToEncode[Any]) -> int | None:
    if video.n_frames is None:
        return encoder.cap
    return len(choose_frame_indices(video.n_frames, encoder.every, encoder.cap))


def _decode_video(
    encoder: FrameEncoder, fit: PictureFit | None, video: VideoToEncode[Any], free: SimpleQueue[DecodingWorker]
) -> _PreparedFrames | FrameReadError:
    worker = free.get()
    limit = TIMEOUT_S + TIMEOUT_PER_SECOND_OF_VIDEO * (video.duration_s or 0.0)
    try:
        with video.open_path() if video.open_path else nullcontext(video.path) as path:
            frames = worker.read_frames(path, every=encoder.every, cap=encoder.cap, fit=fit, timeout_s=limit)
            images = _preprocess_frames(encoder.image_encoder, video.path, frames)
    except FrameReadError as error:
        return error
    finally:
        free.put(worker)
    return _PreparedFrames(frames.indices, frames.times_s, frames.n_frames, frames.reader, images)


def _preprocess_frames(encoder: ImageEncoder, path: Path, frames: DecodedFrames) -> list[Any]:
    try:
        return [encoder.preprocess(pixels) for pixels in frames.pixels]
    except Exception as error:  # no error over the pictures of one video may end the work on the others
        reason = f"its frames cannot be prepared for the encoder (unexpected {type(error).__name__}: {error})"
        raise DecoderFailed(path, reason) from error
