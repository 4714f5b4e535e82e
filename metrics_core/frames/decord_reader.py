"""Frames through decord: fast where it has a wheel, but unmaintained; trusted only where it can be checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metrics_core.frames.container import Timeline, read_timeline
from metrics_core.frames.fit import Fit
from metrics_core.frames.pictures import Pictures
from metrics_core.frames.records import FrameReadError, SampledFrames
from metrics_core.frames.sampling import sample_indices

# While its caller is at work on a picture, decord decodes on and keeps what comes out, without a limit. Cutting one
# picture down takes about as long as decoding four; where more are passed over until the next, it never gets far ahead.
SPARSE = 10
MOST_BYTES_AHEAD = 512 << 20


class DecordReader:
    """Seeks to the sampled frames with decord, and refuses files in which decord would give other frames.

    decord takes the number of packets for the number of frames and finds a frame by counting from the key frame
    before it, so on some files, also healthy ones, it silently returns another frame. A quick demux with PyAV comes
    first, and the file is refused (`FrameReadError`, so that the next reader takes it) when

    - both disagree about the number of frames (edit lists),
    - the container's index lists packets that cannot be read (truncated and damaged files),
    - it has open groups of pictures (what x265 writes by default, many AVI, clips cut without re-encoding),
    - the codec is VP8, whose hidden reference frames decord counts as frames,
    - colours have more than 8 bits, which decord converts otherwise than PyAV does,
    - its pictures have another number of channels than three, as decord gives for some widths below 50,
    - so many large pictures are to be cut down one soon after the other that decord would fill the memory,
    - decord meets a packet that it cannot decode.

    What is left is damage that decord passes over: then an index can be off by the few broken frames. Files that
    `probe_video` calls damaged are read with ``readers=("pyav",)`` where that matters.
    """

    name = "decord"

    def read(self, path: Path, every: int, cap: int | None, fit: Fit | None = None) -> SampledFrames:
        """See `FrameReader.read`. Times come from the demux: decord's own are wrong for AVI."""
        timeline = read_timeline(path)
        n_frames = len(timeline.times_s)
        indices = sample_indices(n_frames, every, cap)

        import decord

        decord.logging.set_level(decord.logging.QUIET)
        try:
            # With one thread decord raises on a damaged packet; with more it repeats earlier frames instead.
            video = decord.VideoReader(str(path.absolute()), num_threads=1)
            _check_agreement(path, timeline, len(video))
            pictures = Pictures(path, len(indices), fit)
            for index in indices.tolist():
                picture = video[index].asnumpy()
                if fit and not index:
                    _check_decoding_ahead(path, indices, picture.nbytes)
                pictures.add(picture)
        except (decord.DECORDError, IndexError, StopIteration) as error:
            said = (str(error) or type(error).__name__).partition("\n")[0]
            raise FrameReadError(path, f"decord cannot decode it ({said[:200]})") from error
        return SampledFrames(indices, timeline.times_s[indices], pictures.pixels(), n_frames, self.name)


def _check_agreement(path: Path, timeline: Timeline, n_decord: int) -> None:
    n_frames = len(timeline.times_s)
    if n_decord != n_frames:
        raise FrameReadError(path, f"decord counts {n_decord} frames where the stream shows {n_frames}")
    if timeline.n_missing:
        raise FrameReadError(path, f"{timeline.n_missing} packets cannot be read, so decord could miscount")
    if not timeline.closed_groups:
        raise FrameReadError(path, "it has open groups of pictures, in which decord miscounts")
    if timeline.bits > 8:
        raise FrameReadError(path, f"decord converts its {timeline.bits}-bit colours coarsely")
    if timeline.codec == "vp8":
        raise FrameReadError(path, "decord would count the hidden frames of VP8")


def _check_decoding_ahead(path: Path, indices: NDArray[np.int64], picture_bytes: int) -> None:
    last = int(indices[-1])
    if last < SPARSE * (len(indices) - 1) and last * picture_bytes > MOST_BYTES_AHEAD:
        raise FrameReadError(path, "decord would decode too many large pictures ahead")
