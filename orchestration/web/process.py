"""A program that runs next to the web server and ends with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from orchestration.stopping import is_cleanup_process

# How long open requests, and then the other processes, may take to end: after a signal there are some seconds for both.
PATIENCE_S = 1


@contextmanager
def run_dagster_program(program: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program of Dagster, such as "dagster-daemon", with these arguments, and yield its process. When the block
    ends, the program and all that it started are stopped, by force after one second. The program is looked for next to
    the Python interpreter.
    """
    started = subprocess.Popen([str(Path(sys.executable).with_name(program)), *arguments])
    try:
        yield started
    finally:
        family = []
        with suppress(psutil.Error):
            family = psutil.Process(started.pid).children(recursive=True)
        started.terminate()
        with suppress(subprocess.TimeoutExpired):
            started.wait(PATIENCE_S)
        started.kill()
        for child in family:
            with suppress(psutil.Error):
                if not is_cleanup_process(child):
                    child.kill()
        started.wait()
