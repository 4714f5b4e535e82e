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
# Which export the folder is to become, and the lock of whoever writes it; both go when it is complete.
_MARK, _NEW_MARK, _LOCK = ".export.json", ".export.json.new", ".lock"


@contextmanager
def open_partial_folder(target: Path, export: Mapping[str, Any], *, resumable: bool) -> Iterator[Path]:
    """A folder beside `target` that gets its name when the block ends well.

    export: plain data that tells this export from others, its `format` too. A folder that is resumable stays when the
    block fails, and is given to the same export again as it was left; any other one is removed, or emptied where a
    killed process left it. Raises OSError, and SelectionError where the folder is in the way or another process writes
    it.
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
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {""}
    if _MARK not in names and names - {_LOCK, _NEW_MARK}:
        raise SelectionError(f"{folder} is in the way, and no half export: move it, or give another name")


def _check_same(folder: Path, export: Mapping[str, Any], *, resumable: bool) -> None:
    """An export that is not resumed may begin anew where its own kind left a folder."""
    mark = folder / _MARK
    if not mark.exists():
        return
    known = json.loads(mark.read_text())
    if known != export and (resumable or known["format"] != export["format"]):
        raise SelectionError(f"{folder} holds the half of another export: remove it, or give another name")


@contextmanager
def _hold_lock(folder: Path) -> Iterator[BinaryIO]:
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
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != _LOCK:
            path.unlink()


def _write_mark(folder: Path, export: Mapping[str, Any]) -> None:
    new = folder / _NEW_MARK
    new.write_text(json.dumps(export))
    new.replace(folder / _MARK)


def _flush(folder: Path) -> None:
    """Put the names of a folder's files on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # not every file system can
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
