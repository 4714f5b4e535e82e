"""A file that is there whole or not at all, under a name of its own until it is complete."""

from __future__ import annotations

import fcntl
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

# Not the target's name, which may be as long as the file system allows.
_PREFIX, _SUFFIX = ".reelsieve-", ".partial"


@contextmanager
def partial_file(target: Path) -> Iterator[BinaryIO]:
    """A new file in the folder of `target` that takes its place when the block ends well, and goes when it does not.

    While it is written it is locked: the lock ends with the process, however that ends. Raises OSError.
    """
    path, file = _create(target.parent)
    try:
        with file:
            yield file
            file.flush()
            # Before it is closed: a partial file without a lock is one that nobody writes any more.
            path.replace(target)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def remove_abandoned(folder: Path) -> None:
    """Remove the partial files of processes that were killed; those of living ones stay."""
    for path in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
        # Its writer holds the lock, it is gone by now, or it is another user's: then it is not ours to remove.
        with suppress(OSError), path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def _create(folder: Path) -> tuple[Path, BinaryIO]:
    while True:
        path = folder / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
        file = path.open("x+b")
        # Some file systems of clusters know no locks: there a file is written all the same, and none is removed.
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        # Another process may have found it before it was locked, and removed it.
        if path.exists():
            return path, file
        file.close()
