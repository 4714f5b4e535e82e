"""Which errors are mistakes of a user or trouble of the machine, and the sentence that explains one.

An exception class says `plain = True` when its message is all that a user needs: what is wrong, where, and the remedy.
This module knows nothing else about the errors of the other rooms.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

import psycopg
import psycopg2
import sqlalchemy as sa

from db.server.conflicts import is_conflict
from db.server.engine import DISK_FULL_TEXT

# Trouble of the machine, not of the program: no right to a file, no room, a read-only disk.
_MACHINE_ERRORS = {errno.EACCES, errno.EDQUOT, errno.ENOSPC, errno.EROFS}
# The SQLSTATE of a full disk, for a server that speaks another language.
_DISK_FULL = "53100"


def explain_user_error(error: BaseException) -> str | None:
    """Return one sentence for a mistake of the user or trouble of the machine, with the remedy; None for a fault of the
    program. It also looks at the errors that caused this one. An error class whose attribute `plain` is true has the
    sentence as its message.
    """
    for cause in _list_causes(error):
        if getattr(cause, "plain", False):
            return str(cause)
    for shown in _list_shown_errors(error):
        if is_conflict(shown):
            return (
                "the database ended this command, since it and another one waited for each other: run the same command "
                "again (what was written stays)"
            )
        raised = shown.orig or shown if isinstance(shown, sa.exc.DBAPIError) else shown
        if _is_outage(raised) or (isinstance(shown, sa.exc.DBAPIError) and shown.connection_invalidated):
            return _explain_database_error(raised)
        if isinstance(shown, OSError) and shown.errno in _MACHINE_ERRORS:
            return f"{shown.filename or 'the machine'}: {shown.strerror}; fix that and run the same command again"
    return None


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, its declared cause (`raise .. from`), the cause of the cause, and so on.

    An error that came up while another one was handled is an error of its own: contexts are not followed.
    """
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__


def _list_shown_errors(error: BaseException) -> Iterator[BaseException]:
    """Yield every error of the traceback that Python would print, the newest first.

    When a database goes away or a disk fills up, the clean-up fails too; its error has the real one only as context.
    """
    seen: set[int] = set()
    shown: BaseException | None = error
    while shown is not None and id(shown) not in seen:
        seen.add(id(shown))
        yield shown
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)


def _is_outage(error: BaseException) -> bool:
    """Whether a driver raised this because its server refused or went away. psycopg2 has no class of its own for a
    server that dies under a query.
    """
    if type(error) is psycopg2.DatabaseError:
        return getattr(error, "pgcode", None) is None
    of_drivers = psycopg.OperationalError | psycopg.InterfaceError | psycopg2.OperationalError | psycopg2.InterfaceError
    return isinstance(error, of_drivers | sa.exc.OperationalError | sa.exc.InterfaceError)


def _explain_database_error(answer: BaseException) -> str:
    state = getattr(answer, "sqlstate", None) or getattr(answer, "pgcode", None)
    message_lines = str(answer).strip().splitlines()
    # A server that cannot write its log ends; the line with the reason has no SQLSTATE.
    no_room = next(
        (line for line in message_lines if DISK_FULL_TEXT in line), message_lines[0] if state == _DISK_FULL else None
    )
    if no_room:
        return f"the disk of the database is full ({no_room}): make room there and run the same command again"
    # An answer of the server carries an SQLSTATE, as of a deadlock. 08 means no connection, 57P a server that stops.
    if state and not state.startswith(("08", "57P")):
        return f"the database refused a statement: {message_lines[0]}; fix that and run the same command again"
    return (
        "the connection to the database was lost: run the same command again, which starts the embedded server (a "
        "server of CURATION_DB_URL must be back first); what was written stays"
    )
