"""A process that checks rows for an ingest, seen from the ingest."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection
from multiprocessing import Pipe
from pathlib import Path

from assets.ingest.lines import Block
from assets.ingest.packing import unpacked
from assets.ingest.rows import Checked


class WorkerKilled(RuntimeError):
    """A process that checked rows was killed, for instance since the machine had no memory left."""

    plain = True


class Worker:
    """One running `python -m assets.ingest.worker`.

    Not multiprocessing: its children import the caller's __main__ again, which a notebook or a script without a guard
    does not survive.
    """

    def __init__(self, source: str, kind: str | None, dimensions: Collection[str]) -> None:
        self._source = source
        self._channel, theirs = Pipe()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed by close)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "assets.ingest.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                # The folders of this process, in place of the working folder, which may hold somebody's data.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
                cwd=Path(__file__).resolve().parents[2],
                start_new_session=True,  # so that Ctrl-C reaches only this process, which then ends the other
            )
        self._channel.send((source, kind, tuple(dimensions)))

    def check(self, block: Block) -> list[Checked]:
        """The rows of a block of lines. Raises WorkerKilled, or RuntimeError if the process came upon a fault."""
        try:
            self._channel.send(block)
            answer = self._channel.recv_bytes()
        except (EOFError, OSError) as error:
            raise self._death() from error
        return unpacked(pickle.loads(answer))

    def close(self) -> None:
        """End the process."""
        self._channel.close()
        self._process.kill()
        self._process.wait()
        self._log.close()

    def _death(self) -> RuntimeError:
        status = self._process.wait()
        if status < 0:
            return WorkerKilled(
                f"{self._source}: a process that checks its rows was killed ({signal.Signals(-status).name}): see that "
                "the machine has memory left and run the same command again; it writes the rows that are missing"
            )
        self._log.seek(0)
        said = self._log.read().decode(errors="replace")
        return RuntimeError(f"{self._source}: a process that checks its rows ended with status {status}:\n{said}")
