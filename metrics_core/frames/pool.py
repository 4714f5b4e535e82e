"""Decode videos in several processes at once: results in the order of the videos, within a limit of memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from metrics_core.frames.decoding import DecodingWorker

V = TypeVar("V")
R = TypeVar("R")
# Lends a decoder for a block, when one is free.
TakeDecoder = Callable[[], AbstractContextManager[DecodingWorker]]

# Decoding a minute of 720p takes seconds; a film in 4K takes about as long as it plays.
TIMEOUT_S, TIMEOUT_PER_SECOND_OF_VIDEO = 60.0, 4.0


@dataclass(frozen=True, slots=True)
class DecoderPool:
    """The size of a pool of decoders. n: the number of child processes. memory_bytes: the most memory for all videos
    that are being decoded or wait for their consumer. A video that needs more is decoded by itself.
    """

    n: int = 1
    memory_bytes: int = 4 << 30

    def decode_in_order(
        self, videos: Iterable[V], decode: Callable[[TakeDecoder, V], R], estimate_bytes: Callable[[V], int]
    ) -> Generator[tuple[V, R], None, None]:
        """Yield (video, result of `decode`) in the order of the videos. `decode` is called in a thread, and takes a
        decoder only while it decodes: a file is fetched, and frames are prepared, while all decoders work on other
        videos. estimate_bytes: the memory of one video, see `estimate_video_bytes`.

        If memory allows, every decoder works one video ahead. The processes end with the generator.
        """
        with ExitStack() as stack:
            free: SimpleQueue[DecodingWorker] = SimpleQueue()
            for _ in range(self.n):
                free.put(stack.enter_context(DecodingWorker()))
            # Entered last, so closed first: a thread that still runs would start its closed worker again.
            threads = stack.enter_context(ThreadPoolExecutor(self.n + 1, thread_name_prefix="decoder"))
            take_decoder = partial(_take_decoder, free)
            ahead: deque[tuple[V, Future[R], int]] = deque()
            stack.callback(lambda: [future.cancel() for _, future, _ in ahead])
            held = 0
            for video in videos:
                needed = estimate_bytes(video)
                while ahead and (len(ahead) == 2 * self.n or held + needed > self.memory_bytes):
                    first, future, freed = ahead.popleft()
                    yield first, future.result()
                    held -= freed
                ahead.append((video, threads.submit(decode, take_decoder, video), needed))
                held += needed
            while ahead:
                first, future, _ = ahead.popleft()
                yield first, future.result()


@contextmanager
def _take_decoder(free: SimpleQueue[DecodingWorker]) -> Iterator[DecodingWorker]:
    worker = free.get()
    try:
        yield worker
    finally:
        free.put(worker)


def compute_time_limit(duration_s: float | None) -> float:
    """Return the seconds that decoding a video may take: a minute, and four times its duration, if that is known.

    >>> compute_time_limit(30.0), compute_time_limit(None)
    (180.0, 60.0)
    """
    return TIMEOUT_S + TIMEOUT_PER_SECOND_OF_VIDEO * (duration_s or 0.0)
