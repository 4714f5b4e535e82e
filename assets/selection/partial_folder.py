"""Folders that exist whole or not at all: until a folder is complete, its name ends in `.partial`."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from db.selection.recipes import SelectionError

PARTIAL_SUFFIX = ".partial"
# Which export the folder is for, and the lock of the process that writes it; both are removed when it is complete.
_MARK, _NEW_MARK, _LOCK = ".export.json", ".export.json.new", ".lock"


@contextmanager
def open_partial_folder(target: Path, export: Mapping[str, Any], *, resumable: bool) -> Iterator[Path]:
    """Create and lock a folder `target.partial`, which is renamed to `target` when the block ends without an error.
    export: plain data that identifies the export, with its `format`. resumable: whether the folder stays if the block
    raises, so that the next call for the same export goes on with its files; otherwise it is removed. Raises OSError,
    and SelectionError where another folder has this name or another process writes it.

    A folder that a killed process left is emptied, unless it is resumable.
    """
    folder = target.with_name(target.name + PARTIAL_SUFFIX)
    try:
        folder.mkdir()
    except FileExistsError:
        _check_ours(folder)
    with _hold_lock(folder):
        _check_same(folder, export, resumable=resumable)
        try:
            if not resumable:
                _clear_folder(folder)
            _write_mark(folder, export)
            yield folder
        except BaseException:
            if not resumable or not (folder / _MARK).exists():
                shutil.rmtree(folder, ignore_errors=True)
            raise
        _flush(folder)
        folder.rename(target)
        _flush(target.parent)
        for name in (_MARK, _LOCK):
            (target / name).unlink()


def _check_ours(folder: Path) -> None:
    """Raise SelectionError for a folder that no export made."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {""}
    if _MARK not in names and names - {_LOCK, _NEW_MARK}:
        raise SelectionError(f"{folder} exists, but no export made it: move it, or give the export another name")


def _check_same(folder: Path, export: Mapping[str, Any], *, resumable: bool) -> None:
    """Raise SelectionError for the folder of another export, except one of the same format that is not resumed."""
    mark = folder / _MARK
    if not mark.exists():
        return
    found_export = json.loads(mark.read_text())
    if found_export != export and (resumable or found_export["format"] != export["format"]):
        raise SelectionError(f"{folder} has a part of another export: remove it, or give this export another name")


@contextmanager
def _hold_lock(folder: Path) -> Iterator[BinaryIO]:
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
        yield file


def _clear_folder(folder: Path) -> None:
    """Remove everything but the lock from a folder."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != _LOCK:
            path.unlink()


def _write_mark(folder: Path, export: Mapping[str, Any]) -> None:
    """Write which export the folder is for."""
    new = folder / _NEW_MARK
    new.write_text(json.dumps(export))
    new.replace(folder / _MARK)


def _flush(folder: Path) -> None:
    """Write the names of a folder's files to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # not every file system can
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
