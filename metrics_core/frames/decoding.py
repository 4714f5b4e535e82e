"""Read and probe videos in a child process with a time limit."""

from __future__ import annotations

import atexit
import functools
import math
import os
import stat
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from numpy.typing import NDArray

from metrics_core.facts.models import ModelFacts
from metrics_core.facts.pictures import PictureFacts, VideoMeasurement
from metrics_core.frames.fit import PictureFit
from metrics_core.frames.probe import UNKNOWN_FIELDS
from metrics_core.frames.process import WorkerFailed, WorkerProcess
from metrics_core.frames.records import DecodedFrames, DecoderFailed, FrameReadError, NotAVideo, VideoProbe
from metrics_core.frames.sampling import choose_frame_indices

# Where the readers are, as the child process imports them.
_READERS = {
    "decord": "metrics_core.frames.decord_reader:DecordReader",
    "pyav": "metrics_core.frames.pyav_reader:PyAVReader",
}


class DecodingWorker:
    """A child process that decodes videos. It starts at the first request and is replaced when it hangs or crashes.
    Threads may share a worker; their requests then wait for one another. Use several workers to decode in parallel.

    Examples:
        >>> with DecodingWorker() as worker:
        ...     try:
        ...         worker.read_frames(Path("no_such.mp4"))
        ...     except FrameReadError as error:
        ...         print(error)
        no_such.mp4: there is no such file
    """

    def __init__(self) -> None:
        self._process: WorkerProcess | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> DecodingWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child process, if it runs. A later request starts a new one."""
        with self._lock:
            if self._process is not None:
                self._process.close()
                self._process = None

    def read_frames(
        self,
        path: Path,
        *,
        every: int = 30,
        cap: int | None = None,
        fit: PictureFit | None = None,
        timeout_s: float = 60.0,
        reader: str = "pyav",
    ) -> DecodedFrames:
        """Decode the sampled frames of a video in this worker's process, and return them in the order shown. every,
        cap: the distance between two sampled frames, and the most of them, None for no limit, as in
        `choose_frame_indices`. fit: the part of a frame to keep; None keeps whole frames. reader: such as "decord".

        Args:
            path: the video file. All its sampled frames are in memory at once, up to
                `metrics_core.frames.pictures.MAX_FRAMES_BYTES`.
            every, cap, fit: as above.
            timeout_s: how long a reader may take.
            reader: ``pyav``; ``decord``, in whose place PyAV reads a file that decord refuses or fails to read; or your
                own ``module:attribute``.

        Raises:
            FrameReadError: the reader cannot decode the file, crashed, or exceeded the limit of time or memory.
            ValueError: an argument is out of its range, or the reader is unknown.
        """
        choose_frame_indices(0, every, cap)
        if reader not in _READERS and ":" not in reader:
            raise ValueError(f"unknown reader {reader!r}: use one of {', '.join(_READERS)}, or 'module:attribute'")
        _check_file(path)
        request = _build_read_request("read", path, every, cap, fit)
        for name in ("decord", "pyav") if reader == "decord" else (reader,):
            try:
                answer, arrays = self._request(request | {"reader": _READERS.get(name, name)}, timeout_s)
            except WorkerFailed as failure:
                answer, arrays = {"unexpected": str(failure)}, []
            if arrays:
                return _build_frames(answer, arrays)
        (reason,) = answer.values()
        raise (DecoderFailed if "unexpected" in answer else FrameReadError)(path, reason)

    def probe_video(self, path: Path, *, timeout_s: float = 60.0) -> VideoProbe:
        """Return facts about a video file, such as duration, size, codec and damage, checked in this worker's process.
        If the decoder hangs, crashes or takes longer than `timeout_s` seconds, the video counts as "undecodable".
        Raises NotAVideo for a file without a video stream, OSError for one that is missing or cannot be read.
        """
        path.stat()  # raises for a missing file, which is an error of the caller, not a fact about a video
        if not path.is_file():
            raise NotAVideo(path, _describe_special_file(path))
        request = {"task": "probe", "path": str(path.absolute())}
        facts: dict[str, Any]
        try:
            answer, _ = self._request(request, timeout_s)
        except WorkerFailed as failure:
            facts = {**UNKNOWN_FIELDS, "status": "undecodable", "error": str(failure)}
        else:
            if "not_a_video" in answer:
                raise NotAVideo(path, answer["not_a_video"])
            facts = answer.get("facts") or {**UNKNOWN_FIELDS, "status": "undecodable", "error": answer["unexpected"]}
        return VideoProbe(**facts)

    def probe_header(self, path: Path, n_read: int, *, timeout_s: float = 60.0) -> VideoProbe | int | None:
        """Return the facts about an MP4 file that only has its first `n_read` bytes, and zeros after them, by its index
        and its first frame; or the number of first bytes that it needs. None where only `probe_video` on the whole
        file can tell, also after a crash or `timeout_s` seconds.
        """
        try:
            answer, _ = self._request(
                {"task": "probe_header", "path": str(path.absolute()), "n_read": n_read}, timeout_s
            )
        except WorkerFailed:
            return None
        found = answer.get("found")
        return VideoProbe(**found) if isinstance(found, dict) else found

    def measure_video(self, path: Path, *, with_models: bool = False, timeout_s: float = 60.0) -> VideoMeasurement:
        """Return the facts about a video, measured in the child process on all frames that decode. with_models: whether
        the models of the extra `facts` measure text on screen and speech. Raises FrameReadError where no frame decodes,
        DecoderFailed after a crash or `timeout_s` seconds.

        Raises:
            FrameReadError: no frame decodes, or as `DecoderFailed`, the decoder crashed or ran out of time.
        """
        request = {"task": "measure", "path": str(path.absolute()), "with_models": with_models}
        return self._measure(request, path, timeout_s)[0]

    def measure_and_read(
        self,
        path: Path,
        *,
        every: int = 30,
        cap: int | None = None,
        fit: PictureFit | None,
        with_models: bool = False,
        timeout_s: float = 60.0,
    ) -> tuple[VideoMeasurement, DecodedFrames]:
        """Return what `measure_video` and, with PyAV as reader, `read_frames` return, from one pass over the frames.
        Raises FrameReadError or DecoderFailed where either of them does.
        """
        request = _build_read_request("measure_and_read", path, every, cap, fit) | {"with_models": with_models}
        measurement, answer, arrays = self._measure(request, path, timeout_s)
        return measurement, _build_frames(answer, arrays)

    def _measure(
        self, request: Mapping[str, object], path: Path, timeout_s: float
    ) -> tuple[VideoMeasurement, dict[str, Any], list[NDArray[Any]]]:
        _check_file(path)
        try:
            answer, arrays = self._request(request, timeout_s)
        except WorkerFailed as failure:
            raise DecoderFailed(path, str(failure)) from failure
        if "unexpected" in answer:
            raise DecoderFailed(path, answer["unexpected"])
        if "facts" not in answer:
            (reason,) = answer.values()
            raise FrameReadError(path, reason)
        facts, by_models = PictureFacts(**answer["facts"]), ModelFacts(**answer["by_models"])
        return VideoMeasurement(facts, answer["has_sound"], by_models), answer, arrays

    def _request(self, header: Mapping[str, object], timeout_s: float) -> tuple[dict[str, Any], list[NDArray[Any]]]:
        if not 0 < timeout_s < math.inf:
            raise ValueError(f"timeout_s must be a finite number above 0, got {timeout_s}")
        with self._lock:
            if self._process is not None and not self._process.is_running:
                self._process.close()
                self._process = None
            process, self._process = self._process or WorkerProcess(), None
            answer = process.request(header, timeout_s)
            self._process = process  # only a process that has answered is used again
            return answer


def get_shared_worker() -> DecodingWorker:
    """Return the worker that all callers in this process share. It ends with the process."""
    return _make_process_worker(os.getpid())


@functools.cache
def _make_process_worker(process_id: int) -> DecodingWorker:
    """Return the one worker of this process. After a fork, the child must not use its parent's worker."""
    worker = DecodingWorker()
    atexit.register(worker.close)
    return worker


def _build_read_request(
    task: str, path: Path, every: int, cap: int | None, fit: PictureFit | None
) -> dict[str, object]:
    sampling = {"every": every, "cap": cap, "fit": asdict(fit) if fit else None}
    return {"task": task, "path": str(path.absolute()), **sampling}


def _build_frames(answer: Mapping[str, Any], arrays: Sequence[NDArray[Any]]) -> DecodedFrames:
    indices, times_s, pixels = arrays
    return DecodedFrames(indices, times_s, pixels, answer["n_frames"], answer["reader"])


def _check_file(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        raise FrameReadError(path, "there is no such file") from error
    except OSError as error:
        raise FrameReadError(path, f"it cannot be opened ({error.strerror})") from error
    if not stat.S_ISREG(mode):
        raise FrameReadError(path, _describe_special_file(path))


def _describe_special_file(path: Path) -> str:
    return f"it is a {'folder' if path.is_dir() else 'pipe, socket or device'}, not a file"
