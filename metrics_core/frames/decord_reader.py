"""Read frames with decord. It is fast but unmaintained, so it is used only on files where it can be checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metrics_core.frames.container import Timeline, read_timeline
from metrics_core.frames.fit import PictureFit
from metrics_core.frames.pictures import PictureBuffer
from metrics_core.frames.records import DecodedFrames, FrameReadError
from metrics_core.frames.sampling import choose_frame_indices

# While its caller works on a picture, decord decodes the next ones and keeps them, without a limit. Cutting one picture
# down takes about as long as decoding four. If more are skipped before the next sampled one, decord stays close.
MIN_SPARSE_STEP = 10
MAX_BYTES_AHEAD = 512 << 20


class DecordReader:
    """A `FrameReader` that seeks to the sampled frames with decord. It raises FrameReadError for files of a sort in
    which decord returns wrong frames, for packets that decord cannot decode, and for too many large pictures. Damage
    that decord skips silently is not noticed.

    decord takes the number of packets for the number of frames, and counts from the key frame before a frame to find
    it. So it silently returns another frame of some files, even healthy ones. Therefore PyAV reads the packets first,
    and the file is refused (`FrameReadError`, so that the next reader takes it) when

    - decord and PyAV disagree about the number of frames (edit lists),
    - the container's index lists packets that cannot be read (truncated and damaged files),
    - the stream has open groups of pictures (x265's default, many AVI, clips cut without re-encoding),
    - the codec is VP8, whose hidden reference frames decord counts as frames,
    - colours have more than 8 bits, which decord converts otherwise than PyAV does,
    - pictures do not have three channels, as happens with decord for some widths below 50,
    - many large pictures must be cut down in quick succession, so that decord would fill the memory,
    - decord meets a packet that it cannot decode.

    Damage that decord skips silently remains: an index can then be off by the few broken frames. Where that matters,
    read files that `probe_video` calls damaged with ``readers=("pyav",)``.
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
            _check_agreement(path, timeline, len(video))
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


def _check_agreement(path: Path, timeline: Timeline, n_decord: int) -> None:
    n_frames = len(timeline.times_s)
    if n_decord != n_frames:
        raise FrameReadError(path, f"decord counts {n_decord} frames, but the stream shows {n_frames}")
    if timeline.n_missing_packets:
        packets = "1 packet" if timeline.n_missing_packets == 1 else f"{timeline.n_missing_packets} packets"
        raise FrameReadError(path, f"{packets} cannot be read, so decord could miscount: another reader has to read it")
    if not timeline.has_closed_groups:
        raise FrameReadError(path, "it has open groups of pictures, in which decord miscounts")
    if timeline.bits_per_component > 8:
        raise FrameReadError(path, f"decord converts its {timeline.bits_per_component}-bit colours coarsely")
    if timeline.codec == "vp8":
        raise FrameReadError(path, "decord would count the hidden frames of VP8")


def _check_decoding_ahead(path: Path, indices: NDArray[np.int64], picture_bytes: int) -> None:
    last = int(indices[-1])
    if last < MIN_SPARSE_STEP * (len(indices) - 1) and last * picture_bytes > MAX_BYTES_AHEAD:
        raise FrameReadError(path, "decord would decode too many large pictures ahead")
