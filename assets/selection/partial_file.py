"""Files that exist whole or not at all: until a file is complete, it has a temporary name."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

# The target's name is no part of it, since that may be as long as the file system allows.
_PREFIX, _SUFFIX = ".reelsieve-", ".partial"


@contextmanager
def open_partial_file(target: Path) -> Iterator[BinaryIO]:
    """Open a temporary file in the folder of `target`, for writing bytes. When the block ends, it becomes `target` and
    replaces an earlier one; if the block raises, it is removed. Raises OSError.

    The file is locked while it is written, and the lock ends with the process, however that ends.
    """
    path, file = _create_partial_file(target.parent)
    try:
        with file:
            yield file
            file.flush()
            # On the disk before it has its name: a power failure could leave the name of an incomplete file otherwise.
            os.fsync(file.fileno())
            # Renamed before it is closed, since `delete_abandoned_files` removes a partial file without a lock.
            path.replace(target)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def delete_abandoned_files(folder: Path) -> None:
    """Remove from a folder the partial files of `open_partial_file` that killed processes left. Files of running
    processes stay, and so do those that cannot be opened or locked.
    """
    for path in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        # An error means that its writer holds the lock, that it is gone, or that it belongs to another user: it stays.
        with suppress(OSError), path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def _create_partial_file(folder: Path) -> tuple[Path, BinaryIO]:
    """Create and lock a partial file in a folder."""
    while True:
        path = folder / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
        file = path.open("x+b")
        # Some file systems of clusters have no locks: files are written there without one, and none is removed.
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        # Another process may have removed the file before it was locked.
        if path.exists():
            return path, file
        file.close()
