"""Sampled frames of a video, and facts about its file. Decoding has a process of its own.

`read_frames` returns the sampled frames of a file, `probe_video` says what the file is and whether it is whole.
Both decode in a child process with a time limit, because native decoders hang or crash on some files.
"""

from metrics_core.frames.decoding import DecodingWorker, content_sha256, probe_video, read_frames
from metrics_core.frames.decord_reader import DecordReader
from metrics_core.frames.fit import Fit
from metrics_core.frames.pyav_reader import PyAVReader
from metrics_core.frames.readers import default_readers
from metrics_core.frames.records import FrameReader, FrameReadError, NotAVideo, SampledFrames, VideoProbe
from metrics_core.frames.sampling import sample_indices

__all__ = [
    "DecodingWorker",
    "DecordReader",
    "Fit",
    "FrameReadError",
    "FrameReader",
    "NotAVideo",
    "PyAVReader",
    "SampledFrames",
    "VideoProbe",
    "content_sha256",
    "default_readers",
    "probe_video",
    "read_frames",
    "sample_indices",
]
