"""Facts about the pictures of a video file, from one pass over its frames. Runs in the decoding worker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metrics_core.facts.pictures import LEAST_AREA, FrameScan, Luma, Motion, PictureFacts, motion_of

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

# Codecs whose decoder in FFmpeg gives motion vectors; those of HEVC, VP9 and AV1 give none.
WITH_VECTORS = ("h264", "mpeg4")
# Formats whose first plane holds the luma in bytes, with black at 16 unless the frame says otherwise.
PLANAR = ("yuv420p", "yuv422p", "yuv444p", "yuvj420p", "yuvj422p", "yuvj444p", "nv12", "gray")
FULL_RANGE = 2
# Frames a second that are looked at for contrast, sharpness and bars; and at most so many for motion.
CLOSE_LOOKS, MOTION_LOOKS = 1.0, 2.0


class FrameMeasurer:
    """Measures the frames of a video as they are decoded, in the order in which they are shown.

    codec: its name. fps: frames a second, None where unknown.
    """

    def __init__(self, codec: str, fps: float | None) -> None:
        self._scan = FrameScan()
        self._takes_vectors = codec in WITH_VECTORS
        self._every = max(1, round((fps or 25.0) / CLOSE_LOOKS))
        self._motion_every = max(1, round((fps or 25.0) / MOTION_LOOKS))
        self._n = self._next_motion = 0
        self._since_anchor = 0

    def add(self, frame: VideoFrame) -> None:
        """Measure the next frame."""
        luma = luma_of(frame)
        self._scan.look(luma)
        if self._n % self._every == 0:
            self._scan.look_closely(luma)
        self._n += 1
        if self._takes_vectors and (motion := self._motion(frame)) is not None:
            self._scan.motions.append(motion)

    def facts(self) -> PictureFacts:
        """Sum up the frames measured so far."""
        return self._scan.facts()

    def _motion(self, frame: VideoFrame) -> Motion | None:
        """The motion since the frame that this one is predicted from; None unless it is predicted from the past alone.

        A frame of kind P is predicted from the last one of kind I or P. Frames of kind B between them refer to either,
        and FFmpeg does not say how far away these are.
        """
        from av.video.frame import PictureType

        self._since_anchor += 1
        if frame.pict_type == PictureType.B:
            return None
        steps, self._since_anchor = self._since_anchor, 0
        if frame.pict_type != PictureType.P or self._n <= self._next_motion:
            return None
        self._next_motion = self._n + self._motion_every
        side_data: Any = frame.side_data.get("MOTION_VECTORS")
        if side_data is None:
            return None
        blocks = side_data.to_ndarray()
        blocks = blocks[blocks["source"] < 0]
        areas = blocks["w"].astype(np.float64) * blocks["h"]
        if areas.sum() < LEAST_AREA * frame.width * frame.height:
            return None
        places = blocks["dst_x"] + 1j * blocks["dst_y"]
        # A vector points from the block to where it comes from, in fractions of a pixel.
        scale = -np.maximum(blocks["motion_scale"], 1).astype(np.float64) * steps
        vectors = (blocks["motion_x"] + 1j * blocks["motion_y"]) / scale
        return motion_of(places, vectors, areas)


def luma_of(frame: VideoFrame) -> Luma:
    """Return the luma of a decoded frame, shape (H, W), with black at 16 and white at 235; often without a copy."""
    if frame.format.name not in PLANAR:
        frame = frame.reformat(format="yuv420p")
    plane = frame.planes[0]
    luma: Luma = np.frombuffer(memoryview(plane), dtype=np.uint8).reshape(-1, plane.line_size)
    luma = luma[: frame.height, : frame.width]
    if frame.color_range == FULL_RANGE or frame.format.name.startswith("yuvj"):
        narrowed: Luma = (16 + luma * np.float32(219 / 255) + np.float32(0.5)).astype(np.uint8)
        return narrowed
    return luma


def measure_video(path: Path) -> tuple[PictureFacts, bool]:
    """Measure the frames of a video, those that decode; returns the facts, and whether it has a sound track.

    Raises:
        FrameReadError: no frame decodes.
    """
    from metrics_core.frames.container import frame_rate, open_video
    from metrics_core.frames.pyav_reader import decodable_frames
    from metrics_core.frames.records import FrameReadError

    with open_video(path) as (container, stream):
        ask_for_vectors(stream)
        rate = frame_rate(stream)
        measurer = FrameMeasurer(stream.codec_context.codec.canonical_name, float(rate) if rate else None)
        n = 0
        for frame in decodable_frames(container, stream):
            measurer.add(frame)
            n += 1
        if not n:
            raise FrameReadError(path, "no frame of the video can be decoded")
        return measurer.facts(), bool(container.streams.audio)


def ask_for_vectors(stream: Any) -> None:
    """Have the decoder of a stream keep motion vectors beside its frames; before the first frame is decoded."""
    from av.codec.context import Flags2

    stream.codec_context.flags2 |= Flags2.export_mvs
