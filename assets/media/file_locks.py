"""Locks on files that processes of a machine share. They end with the process that holds them."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Any


def lock_file(file: IO[Any], how: int) -> None:
    """Take a lock, `fcntl.LOCK_SH` or `LOCK_EX`; waits while another process holds one that excludes it."""
    fcntl.flock(file, how)


def is_same_file(file: IO[Any], path: Path) -> bool:
    """Whether the open file is still the one at the path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def remove_unused_file(path: Path) -> bool:
    """Remove a file that nobody reads or writes; False for one in use."""
    with suppress(OSError), path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
        return True
    return False
