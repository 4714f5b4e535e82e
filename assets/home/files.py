"""The folders in a home folder, and which other accounts may read them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def create_home_folder(home: Path, name: str) -> Path:
    """Return the path of the folder `name` in the home; create it, for this account only, where it is missing. The home
    has to exist.
    """
    folder = home / name
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def is_open_to_others(home: Path) -> bool:
    """Return whether other accounts of this machine may list the home, write into it, or pass through it to an entry
    that is open to them. Links in the home do not count.
    """
    mode = home.stat().st_mode & 0o077
    # An account that may only pass through, as the server of root's home must, can read entries that are open to it.
    may_pass = bool(mode & 0o011)
    return bool(mode & ~0o011) or (may_pass and any(_is_open(entry) for entry in os.scandir(home)))


def _is_open(entry: os.DirEntry[str]) -> bool:
    return not entry.is_symlink() and bool(entry.stat().st_mode & 0o077)


@contextmanager
def keep_files_private() -> Iterator[None]:
    """Let all files that this process and its children create during the block be accessible to this account only. The
    block changes the umask of the process and sets it back at the end.
    """
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
