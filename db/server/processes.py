"""Find out which embedded servers of this machine run, from the lock files in their folders."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

START_LOCK = "start.lock"


def is_embedded_running(home: Path) -> bool:
    """Whether the embedded server of a home folder runs: its lock file names the process id of a live Postgres."""
    pid = _read_pid(home.expanduser().resolve() / "postgres" / "postmaster.pid")
    return pid is not None and _is_live_postgres(pid)


def has_embedded_data(home: Path) -> bool:
    """Whether a home folder has the data of an embedded server, running or not."""
    return (home / "postgres" / "PG_VERSION").exists()


def list_running_homes() -> list[Path]:
    """List the home folders whose embedded server runs on this machine, sorted. Those that this user may not read are
    left out.
    """
    import psutil

    homes = []
    for process in psutil.process_iter(["name", "cmdline"]):
        words = process.info["cmdline"] or []
        if process.info["name"] == "postgres" and "-D" in words[:-1]:
            data = Path(words[words.index("-D") + 1])
            with suppress(PermissionError):
                home = data.parent.resolve()
                if data.name == "postgres" and (home / START_LOCK).exists() and is_embedded_running(home):
                    homes.append(home)
    return sorted(set(homes))


def is_process_alive(pid: int) -> bool:
    """Whether a process with this id exists on this machine, of any user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def delete_dead_lock_files(home: Path) -> None:
    """Remove the lock files that a dead server left in a home's data folder, those with the process id of no live
    Postgres.
    """
    for lock in (home / "postgres" / "postmaster.pid", *(home / "postgres").glob(".s.PGSQL.*.lock")):
        pid = _read_pid(lock)
        if pid is not None and not _is_live_postgres(pid):
            lock.unlink(missing_ok=True)


def _read_pid(lock: Path) -> int | None:
    try:
        # A backend without a server, such as those of initdb, writes its id as a negative number.
        return abs(int(lock.read_text().splitlines()[0]))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, IndexError, ValueError):
        return None


def _is_live_postgres(pid: int) -> bool:
    import psutil

    try:
        process = psutil.Process(pid)
        # A killed server stays a zombie in a container whose first process does not collect the dead.
        return bool(process.name() == "postgres" and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
