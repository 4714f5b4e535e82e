"""What an ordinary user meets, also where the tests run as root, whom no permission stops."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def ordinary_user() -> Iterator[None]:
    """This process without the rights of root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A temporary folder that every user may look into; those of pytest are for the user of the tests alone."""
    with tempfile.TemporaryDirectory(prefix="reelsieve-tests-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
