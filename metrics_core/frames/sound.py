"""Reads the sound of a video file, as one channel with 16,000 samples a second. Runs in the decoding worker."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metrics_core.frames.container import open_video, read_packets

RATE = 16_000


def decode_sound(path: Path, longest_s: float = math.inf) -> Iterator[NDArray[np.float32]]:
    """Yield the sound of a video file in consecutive parts: float32, shape (n,), its channels mixed to one, 16,000
    samples a second; nothing without a sound track that decodes. Packets that fail to decode are skipped. Ends with the
    first part that makes it `longest_s` seconds or more. Raises what `open_video` raises.
    """
    import av
    from av.audio.stream import AudioStream

    # The layout, rate or format may change within a stream, and a resampler takes only one kind of frames.
    resamplers: dict[tuple[str, str, int], av.AudioResampler] = {}

    def resample(frame: av.AudioFrame) -> Iterator[NDArray[np.float32]]:
        kind = (frame.format.name, frame.layout.name, frame.sample_rate)
        if kind not in resamplers:
            resamplers[kind] = av.AudioResampler("flt", "mono", RATE)
        # Without time stamps, gaps and jumps in them cannot disturb the resampler.
        frame.pts = None
        for part in resamplers[kind].resample(frame):
            yield part.to_ndarray()[0]

    with open_video(path) as (container, _):
        stream = container.streams.best("audio")
        if not isinstance(stream, AudioStream) or stream.codec_context is None:
            return
        n = 0
        for packet in chain(read_packets(container, stream), (None,)):
            try:
                parts = [part for frame in stream.codec_context.decode(packet) for part in resample(frame)]
            except av.error.FFmpegError:
                continue
            yield from parts
            n += sum(map(len, parts))
            if n >= longest_s * RATE:
                return
