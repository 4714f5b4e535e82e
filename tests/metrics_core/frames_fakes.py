"""Readers that misbehave, for the decoding worker to load by name."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np

from metrics_core.frames import DecodedFrames, FrameReadError, PictureFit


def one_grey_frame(n_frames: int, reader: str) -> DecodedFrames:
    return DecodedFrames(np.zeros(1, np.int64), np.zeros(1), np.full((1, 2, 2, 3), 7, np.uint8), n_frames, reader)


class HangingReader:
    name = "hanging"

    def read(self, path: Path, every: int, cap: int | None, fit: PictureFit | None) -> DecodedFrames:
        threading.Event().wait()
        raise AssertionError("never reached")


class CrashingReader:
    name = "crashing"

    def read(self, path: Path, every: int, cap: int | None, fit: PictureFit | None) -> DecodedFrames:
        os.kill(os.getpid(), signal.SIGSEGV)
        threading.Event().wait()
        raise AssertionError("never reached")


class ExitingReader:
    name = "exiting"

    def read(self, path: Path, every: int, cap: int | None, fit: PictureFit | None) -> DecodedFrames:
        os.write(2, b"out of cheese\n")
        os._exit(3)


class RaisingReader:
    name = "raising"

    def read(self, path: Path, every: int, cap: int | None, fit: PictureFit | None) -> DecodedFrames:
        raise ZeroDivisionError("the fake divides by zero")


class NoisyReader:
    """Prints where a careless native library would."""

    name = "noisy"

    def read(self, path: Path, every: int, cap: int | None, fit: PictureFit | None) -> DecodedFrames:
        os.write(1, b"progress: 100 %\n" * 100)
        print("done")
        return one_grey_frame(1, self.name)


class FourChannelsReader:
    """Gives an alpha channel too, as decord does for a picture 48 pixels wide."""

    name = "four channels"

    def read(self, path: Path, every: int, cap: int | None, fit: PictureFit | None) -> DecodedFrames:
        return DecodedFrames(np.zeros(1, np.int64), np.zeros(1), np.zeros((1, 2, 2, 4), np.uint8), 1, self.name)


class ProcessReader:
    """Gives the id of the process that it runs in as the number of frames."""

    name = "process"

    def read(self, path: Path, every: int, cap: int | None, fit: PictureFit | None) -> DecodedFrames:
        return one_grey_frame(os.getpid(), self.name)


class ModulesReader:
    """Fails with the names of the loaded model libraries."""

    name = "modules"

    def read(self, path: Path, every: int, cap: int | None, fit: PictureFit | None) -> DecodedFrames:
        loaded = sorted({"torch", "transformers", "dagster", "pytest"} & set(sys.modules))
        raise FrameReadError(path, f"loaded: {loaded}")
