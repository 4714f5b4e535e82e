"""Starts, asks and ends the child process that decodes; messages and arrays go over a socket."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Messages between a process and its decoding worker. A message is a JSON header with raw arrays, never a pickle.

_LENGTH = struct.Struct("!I")


def send_message(channel: socket.socket, header: Mapping[str, object], *arrays: NDArray[Any]) -> None:
    """Send ``header`` (JSON values) and the arrays.

    Raises:
        OSError: the other side is gone.
    """
    layout = [{"dtype": array.dtype.str, "shape": array.shape} for array in arrays]
    encoded = json.dumps({"header": dict(header), "arrays": layout}).encode()
    channel.sendall(_LENGTH.pack(len(encoded)) + encoded)
    for array in arrays:
        channel.sendall(_bytes_of(np.ascontiguousarray(array)))


def receive_message(channel: socket.socket, deadline: float | None = None) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Wait for the next message, and return its header and its arrays.

    Args:
        channel: one end of a connected pair.
        deadline: time of `time.monotonic` by which the whole message must have come; None waits for ever.

    Raises:
        TimeoutError: the deadline has passed.
        EOFError: the other side is gone.
    """
    prefix = bytearray(_LENGTH.size)
    _fill(channel, memoryview(prefix), deadline)
    encoded = bytearray(_LENGTH.unpack(prefix)[0])
    _fill(channel, memoryview(encoded), deadline)
    message = json.loads(encoded)
    arrays = [np.empty(layout["shape"], dtype=layout["dtype"]) for layout in message["arrays"]]
    for array in arrays:
        _fill(channel, _bytes_of(array), deadline)
    return message["header"], arrays


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _fill(channel: socket.socket, target: memoryview, deadline: float | None) -> None:
    while target:
        if deadline is not None:
            channel.settimeout(max(deadline - time.monotonic(), 1e-6))
        try:
            received = channel.recv_into(target)
        except ConnectionError as error:
            raise EOFError("the other side closed the channel") from error
        if not received:
            raise EOFError("the other side closed the channel")
        target = target[received:]


# Time to start Python and import NumPy on a busy machine. It does not count towards the time limit of a video.
START_LIMIT_S = 60.0


class WorkerFailed(Exception):
    """The child process died, or was killed because it took too long; the message says which."""


class WorkerProcess:
    """One running ``python -m metrics_core.frames.worker``. It cannot be used again once `request` has raised.

    Raises:
        RuntimeError: the process does not start. The installation is broken; no video is at fault.
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
                # The child imports from the same folders as the caller. Python puts the working folder first, so this
                # must not be a folder with somebody's data.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
                cwd=Path(__file__).resolve().parents[2],
                start_new_session=True,  # so that Ctrl-C reaches only the caller, which then ends the child
            )
        try:
            self._receive(START_LIMIT_S)
        except WorkerFailed as error:
            raise RuntimeError(f"the decoding worker does not start: {error}") from error

    @property
    def is_running(self) -> bool:
        """Whether the child still runs. It may have been killed between two requests, for instance for its memory."""
        return self._process.poll() is None

    def request(self, header: Mapping[str, object], timeout_s: float) -> tuple[dict[str, Any], list[NDArray[Any]]]:
        """Send a request and return the child's answer.

        Raises:
            WorkerFailed: no answer came within ``timeout_s``; the child is dead.
        """
        try:
            self._channel.settimeout(timeout_s)
            send_message(self._channel, {**header, "timeout_s": timeout_s})
        except OSError as error:
            raise WorkerFailed(self._cause_of_death()) from error
        return self._receive(timeout_s)

    def close(self) -> None:
        """Kill the child. A second call does nothing."""
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
