"""Rows read and checked ahead of the database: of a large file in processes of their own, else right here.

The order of the rows stays that of the file, whoever checks them.
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
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from assets.ingest import hygiene
from assets.ingest.files import readable
from assets.ingest.hygiene import shown
from assets.ingest.label_studio import SUFFIX as LABEL_STUDIO
from assets.ingest.lines import Block
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.readers import JSON_LINES, blocks_of, read_mixed, read_table, rows_in
from assets.ingest.rejects import Code, ManifestError, Reject
from assets.ingest.rows import DIMENSIONS, Checked, KeypointRow, RawRow, ValidRow

# From raw rows to valid rows, without the database: whether an id exists is decided later, by the resolvers.

# The code of every type of pydantic error; a type that is not listed has the code "wrong_type".
_CODES: dict[str, Code] = {
    "missing": "missing_field",
    "string_too_long": "too_long",
    "greater_than": "out_of_range",
    "greater_than_equal": "out_of_range",
    "less_than_equal": "out_of_range",
    "segment_order": "segment_order",
    "missing_field": "missing_field",
    "empty_text": "empty_text",
    "too_long": "too_long",
}


def validate(row: RawRow, dimensions: Collection[str] = DIMENSIONS) -> ValidRow | Reject:
    """The valid row, or the refusal for the first rule that the raw row breaks.

    A field that is null counts as absent, unless the field is required. `dimensions` are the names that keypoints may
    use.

    >>> fields = {"caption_id": "c1", "rater": "r1", "aspect": "coverage", "value": 7}
    >>> validate(RawRow("ratings.jsonl", 1, "rating", fields, None, ""))
    Reject(code='out_of_range', reason="field 'value' is 7: input should be less than or equal to 5")
    """
    if row.reject is not None:
        return row.reject
    payload = row.payload or {}
    if (fault := hygiene.check(payload, texts_are_safe=row.texts_are_safe)) is not None:
        return fault
    table = MANIFEST_TABLES[row.kind]
    if None in payload.values():
        required = table.required_fields
        payload = {name: value for name, value in payload.items() if value is not None or name in required}
    try:
        valid_row = table.row_model.model_validate(payload)
    except ValidationError as error:
        return _refusal(error.errors(include_url=False)[0])
    if isinstance(valid_row, KeypointRow) and valid_row.dimension not in dimensions:
        reason = f"field 'dimension' is {shown(valid_row.dimension)}: use one of {', '.join(dimensions)}"
        return Reject("unknown_dimension", reason)
    return valid_row


def _refusal(error: ErrorDetails) -> Reject:
    """The refusal for one pydantic error: its code, and a sentence that names the field."""
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"]).lstrip(".")
    value, code = error["input"], _CODES.get(error["type"], "wrong_type")
    message = error["msg"][0].lower() + error["msg"][1:]
    # The role of a caption is the only field with a list of words.
    if error["type"] == "literal_error" and isinstance(value, str):
        code = "unknown_role"
    if error["type"] == "missing":
        return Reject(code, f"field '{field}' is missing: add it")
    if not field:
        return Reject(code, message)
    if error["type"] == "string_too_long":
        return Reject(code, f"field '{field}' has {len(value)} characters: {message}")
    if error["type"] in ("empty_text", "too_long", "segment_order"):
        return Reject(code, f"field '{field}' {message}")
    return Reject(code, f"field '{field}' is {shown(value)}: {message}")


# A process that checks rows for an ingest, seen from the ingest.

# Checked rows on their way between processes: what the database is told of them, as plain data.

Packed = tuple[Any, ...]


def packed(rows: Iterable[Checked]) -> list[Packed]:
    """The rows as plain data, with their hashes made."""
    return [_packed(raw, row) for raw, row in rows]


def unpacked(rows: Sequence[Packed]) -> list[Checked]:
    """The rows that were packed. The segments of a caption are those of its `content`."""
    return [_unpacked(*row) for row in rows]


def _packed(raw: RawRow, row: ValidRow | Reject) -> Packed:
    # An address in the path of a video must not be shown with its credentials, if the row is refused later.
    payload = raw.payload if isinstance(row, Reject) or raw.kind == "video" else None
    parts = (raw.source, raw.line, raw.kind, payload, raw.reject, raw.raw)
    if isinstance(row, Reject):
        return (*parts, row, None, None)
    row.content_sha256  # noqa: B018 (made here, so that the other process need not)
    values = dict(row.__dict__)
    values.pop("content", None)
    if values.get("segments") is not None:
        values |= {"content": row.content, "segments": row.content["segments"]}
    return (*parts, None, values, row.__pydantic_extra__)


def _unpacked(
    source: str,
    line: int,
    kind: str,
    payload: dict[str, Any] | None,
    reject: Reject | None,
    raw: str,
    refusal: Reject | None,
    values: dict[str, Any] | None,
    extra: dict[str, Any] | None,
) -> Checked:
    raw_row = RawRow(source, line, kind, payload, reject, raw)
    if refusal is not None:
        return raw_row, refusal
    model = MANIFEST_TABLES[kind].row_model
    row = model.__new__(model)
    row.__setstate__({"__dict__": values, "__pydantic_extra__": extra, "__pydantic_fields_set__": set()})
    return raw_row, row


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


LARGE_FILE_BYTES = 8 * 2**20
# This process and the database take turns, so they need one core together.
MAX_WORKERS = 2
A = TypeVar("A")
B = TypeVar("B")


def workers_for(path: Path) -> int:
    """How many processes are to check the rows of a file: none if it is small, or if there is one core only.

    Raises ManifestError if the file cannot be read.
    """
    with readable(path):
        is_large = path.stat().st_size >= LARGE_FILE_BYTES
    return min(MAX_WORKERS, (os.cpu_count() or 1) - 1) if is_large else 0


def checked_rows(
    path: Path, kind: str | None, dimensions: Collection[str], n_workers: int | None = None
) -> Generator[Checked, None, None]:
    """The rows of a file in order, each with the valid row or the refusal; without a kind, the file has mixed rows.

    n_workers: how many processes help to check JSON Lines; by default as `workers_for` says.

    Raises ManifestError if the file cannot be read, or changes before its last row is read; the rows before that come
    first. Raises WorkerKilled if one of the processes is killed.
    """
    if path.suffix == JSON_LINES or (kind is None and path.suffix != LABEL_STUDIO):
        n_workers = workers_for(path) if n_workers is None else n_workers
        if n_workers > 0:
            yield from _checked_with_workers(path, kind, dimensions, n_workers)
            return
    for raw in read_mixed(path) if kind is None else read_table(path, kind):
        yield raw, validate(raw, dimensions)


def _checked_with_workers(
    path: Path, kind: str | None, dimensions: Collection[str], n_workers: int
) -> Iterator[Checked]:
    with ExitStack() as stack:
        idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()

        def check(block: Block) -> list[Checked]:
            worker = idle.get()
            try:
                return worker.check(block)
            finally:
                idle.put(worker)

        workers = [stack.enter_context(closing(Worker(path.name, kind, dimensions))) for _ in range(n_workers)]
        # A thread of its own waits for each process.
        pool = stack.enter_context(ThreadPoolExecutor(n_workers, thread_name_prefix="ingest"))
        # Blocks that wait are not begun any more when the ingest ends early.
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        for worker in workers:
            idle.put(worker)
            # Until the process has started, its thread takes no block.
            pool.submit(check, Block(1, b""))
        for block, checked in ahead(blocks_of(path), lambda block: pool.submit(check, block), 2 * n_workers):
            if checked.cancel():
                # No process has begun with it, so this one need not wait.
                yield from ((raw, validate(raw, dimensions)) for raw in rows_in(block, path.name, kind))
            else:
                yield from checked.result()


def ahead(items: Iterator[A], submit: Callable[[A], Future[B]], n: int) -> Iterator[tuple[A, Future[B]]]:
    """All items in order with what was submitted for them, up to n items ahead.

    A ManifestError of `items` is raised after the items before it.
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
