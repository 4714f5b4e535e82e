"""How a command reports an error: in one sentence, and for a fault of the program with a log file.

An exception class says `plain = True` when its message is all that a user needs: what is wrong, where, and the remedy.
This module knows nothing else about the errors of the other rooms.
"""

from __future__ import annotations

import errno
import platform
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import psycopg
import psycopg2
import sqlalchemy as sa

from assets.own_home import open_home
from assets.settings import SettingsError
from db.server.conflicts import is_conflict
from db.server.engine import NO_ROOM
from db.server.urls import DatabaseUnavailable
from orchestration.cli.refusals import UsageError
from orchestration.passwords import without_passwords
from orchestration.settings import settings

MOST_LOGS = 100
"""The logs of faults that a folder keeps."""


# Faults of the program: their traceback goes to a log file, and one sentence names it.


def record(error: BaseException) -> str:
    """Write the traceback of a fault into the home's folder `logs`, and return the sentence that names the file.

    Where that folder cannot be written to, the file goes to the temporary folder; where neither can, the traceback
    follows the sentence.
    """
    said = without_passwords(" ".join(str(error).split()))
    fault = f"this is a fault of Reelsieve, not yours ({type(error).__name__}{': ' * bool(said)}{said[:200]})"
    trace = without_passwords(_report(error))
    refused = []
    for folder in _folders():
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            # Only this user may read the file: it may quote texts of the data.
            descriptor, name = tempfile.mkstemp(".log", "fault_", folder)
            with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(trace)
            _remove_oldest(folder)
        except OSError as problem:
            refused.append(f"{folder}: {problem.strerror}")
        else:
            aside = f" ({'; '.join(refused)})" if refused else ""
            return f"{fault}: please report it with its traceback, which is in {name}{aside}"
    return f"{fault}: please report it with this traceback, for no log can be written ({'; '.join(refused)})\n{trace}"


def _remove_oldest(folder: Path) -> None:
    """Remove the oldest logs of faults in a folder, so that MOST_LOGS stay: a page may fail at every request."""
    with suppress(OSError):  # another process may remove the same ones
        for log in sorted(folder.glob("fault_*.log"), key=lambda log: log.stat().st_mtime_ns)[:-MOST_LOGS]:
            log.unlink(missing_ok=True)


def _folders() -> Iterator[Path]:
    with suppress(SettingsError, DatabaseUnavailable):  # the settings are wrong too, or the home is no folder
        open_home(settings().home_folder, is_asked=settings().is_home_asked)
        yield settings().home_folder / "logs"
    yield Path(tempfile.gettempdir())


def _report(error: BaseException) -> str:
    """The command, where it ran, and the traceback."""
    lines = [
        f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S} UTC",
        f"command: {' '.join(sys.argv)}",
        f"Python {platform.python_version()}, {platform.platform()}",
        "",
    ]
    return "\n".join(lines) + "\n" + "".join(traceback.format_exception(error))


MISTAKE, USAGE, FAULT = 1, 2, 70
# Trouble of the machine, not of the program: no right to a file, no room, a read-only disk.
_OF_MACHINE = {errno.EACCES, errno.EDQUOT, errno.ENOSPC, errno.EROFS}
# The SQLSTATE of a full disk, for a server that speaks another language.
_DISK_FULL = "53100"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The sentence that reports an error, without passwords, and the exit code of the command."""

    sentence: str
    exit_code: int


def judge(error: BaseException) -> Verdict:
    """The verdict on an error. The traceback of a fault goes to a log file, which the sentence names."""
    sentence = explain(error)
    if sentence is None:
        return Verdict(record(error), FAULT)
    return Verdict(without_passwords(sentence), USAGE if isinstance(error, UsageError) else MISTAKE)


def explain(error: BaseException) -> str | None:
    """One sentence for an error that is no fault of the program, else None."""
    for cause in _causes(error):
        if getattr(cause, "plain", False):
            return str(cause)
    for shown in _shown(error):
        if is_conflict(shown):
            return (
                "this command and another one waited for each other, and the database ended this one: what was written "
                "stays; run the same command again"
            )
        if isinstance(shown, psycopg.OperationalError | psycopg2.OperationalError):
            return _of_database(shown)
        if isinstance(shown, sa.exc.OperationalError | sa.exc.InterfaceError):
            return _of_database(shown.orig or shown)
        if isinstance(shown, OSError) and shown.errno in _OF_MACHINE:
            return f"{shown.filename or 'the machine'}: {shown.strerror}; mend that and run the same command again"
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, its declared cause (`raise .. from`), the cause of the cause, and so on.

    An error that came up while another one was handled is an error of its own: contexts are not followed.
    """
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__


def _shown(error: BaseException) -> Iterator[BaseException]:
    """Every error of the traceback that Python would print.

    When a database goes away or a disk fills up, the clean-up fails too; its error has the real one only as context.
    """
    seen: set[int] = set()
    shown: BaseException | None = error
    while shown is not None and id(shown) not in seen:
        seen.add(id(shown))
        yield shown
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)


def _of_database(answer: BaseException) -> str:
    state = getattr(answer, "sqlstate", None) or getattr(answer, "pgcode", None)
    said = str(answer).strip().splitlines()
    # A server that cannot write its log dies; the line that says so comes without an SQLSTATE.
    no_room = next((line for line in said if NO_ROOM in line), said[0] if state == _DISK_FULL else None)
    if no_room:
        return f"the disk of the database is full ({no_room}): make room there and run the same command again"
    # An answer of the server carries an SQLSTATE, as of a deadlock. 08 means no connection, 57P a server that stops.
    if state and not state.startswith(("08", "57P")):
        return f"the database could not do it: {said[0]}; mend that and run the same command again"
    return (
        "the database went away in the middle of the work: what was written stays, nothing is lost; run the same "
        "command again, it starts the embedded server anew (a server of CURATION_DB_URL must be back first)"
    )
