"""Videos of a manifest that several processes read at once: each takes blocks of the table's rows by lease.

A helper is started as `python -m assets.ingest.share`. It reads its orders from its standard input, and ends as soon as
that is closed, also by the death of its caller.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from sqlalchemy.engine import Engine, make_url

from assets.datasets.leases import format_lease_name, hold_datasets
from assets.datasets.lookup import require_dataset
from assets.ingest.manifest import Manifest, read_manifest_folder
from assets.ingest.readers import TableContent, count_table_rows, read_table
from assets.ingest.resolve import DatabaseRow, resolve_videos
from assets.ingest.rows import RawRow, VideoRow
from assets.ingest.validate import check_row
from assets.ingest.write import FILES_PER_BATCH, Progress
from assets.media.address import is_member_address
from db.manifest.datasets import Dataset
from db.manifest.store import IngestStore, open_ingest_store
from db.server.engine import open_engine
from db.server.leases import Leases
from metrics_core.child_processes import start_child

# The most blocks of a table, since Postgres has room for some thousand leases; a block of one tar file may be so many
# times larger than others.
_BLOCKS, _LARGEST = 1000, 4


class SharedVideos(NamedTuple):
    """The number of new videos that the processes of a command stored, and sentences on helpers that failed."""

    n_stored: int
    notes: tuple[str, ...]


@contextmanager
def share_videos(
    engine: Engine, dataset: Dataset, manifest: Manifest, n_workers: int, progress: Progress | None = None
) -> Iterator[SharedVideos]:
    """Read and store the videos of a manifest that are new to a dataset, in this process and `n_workers - 1` others,
    and yield what they stored. Other commands that do the same, on any machine, take other blocks of its rows, until
    the `with` block ends.

    Refused rows, and those of stored videos, are left to the ingest that follows. A helper that fails costs nothing but
    time: that ingest reads its videos. Raises ManifestError.
    """
    with ExitStack() as stack:
        helpers = [stack.enter_context(_start_helper(engine, dataset, manifest)) for _ in range(n_workers - 1)]
        leases = stack.enter_context(hold_datasets(engine, dataset.name))
        counts = [read_share(engine, leases, dataset, manifest, progress)]
        notes = []
        for helper in helpers:
            try:
                counts.append(int(json.loads(helper.stdout.readline() if helper.stdout else b"")["stored"]))
            except (ValueError, KeyError):
                notes.append("warning: one of the workers failed, and its videos were read after the others")
        yield SharedVideos(sum(counts), tuple(notes))


def read_share(
    engine: Engine, leases: Leases, dataset: Dataset, manifest: Manifest, progress: Progress | None = None
) -> int:
    """Read and store the new videos of all blocks of rows that no other process has taken, and return their number. The
    blocks stay taken until `leases` are given back. Waits first for an ingest that keeps others out. Raises
    ManifestError.
    """
    path, n_stored = manifest.tables["video"], 0
    size = max(FILES_PER_BATCH, math.ceil(count_table_rows(path, "video") / _BLOCKS))
    with open_ingest_store(engine, dataset, is_shared=True) as store:
        for block in _split_blocks(read_table(path, "video", manifest.columns, TableContent()), size):
            if leases.take_if_free(format_lease_name(f"videos from row {block[0].line}", dataset.name)):
                n_stored += _store_new_videos(store, manifest, block)
                if progress:
                    progress(f"new videos of {path.name}", n_stored)
    return n_stored


def _split_blocks(rows: Iterable[RawRow], size: int) -> Iterator[list[RawRow]]:
    """Yield the rows in lists of at least `size`, the last one excepted. Neighbours in one tar file or Lance table stay
    together, since its headers are read once.
    """
    block: list[RawRow] = []
    last = ""
    for row in rows:
        path = str((row.fields or {}).get("path"))
        container = path.partition("#")[0] if is_member_address(path) else ""
        if len(block) >= size and (not container or container != last or len(block) >= _LARGEST * size):
            yield block
            block = []
        block.append(row)
        last = container
    if block:
        yield block


def _store_new_videos(store: IngestStore, manifest: Manifest, block: list[RawRow]) -> int:
    n_stored = 0
    for start in range(0, len(block), FILES_PER_BATCH):
        rows: dict[str, VideoRow] = {}
        for raw in block[start : start + FILES_PER_BATCH]:
            if isinstance(row := check_row(raw, manifest), VideoRow):
                rows.setdefault(row.video_id, row)
        with store.open_transaction():
            stored = store.load_videos(list(rows))
            new = [row for key, row in rows.items() if key not in stored]
            resolved = resolve_videos(store, manifest.folder, new)
            found = [row.columns for row in resolved if isinstance(row, DatabaseRow)]
            n_stored += store.store_rows("video", found).counts.inserted
    return n_stored


@contextmanager
def _start_helper(engine: Engine, dataset: Dataset, manifest: Manifest) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that reads a share, and end it after the block."""
    # The address may have a password, which no list of processes shall show.
    orders = {
        "url": engine.url.render_as_string(hide_password=False),
        "dataset": dataset.name,
        "folder": str(manifest.folder.resolve()),
        "columns": dict(manifest.columns),
    }
    with start_child(
        "assets.ingest.share",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,  # nothing is left to be written to a helper that has ended
    ) as process:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(f"{json.dumps(orders)}\n".encode())
        yield process


def _help() -> None:
    """Read a share as the standard input orders, write the number of stored videos, and keep the blocks until the
    caller ends this process.
    """
    orders = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_caller, daemon=True).start()
    engine = open_engine(make_url(orders["url"]))
    dataset = require_dataset(engine, orders["dataset"])
    manifest = read_manifest_folder(Path(orders["folder"]), columns=orders["columns"])
    with hold_datasets(engine, dataset.name) as leases:
        print(json.dumps({"stored": read_share(engine, leases, dataset, manifest)}), flush=True)
        threading.Event().wait()


def _end_with_caller() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    _help()
