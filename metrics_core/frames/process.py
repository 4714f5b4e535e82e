"""The caller's handle on the child process that decodes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from metrics_core.frames.channel import receive_message, send_message

# Starting Python and importing NumPy on a busy machine; not part of the time limit of a video.
START_LIMIT_S = 60.0


class WorkerFailed(Exception):
    """The child process died or was killed because it took too long; the text says which."""


class WorkerProcess:
    """One running ``python -m metrics_core.frames.worker``; of no further use once `request` has raised.

    Raises:
        RuntimeError: it does not start, which is a broken installation and no fault of a video.
    """

    def __init__(self) -> None:
        # Not multiprocessing: its children import the caller's __main__ again, which a REPL or a script without a guard
        # does not survive. Not stdin and stdout: native libraries print there.
        self._channel, child_end = socket.socketpair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by close)
        with child_end:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "metrics_core.frames.worker", str(child_end.fileno())],
                pass_fds=[child_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                # The child finds what the caller finds; its working folder, which Python puts first on that path, must
                # not be one with somebody's data.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
                cwd=Path(__file__).resolve().parents[2],
                start_new_session=True,  # Ctrl-C reaches the caller only, which then ends the child
            )
        try:
            self._receive(START_LIMIT_S)
        except WorkerFailed as error:
            raise RuntimeError(f"the decoding worker does not start: {error}") from error

    @property
    def is_running(self) -> bool:
        """False when the child has ended by itself, for instance killed for its memory between two requests."""
        return self._process.poll() is None

    def request(self, header: Mapping[str, object], timeout_s: float) -> tuple[dict[str, Any], list[NDArray[Any]]]:
        """The child's answer.

        Raises:
            WorkerFailed: there was none within ``timeout_s``; the child is dead.
        """
        try:
            self._channel.settimeout(timeout_s)
            send_message(self._channel, {**header, "timeout_s": timeout_s})
        except OSError as error:
            raise WorkerFailed(self._cause_of_death()) from error
        return self._receive(timeout_s)

    def close(self) -> None:
        """Kill the child. Can be called again."""
        self._process.kill()
        self._process.wait()
        self._channel.close()
        self._log.close()

    def _receive(self, timeout_s: float) -> tuple[dict[str, Any], list[NDArray[Any]]]:
        try:
            return receive_message(self._channel, time.monotonic() + timeout_s)
        except TimeoutError as error:
            self.close()
            raise WorkerFailed(f"decoding exceeded the limit of {timeout_s:g} s") from error
        except EOFError as error:
            raise WorkerFailed(self._cause_of_death()) from error
        except BaseException:
            self.close()  # for instance Ctrl-C: half an answer is in the channel
            raise

    def _cause_of_death(self) -> str:
        try:
            status = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        self.close()
        if status < 0:
            return f"the decoder crashed ({signal.Signals(-status).name})"
        return f"the decoder crashed (exit status {status}{': ' + lines[-1] if lines else ''})"
