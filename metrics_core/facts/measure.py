"""Measures facts about the frames of a video file in one pass. Runs in the decoding worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import ceil, inf
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from metrics_core.facts.models import ModelFacts
from metrics_core.facts.pictures import FrameScan, Luma, PictureFacts, VideoMeasurement, compute_frame_durations

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

    from metrics_core.frames.fit import PictureFit
    from metrics_core.frames.records import DecodedFrames

# Formats whose first plane holds the luma in bytes, with black at 16 unless the frame says otherwise.
PLANAR = ("yuv420p", "yuv422p", "yuv444p", "yuvj420p", "yuvj422p", "yuvj444p", "nv12", "gray")
FULL_RANGE = 2
# Seconds between two frames that are measured for contrast, sharpness and bars.
DETAILS_EVERY_S = 1.0
USUAL_FPS = 25.0
# Seconds between two moments at which text is looked for: few subtitles are shown for less, and looking into a frame
# takes several times as long as decoding a second.
TEXT_EVERY_S = 2.0
# So much sound is heard however early the frames end. An hour takes 20 s, and the time limit of a video is a minute
# and four times the time in which frames are shown.
LONGEST_SOUND_S = 600.0
# The share of a sound track that decodes at least. The first packets of a whole one often give no sound.
LEAST_DECODED = 0.9


class FrameMeasurer:
    """Measures the frames of one video: call `add_frame` with every frame in the order in which they are shown, then
    `compute_facts`. fps: frames a second where none is held longer than usual; None assumes 25. time_base: seconds of a
    unit of the time stamps; None advances time by 1 / fps a frame. n_frames: frames added so far.
    """

    def __init__(self, fps: float | None, time_base: Fraction | None, *, with_models: bool = False) -> None:
        self._frame_s = 1 / (fps or USUAL_FPS)
        self.texts = TextScan(self._frame_s) if with_models else None
        self._scan = FrameScan(self._frame_s)
        self._tick_s = float(time_base) if time_base else None
        self.n_frames = 0
        self._next_details_s = -inf
        self._last_s = -self._frame_s

    def add_frame(self, frame: VideoFrame) -> None:
        """Measure the next decoded frame for light, change, motion and signature. About one frame a second is also
        measured for contrast, sharpness and bars.
        """
        from metrics_core.frames.container import count_quarter_turns

        if not self.n_frames:
            # The rotation may change within a stream. All frames get that of the first.
            self._scan.turns = count_quarter_turns(frame)
        time_s = self._find_start_time(frame)
        if self.texts is not None:
            self.texts.add_frame(frame, time_s)
        luma = convert_to_luma(frame)
        self._scan.add_frame(luma, time_s)
        if time_s >= self._next_details_s:
            self._scan.add_details(luma)
            self._next_details_s = max(self._next_details_s, time_s - self._frame_s / 2) + DETAILS_EVERY_S
        self.n_frames += 1

    def end(self, seconds: float | None) -> None:
        """Count the last frame as shown until so many seconds after the first one began; None: as long as usual."""
        if seconds is not None:
            self._scan.hold_last_frame(self._scan.start_times[0] + seconds)
        if self.texts is not None:
            self.texts.end(self.compute_end())

    def compute_facts(self) -> PictureFacts:
        """Compute the facts (motion, sharpness, light, cuts and so on) about all frames added so far. A fact that
        cannot be measured is None; without a frame every fact is.
        """
        return self._scan.compute_facts()

    def compute_seconds(self) -> float:
        """Compute how many seconds the frames so far are shown, the last one as usual or until the given end."""
        return float(compute_frame_durations(self._scan.start_times, self._scan.end_s).sum())

    def compute_end(self) -> float:
        """Compute the second of the stream's clock at which the last frame so far ends."""
        return self._scan.start_times[0] + self.compute_seconds()

    def _find_start_time(self, frame: VideoFrame) -> float:
        """Return the second from which a frame is shown: by its time stamp, or one frame later where that is missing or
        too early.
        """
        time_s = self._last_s + self._frame_s
        if frame.pts is not None and self._tick_s is not None:
            stamped = frame.pts * self._tick_s
            time_s = stamped if stamped > self._last_s or not self.n_frames else time_s
        self._last_s = time_s
        return time_s


def convert_to_luma(frame: VideoFrame) -> Luma:
    """Return the luma of a decoded frame as bytes (H, W), in the range where black is 16 and white 235. It is often a
    view of the frame without a copy.
    """
    if frame.format.name not in PLANAR:
        frame = frame.reformat(format="yuv420p")
    plane = frame.planes[0]
    luma: Luma = np.frombuffer(memoryview(plane), dtype=np.uint8).reshape(-1, plane.line_size)
    luma = luma[: frame.height, : frame.width]
    if frame.color_range == FULL_RANGE or frame.format.name.startswith("yuvj"):
        narrowed: Luma = (16 + luma * np.float32(219 / 255) + np.float32(0.5)).astype(np.uint8)
        return narrowed
    return luma


class TextScan:
    """Looks for text every two seconds of a video: call `add_frame` with every frame, in order, then `end`. `areas` has
    the share of the frame under text of every frame looked at, and `moments` at how many of these moments it was shown.
    frame_s: seconds of a usual frame. Needs the extra `facts`.
    """

    def __init__(self, frame_s: float) -> None:
        self.areas: list[float] = []
        self.moments: list[int] = []
        self._frame_s = frame_s
        self._frame: VideoFrame | None = None
        self._next_s = 0.0

    def add_frame(self, frame: VideoFrame, time_s: float) -> None:
        """Look for text in the frame added before, if a moment falls into its time, which `time_s` (seconds) ends."""
        if self._frame is None:
            self._next_s = time_s
        self.end(time_s)
        self._frame = frame

    def end(self, end_s: float) -> None:
        """Look for text in the last frame added, if a moment falls into its time, which ends at `end_s` (seconds)."""
        from metrics_core.facts.screen_text import measure_text_area, read_lines_by_model

        n = max(not self.areas, ceil((end_s - self._frame_s / 2 - self._next_s) / TEXT_EVERY_S))
        if n > 0 and self._frame is not None:
            self.areas.append(measure_text_area(convert_to_picture(self._frame), read_lines_by_model))
            self.moments.append(n)
            self._next_s += n * TEXT_EVERY_S


def convert_to_picture(frame: VideoFrame) -> NDArray[np.uint8]:
    """Return a decoded frame upright, as uint8 of shape (H, W, 3) in blue, green, red. A frame with a side
    above 1,280 pixels is made smaller.
    """
    from metrics_core.facts.screen_text import LONGEST_SIDE
    from metrics_core.frames.container import count_quarter_turns

    scale = min(1.0, LONGEST_SIDE / max(frame.width, frame.height))
    width, height = (max(1, round(side * scale)) for side in (frame.width, frame.height))
    picture = frame.reformat(width, height, format="bgr24").to_ndarray()
    return np.ascontiguousarray(np.rot90(picture, count_quarter_turns(frame)))


def measure_speech_share(path: Path, shown_s: float) -> float | None:
    """Measure the share of a video file's time in which somebody speaks; None without a sound track, or where more than
    a tenth of it does not decode. The time is that of the sound, or of the frames (`shown_s`), if longer. Sound after
    the last frame counts only in the first ten minutes. Needs the extra `facts`.
    """
    from metrics_core.facts.speech import measure_speech
    from metrics_core.frames.sound import decode_sound

    heard_s = max(shown_s, LONGEST_SOUND_S)
    speech_s, sound_s = measure_speech(decode_sound(path, heard_s))
    is_damaged = sound_s < LEAST_DECODED * min(heard_s, _sum_sound_packets(path))
    return speech_s / max(sound_s, shown_s) if sound_s and not is_damaged else None


def _sum_sound_packets(path: Path) -> float:
    """Return the seconds that the packets of a video file's sound track claim, decoded or not, since decoders do not
    report all that they drop; 0 without a sound track.
    """
    from metrics_core.frames.container import open_video, read_packets

    with open_video(path) as (container, _):
        stream = container.streams.best("audio")
        packets = [] if stream is None else read_packets(container, stream)
        return sum(float(one.duration * one.time_base) for one in packets if one.duration and one.time_base)


def measure_video(path: Path, *, with_models: bool = False) -> VideoMeasurement:
    """Measure the frames of a video file that decode. with_models: whether the models of the extra `facts` measure text
    on screen and speech. Raises FrameReadError where no frame decodes, or `open_video` refuses the file.
    """
    from metrics_core.frames.container import open_video
    from metrics_core.frames.pyav_reader import decode_frames
    from metrics_core.frames.records import FrameReadError

    with open_video(path) as (container, stream):
        measurer = _make_measurer(stream, with_models)
        for frame in decode_frames(container, stream):
            measurer.add_frame(frame)
        if not measurer.n_frames:
            raise FrameReadError(path, "no frame of the video can be decoded")
        return _complete_measurement(measurer, path, container)


def measure_and_read(
    path: Path, every: int, cap: int | None, fit: PictureFit | None = None, *, with_models: bool = False
) -> tuple[VideoMeasurement, DecodedFrames]:
    """Measure the frames of a video file and read its sampled frames, in one pass over the stream. The results are
    those of `measure_video` and of `PyAVReader.read` with the same arguments. Raises FrameReadError where either does.
    """
    from metrics_core.frames.container import open_video, read_timeline
    from metrics_core.frames.pyav_reader import decode_frames, sample_frames
    from metrics_core.frames.sampling import choose_frame_indices

    wanted = choose_frame_indices(len(read_timeline(path).times_s), every, cap)
    with open_video(path) as (container, stream):
        measurer = _make_measurer(stream, with_models)
        frames = _measure_on_the_way(measurer, decode_frames(container, stream))
        sampled = sample_frames(path, stream, frames, every, cap, fit, wanted)
        return _complete_measurement(measurer, path, container), sampled


def _make_measurer(stream: VideoStream, with_models: bool) -> FrameMeasurer:
    from metrics_core.frames.container import find_usual_rate

    rate = find_usual_rate(stream)
    return FrameMeasurer(float(rate) if rate else None, stream.time_base, with_models=with_models)


def _complete_measurement(measurer: FrameMeasurer, path: Path, container: InputContainer) -> VideoMeasurement:
    measurer.end(_find_duration(measurer, path, container))
    by_models = ModelFacts()
    if measurer.texts is not None:
        areas, moments = np.array(measurer.texts.areas), measurer.texts.moments
        speech_share = measure_speech_share(path, measurer.compute_seconds())
        text_share, text_area = (float(np.average(each, weights=moments)) for each in (areas > 0, areas))
        by_models = ModelFacts(text_share, text_area, speech_share)
    return VideoMeasurement(measurer.compute_facts(), bool(container.streams.audio), by_models)


def _find_duration(measurer: FrameMeasurer, path: Path, container: InputContainer) -> float | None:
    """Return the seconds of a video whose last frame may be held, judged by all packets; else None."""
    from metrics_core.frames.endings import find_promised_end
    from metrics_core.frames.probe import MAX_SHORTFALL_S, collect_probe_fields

    promised_s = find_promised_end(container)
    if promised_s is None or promised_s - measurer.compute_end() <= MAX_SHORTFALL_S:
        return None
    return cast(float | None, collect_probe_fields(path)["duration_s"])


def _measure_on_the_way(measurer: FrameMeasurer, frames: Iterable[VideoFrame]) -> Iterator[VideoFrame]:
    """Measure decoded frames one by one, and pass them on. Every frame of a clip comes by here once."""
    for frame in frames:
        measurer.add_frame(frame)
        yield frame
