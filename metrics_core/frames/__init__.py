"""Read sampled frames of a video and facts about its file. Decoding runs in a child process with a time limit.

A `DecodingWorker` reads the sampled frames of a file, and probes it for facts such as length, size and codec, and
whether the file is damaged. The child process exists because native decoders hang or crash on some files.
"""

from metrics_core.frames.decoding import DecodingWorker, get_shared_worker
from metrics_core.frames.fit import PictureFit
from metrics_core.frames.records import DecodedFrames, FrameReader, FrameReadError, NotAVideo, VideoProbe
from metrics_core.frames.sampling import choose_frame_indices

__all__ = [
    "DecodedFrames",
    "DecodingWorker",
    "FrameReadError",
    "FrameReader",
    "NotAVideo",
    "PictureFit",
    "VideoProbe",
    "choose_frame_indices",
    "get_shared_worker",
]
