"""Start, ask and end the child process that decodes. Messages and arrays go over a socket."""

from __future__ import annotations

import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from metrics_core.child_processes import start_child
from metrics_core.frames.messages import receive_message, send_message

# Time to start Python and import NumPy on a busy machine. It does not count towards the time limit of a video.
START_TIMEOUT_S = 60.0


class WorkerFailed(Exception):
    """Raised when the child process died, or was killed because it took too long; the message says which."""


class WorkerProcess:
    """One child process, ``python -m metrics_core.frames.worker``, which is started on creation and answers requests.
    It is dead and cannot be used again after `request` raises.

    Raises:
        RuntimeError: the process does not start. The installation is broken; no video is at fault.
    """

    def __init__(self) -> None:
        # Not multiprocessing: its children import the caller's __main__ again, which a REPL or a script without a guard
        # does not survive. Not stdin and stdout: native libraries print there.
        self._channel, child_end = socket.socketpair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by close)
        with child_end:
            self._process = start_child(
                "metrics_core.frames.worker",
                str(child_end.fileno()),
                pass_fds=[child_end.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
            )
        try:
            self._receive(START_TIMEOUT_S)
        except WorkerFailed as error:
            raise RuntimeError(f"the decoding worker does not start: {error}") from error

    @property
    def is_running(self) -> bool:
        """Whether the child process still runs. It may have been killed between two requests, for instance for its
        memory.
        """
        return self._process.poll() is None

    def request(self, header: Mapping[str, object], timeout_s: float) -> tuple[dict[str, Any], list[NDArray[Any]]]:
        """Send a request to the child process, wait for its answer, and return the answer's header and arrays. header:
        JSON values. Raises WorkerFailed where the child dies or does not answer within ``timeout_s`` seconds, after
        which it is killed.

        Raises:
            WorkerFailed: no answer came within ``timeout_s``; the child is dead.
        """
        try:
            self._channel.settimeout(timeout_s)
            send_message(self._channel, {**header, "timeout_s": timeout_s})
        except OSError as error:
            raise WorkerFailed(self._explain_death()) from error
        return self._receive(timeout_s)

    def close(self) -> None:
        """Kill the child process and free its socket and log. A second call does nothing."""
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
            raise WorkerFailed(self._explain_death()) from error
        except BaseException:
            self.close()  # for instance Ctrl-C: half an answer is in the channel
            raise

    def _explain_death(self) -> str:
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
