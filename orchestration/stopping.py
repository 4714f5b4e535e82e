"""Ends a process within seconds of Ctrl-C or SIGTERM, whatever it waits for.

Python handles a signal in the main thread, between two steps of Python code. A thread that waits inside a C library, as
psycopg2 does for a lock, takes no such step; and a process whose main thread has ended still waits for other threads,
which no signal reaches. So a separate thread, which learns of the signal by a socket, ends the process.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any

import psutil

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# It has to be gone within 5 seconds, also on a busy machine.
PATIENCE_S = 3.0
STOPPED_MESSAGE = "stopped; run the same command again to continue"


class StopSignals:
    """Context manager in which the first Ctrl-C or SIGTERM raises KeyboardInterrupt. Once the block ends with an error,
    or 3 seconds later at the latest, it prints one sentence and ends the process and its children; the exit code is 130
    or 143. A signal after the block ends the process at once. Does nothing outside the main thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._received: int | None = None
        self._is_raised = self._is_over = self._is_ending = False
        self._family: list[psutil.Process] = []

    def __enter__(self) -> StopSignals:
        self._is_main = threading.current_thread() is threading.main_thread()
        if self._is_main:
            # While an asset works, Dagster puts a file in the place of standard error.
            self._stderr = os.dup(2)
            self._reader, self._writer = socket.socketpair()
            self._reader.setblocking(False)
            self._writer.setblocking(False)
            signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
            threading.Thread(target=self._watch, name="stop signals", daemon=True).start()
            for number in SIGNALS:
                signal.signal(number, self._raise)
        return self

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if not self._is_main:
            return
        self._is_raised = True  # too late for an interrupt
        number = self.find_signal()
        if number is None:
            for stop_signal in SIGNALS:
                signal.signal(stop_signal, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            self._writer.close()
            os.close(self._stderr)
        elif not (error is None or (isinstance(error, SystemExit) and not error.code)):
            with suppress(Exception):
                sys.stdout.flush()
            self._end(128 + number)

    def find_signal(self) -> int | None:
        """Return the number of the first SIGINT or SIGTERM that this process received since the block began; None if
        there was none.
        """
        if self._is_main:
            with self._lock, suppress(BlockingIOError):
                numbers = self._reader.recv(64)
                self._is_over = not numbers
                if self._received is None:
                    self._received = next((number for number in numbers if number in SIGNALS), None)
        return self._received

    def _raise(self, _number: int, _frame: FrameType | None) -> None:
        if not self._is_raised:
            self._is_raised = True
            raise KeyboardInterrupt

    def _watch(self) -> None:
        while (number := self.find_signal()) is None:
            if self._is_over:
                self._reader.close()
                return
            select.select([self._reader], [], [])
        # Where the interrupt comes up inside a finaliser, Python continues, and prints a traceback.
        sys.unraisablehook = threading.excepthook = _ignore
        # A child whose parent ends first could not be found later on.
        self._family = psutil.Process().children(recursive=True)
        time.sleep(PATIENCE_S)
        self._end(128 + number)

    def _end(self, code: int) -> None:
        with self._lock:
            is_ending, self._is_ending = self._is_ending, True
        if is_ending:
            time.sleep(PATIENCE_S)  # another thread ends this process
        # Other threads still work: their output from now on is dropped, so that this sentence is the last one.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        # If nobody reads, writing would wait for ever.
        if select.select([], [self._stderr], [], 0)[1]:
            os.write(self._stderr, f"{STOPPED_MESSAGE}\n".encode())
        for process in {*self._family, *psutil.Process().children(recursive=True)}:
            with suppress(psutil.Error):
                if not is_cleanup_process(process):
                    process.kill()
        os._exit(code)


@contextmanager
def clean_up_after_kill(folder: str) -> Iterator[None]:
    """If this process is killed inside the block, kill the child processes that it had at the start, and remove the
    folder, which only these children need. Starts a shell that waits for that.
    """
    children = [str(child.pid) for child in psutil.Process().children(recursive=True)]
    # The shell waits for its input, which ends with this process.
    waiting = subprocess.Popen(
        ["sh", "-c", 'read _; folder=$1; shift; kill -9 "$@" 2>&-; rm -rf "$folder"', "sh", folder, *children],
        stdin=subprocess.PIPE,
    )
    try:
        yield
    finally:
        waiting.kill()
        waiting.wait()


def is_cleanup_process(process: psutil.Process) -> bool:
    """Whether a process is a shell or Python's resource tracker: these wait for the end of others, remove their
    leftovers, and end by themselves.
    """
    # A shell does so in `clean_up_after_kill`, Python's resource tracker for semaphores.
    return process.name() == "sh" or any("multiprocessing.resource_tracker" in part for part in process.cmdline())


def _ignore(_: Any) -> None:
    """Print nothing."""
