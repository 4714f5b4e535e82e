"""Rows of a file, validated ahead of the database: for a large file by separate processes, else in this one.

The rows come in the order of the file, no matter which process validates them.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from multiprocessing import Pipe
from pathlib import Path
from typing import TypeVar

from assets.ingest.files import convert_os_errors
from assets.ingest.json_lines import JSON_LINES, parse_rows, read_file_blocks
from assets.ingest.label_studio import SUFFIX as LABEL_STUDIO
from assets.ingest.lines import Block
from assets.ingest.named_columns import NO_COLUMNS, Columns
from assets.ingest.packing import unpack_rows
from assets.ingest.readers import read_mixed_rows, read_table
from assets.ingest.rejects import ManifestError
from assets.ingest.rows import CheckedRow
from assets.ingest.scales import NO_SCALES, Scale
from assets.ingest.validate import validate_row
from metrics_core.child_processes import PACKAGES_FOLDER, build_child_environment

LARGE_FILE_BYTES = 8 * 2**20
# This process and the database take turns, so they need one core together.
MAX_WORKERS = 2
A = TypeVar("A")
B = TypeVar("B")


class WorkerKilled(RuntimeError):
    """Raised when a process that checked rows was killed, for instance because the machine had no memory left."""

    plain = True


class WorkerProcess:
    """One running `python -m assets.ingest.worker`, which checks blocks of JSON Lines for this process; making one
    starts it.

    Not multiprocessing: its children import the caller's __main__ again, which a notebook or a script without a guard
    does not survive.
    """

    def __init__(
        self,
        source: str,
        kind: str | None,
        dimensions: Collection[str],
        scales: Mapping[str, Scale] = NO_SCALES,
        columns: Columns = NO_COLUMNS,
    ) -> None:
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
                # The child imports from the folders of this process, except the current one, which may hold somebody's
                # data.
                env=build_child_environment(sys.path),
                cwd=PACKAGES_FOLDER,
                start_new_session=True,  # so that Ctrl-C reaches only this process, which then ends the other
            )
        self._channel.send((source, kind, tuple(dimensions), dict(scales), dict(columns)))

    def check_block(self, block: Block) -> list[CheckedRow]:
        """Send a block of lines to the process, wait, and return its rows in order, each with its valid row or Reject.
        Raises WorkerKilled if the process was killed, and RuntimeError if it ended with an error.
        """
        try:
            self._channel.send(block)
            answer = self._channel.recv_bytes()
        except (EOFError, OSError) as error:
            raise self._death() from error
        return unpack_rows(pickle.loads(answer))

    def close(self) -> None:
        """Kill the process and wait for its end."""
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
        output = self._log.read().decode(errors="replace")
        return RuntimeError(f"{self._source}: a process that checks its rows ended with status {status}:\n{output}")


def choose_n_workers(path: Path) -> int:
    """Return how many processes should check the rows of a file: 0 below 8 MiB, else one fewer than the machine has
    cores, at most 2. Raises ManifestError if the file cannot be read.
    """
    with convert_os_errors(path):
        is_large = path.stat().st_size >= LARGE_FILE_BYTES
    return min(MAX_WORKERS, (os.cpu_count() or 1) - 1) if is_large else 0


def read_checked_rows(
    path: Path,
    kind: str | None,
    dimensions: Collection[str],
    n_workers: int | None = None,
    scales: Mapping[str, Scale] = NO_SCALES,
    columns: Columns = NO_COLUMNS,
) -> Generator[CheckedRow, None, None]:
    """Yield every row of a file in order, with its valid row or its Reject. kind: of the rows; None means a file of
    mixed rows. n_workers: how many processes help to check JSON Lines; by default `choose_n_workers` decides. scales:
    the declared scales of ratings, by aspect. columns: by field, the name of its column.

    Raises ManifestError if the file cannot be read, or changes before its last row is read; the rows before that come
    first. Raises WorkerKilled if one of the processes is killed.
    """
    if path.suffix == JSON_LINES or (kind is None and path.suffix != LABEL_STUDIO):
        n_workers = choose_n_workers(path) if n_workers is None else n_workers
        if n_workers > 0:
            yield from _check_with_workers(path, kind, dimensions, n_workers, scales, columns)
            return
    for raw in read_mixed_rows(path, columns) if kind is None else read_table(path, kind, columns):
        yield raw, validate_row(raw, dimensions, scales)


def _check_with_workers(
    path: Path,
    kind: str | None,
    dimensions: Collection[str],
    n_workers: int,
    scales: Mapping[str, Scale],
    columns: Columns,
) -> Iterator[CheckedRow]:
    with ExitStack() as stack:
        idle: queue.SimpleQueue[WorkerProcess] = queue.SimpleQueue()

        def check(block: Block) -> list[CheckedRow]:
            worker = idle.get()
            try:
                return worker.check_block(block)
            finally:
                idle.put(worker)

        workers = [
            stack.enter_context(closing(WorkerProcess(path.name, kind, dimensions, scales, columns)))
            for _ in range(n_workers)
        ]
        # Each process has a thread that waits for it.
        pool = stack.enter_context(ThreadPoolExecutor(n_workers, thread_name_prefix="ingest"))
        # When the ingest ends early, waiting blocks are not started.
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        for worker in workers:
            idle.put(worker)
            # Until the process has started, its thread takes no block.
            pool.submit(check, Block(1, b""))
        for block, checked in submit_ahead(
            read_file_blocks(path), lambda block: pool.submit(check, block), 2 * n_workers
        ):
            if checked.cancel():
                # No process has started on the block, so this one need not wait.
                rows = parse_rows(block, path.name, kind, columns)
                yield from ((raw, validate_row(raw, dimensions, scales)) for raw in rows)
            else:
                yield from checked.result()


def submit_ahead(items: Iterator[A], submit: Callable[[A], Future[B]], n: int) -> Iterator[tuple[A, Future[B]]]:
    """Yield all items in order with the futures that `submit` returns for them; up to n items are submitted ahead of
    the one that is yielded. A ManifestError of `items` is raised after the items before it.
    """
    under_way: deque[tuple[A, Future[B]]] = deque()
    failure: ManifestError | None = None
    try:
        for item in items:
            under_way.append((item, submit(item)))
            if len(under_way) > n:
                yield under_way.popleft()
    except ManifestError as error:
        failure = error
    yield from under_way
    if failure is not None:
        raise failure
