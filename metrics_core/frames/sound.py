"""Reads the sound of a video file, as one channel with 16,000 samples a second. Runs in the decoding worker."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metrics_core.frames.container import open_video, read_packets
from metrics_core.frames.records import FrameReadError

RATE = 16_000
# The share of a sound track that decodes at least. The first packets of a whole one often give no sound.
LEAST_DECODED = 0.9


class SoundDamaged(FrameReadError):
    """Raised when so much of a sound track does not decode that what is left does not represent it."""


def decode_sound(path: Path, longest_s: float = math.inf) -> Iterator[NDArray[np.float32]]:
    """Yield the sound of a video file in consecutive parts: float32, shape (n,), its channels mixed to one, 16,000
    samples a second. Nothing comes from a file without a sound track. Ends with the first part that makes it
    `longest_s` seconds or more. Packets that fail to decode are skipped. Raises SoundDamaged after the last part where
    these make up more than a tenth of the time, and what `open_video` raises.
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
        n, packets_s = 0, 0.0
        for packet in chain(read_packets(container, stream), (None,)):
            if packet is not None and packet.duration and packet.time_base:
                packets_s += float(packet.duration * packet.time_base)
            try:
                parts = [part for frame in stream.codec_context.decode(packet) for part in resample(frame)]
            except av.error.FFmpegError:
                continue
            yield from parts
            n += sum(map(len, parts))
            if n >= longest_s * RATE:
                break
        # Not every decoder reports what it drops, so the time counts.
        if n < LEAST_DECODED * packets_s * RATE:
            raise SoundDamaged(path, f"{n / RATE:.1f} of {packets_s:.1f} s of its sound decode")
