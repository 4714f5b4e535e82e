"""Read frames with decord, where its count of frames is that of PyAV's timeline."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metrics_core.frames.container import Timeline, read_timeline
from metrics_core.frames.fit import PictureFit
from metrics_core.frames.pictures import PictureBuffer
from metrics_core.frames.records import DecodedFrames, FrameReadError
from metrics_core.frames.sampling import choose_frame_indices

# While its caller works on a frame, decord decodes the next ones and keeps them, without a limit. Cutting one frame
# down takes about as long as decoding four. If more are skipped before the next sampled one, decord stays close.
MIN_SPARSE_STEP = 10
MAX_BYTES_AHEAD = 512 << 20


class DecordReader:
    """A `FrameReader` that seeks to the sampled frames with decord. It raises FrameReadError for files in which decord
    would take other frames than PyAV shows, for packets that decord cannot decode, and for too many large frames.

    decord takes the number of packets for the number of frames, and counts from the key frame before a frame to find
    it. So it silently returns another frame of some files, even healthy ones, and PyAV reads the packets first. Damage
    that decord skips silently remains: an index can then be off by the few broken frames.
    """

    name = "decord"

    def read(self, path: Path, every: int, cap: int | None, fit: PictureFit | None = None) -> DecodedFrames:
        """Return the sampled frames of ``path``, decoded by decord, in the order shown. every: the distance between two
        sampled frames. cap: the most of them, None for no limit. fit: the part of a frame to keep; None keeps whole
        frames. Raises FrameReadError for a file that this reader refuses or cannot decode.

        Times come from PyAV, because decord's times are wrong for AVI.
        """
        timeline = read_timeline(path)
        n_frames = len(timeline.times_s)
        indices = choose_frame_indices(n_frames, every, cap)

        import decord

        decord.logging.set_level(decord.logging.QUIET)
        try:
            # With one thread decord raises on a damaged packet; with more it repeats earlier frames instead.
            video = decord.VideoReader(str(path.absolute()), num_threads=1)
            if not _counts_as_pyav(timeline, len(video)):
                raise FrameReadError(path, "decord would take other frames than PyAV shows")
            pictures = PictureBuffer(path, len(indices), fit)
            for index in indices.tolist():
                picture = video[index].asnumpy()
                if fit and not index:
                    _check_decoding_ahead(path, indices, picture.nbytes)
                pictures.add(picture)
        except (decord.DECORDError, IndexError, StopIteration) as error:
            reason = (str(error) or type(error).__name__).partition("\n")[0]
            raise FrameReadError(path, f"decord cannot decode it ({reason[:200]})") from error
        return DecodedFrames(indices, timeline.times_s[indices], pictures.require_pixels(), n_frames, self.name)


def _counts_as_pyav(timeline: Timeline, n_frames: int) -> bool:
    """Return whether decord, which counts `n_frames`, takes the frames of PyAV's timeline with their colours. VP8 has
    packets that are not shown, and decord converts colours of more than 8 bits coarsely.
    """
    is_whole = timeline.has_closed_groups and not timeline.n_missing_packets
    is_kept = timeline.codec != "vp8" and timeline.bits_per_component <= 8
    return n_frames == len(timeline.times_s) and is_whole and is_kept


def _check_decoding_ahead(path: Path, indices: NDArray[np.int64], picture_bytes: int) -> None:
    last = int(indices[-1])
    if last < MIN_SPARSE_STEP * (len(indices) - 1) and last * picture_bytes > MAX_BYTES_AHEAD:
        raise FrameReadError(path, "decord would decode too many large frames ahead")
