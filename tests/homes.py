"""Home folders that the processes of a session make once and copy: a copy takes a moment, a new server seconds."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from db.server.embedded import start_embedded, stop_embedded
from db.server.engine import open_engine
from db.server.urls import build_sibling_url

# The variable that names the folder of the whole session.
SHARED = "SIEVE_TESTS"
# A killed process loses nothing that it wrote; only a machine without power does, and no test turns one off. What a
# server has committed must be written when it is killed, so synchronous_commit stays on.
UNFLUSHED = ("fsync", "full_page_writes")


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """The folder of this name that all processes of the session share; the first that asks makes it."""
    folder = Path(os.environ[SHARED], name)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            unfinished = folder.with_suffix(".new")
            shutil.rmtree(unfinished, ignore_errors=True)  # of a process that failed at it
            unfinished.mkdir(mode=0o700)
            make(unfinished)
            unfinished.replace(folder)
    return folder


def make_home(home: Path) -> None:
    """A home whose server stands still and writes no byte to the disk before the system likes to."""
    server = open_engine(build_sibling_url(start_embedded(home), "postgres"))
    with server.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for setting in UNFLUSHED:
            connection.exec_driver_sql(f"ALTER SYSTEM SET {setting} = off")
    server.dispose()
    stop_embedded(home)


def copy_home(home: Path, target: Path) -> None:
    """Copy a home whose server stands still to a folder that does not exist, or is empty."""
    target.mkdir(exist_ok=True)
    # cp keeps the owner of the server's files, which is not the user of the tests where these run as root.
    subprocess.run(["cp", "-a", f"{home}/.", str(target)], check=True)
