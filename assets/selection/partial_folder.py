"""Folders that exist whole or not at all: until a folder is complete, its name ends in `.partial`."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from assets.progress import LineWriter
from db.selection.recipes import SelectionError

PARTIAL_SUFFIX = ".partial"
# The lock of the process that writes a folder, and the sign that an export made it; removed when it is complete.
_LOCK = ".export.lock"


@contextmanager
def open_partial_folder(target: Path, tell: LineWriter) -> Iterator[Path]:
    """Create and lock an empty folder `target.partial`, which is renamed to `target` when the block ends without an
    error, and removed when the block raises. A folder that a killed process left is emptied, and `tell` is called with
    a line about it. Raises OSError, and SelectionError where another folder has this name or a process writes to it.
    """
    folder = target.with_name(target.name + PARTIAL_SUFFIX)
    was_cut_off = os.path.lexists(folder)
    if was_cut_off:
        names = {path.name for path in folder.iterdir()} if folder.is_dir() else {""}
        if names and _LOCK not in names:
            raise SelectionError(f"{folder} was not made by an export: move it, or give the export another name")
    folder.mkdir(exist_ok=True)
    with _hold_lock(folder):
        if was_cut_off:
            tell(f"an export to {target.name} was interrupted: starting again")
        try:
            for path in folder.iterdir():
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.name != _LOCK:
                    path.unlink()
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        _flush(folder)
        folder.rename(target)
        _flush(target.parent)
        (target / _LOCK).unlink()


@contextmanager
def _hold_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder during the block. Raises SelectionError where another process has it."""
    with (folder / _LOCK).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SelectionError(
                f"another process is writing {folder}: wait until it ends, or give another name"
            ) from None
        except OSError:
            pass  # some file systems of clusters have no locks
        yield


def _flush(folder: Path) -> None:
    """Write the names of a folder's files to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # not every file system can
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
