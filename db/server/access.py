"""The embedded server for programs of other users and machines: it listens on loopback and asks for a password."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy.engine import URL

from db.server.embedded import start_embedded, stop_embedded
from db.server.engine import connect
from db.server.listening import SUPERUSER, Listening, new_listening, read_listening, write_listening
from db.server.processes import is_embedded_running
from db.server.reader import READER
from db.server.urls import CURATION, DatabaseUnavailable, sibling_url, written_url

_WITHOUT_PASSWORD = re.compile(r"^(host\w*\s.*\s)(trust|peer|ident)\s*$", re.MULTILINE)
# The first line that fits counts. It is said here, not in the databases: the next command may make one.
_OF_THE_READER = f"host {CURATION} {READER} all scram-sha-256\nhost all {READER} all reject\n"


class ServerInUse(RuntimeError):
    """The server cannot be started anew while others use it. The message says who must end first."""

    plain = True


def listen(home: Path) -> URL:
    """Let the embedded server of a home folder listen on 127.0.0.1; the curation database's URL with its password.

    Where it listens already, nothing changes. Otherwise it is started anew: raises ServerInUse while it is in use.
    """
    home = home.expanduser().resolve()
    if read_listening(home) is not None:
        return start_embedded(home)
    with connect(sibling_url(start_embedded(home), "postgres"), autocommit=True) as connection:
        _refuse_while_in_use(connection)
        listening = new_listening()
        _ask_for_passwords(connection, home, listening)
    stop_embedded(home)
    write_listening(home, listening)
    try:
        return start_embedded(home)
    except DatabaseUnavailable:
        write_listening(home, None)
        raise


def listen_no_more(home: Path) -> URL:
    """Let the embedded server have its socket alone again. Raises ServerInUse while it is in use."""
    home = home.expanduser().resolve()
    if read_listening(home) is not None:
        if is_embedded_running(home):
            with connect(sibling_url(start_embedded(home), "postgres"), autocommit=True) as connection:
                _refuse_while_in_use(connection)
            stop_embedded(home)
        write_listening(home, None)
    return start_embedded(home)


def _refuse_while_in_use(connection: psycopg.Connection[Any]) -> None:
    query = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    row = connection.execute(query).fetchone()
    if row != (0,):
        raise ServerInUse(
            f"the server must be started anew, and {row and row[0]} connections are open: end the commands and web "
            "pages that use it first"
        )


def _ask_for_passwords(connection: psycopg.Connection[Any], home: Path, listening: Listening) -> None:
    """Set the superuser's password, and let nobody in over TCP without one."""
    # Hashed here: a statement that fails would stand in the server's log.
    hashed = connection.pgconn.encrypt_password(listening.password.encode(), SUPERUSER.encode(), b"scram-sha-256")
    connection.execute(
        sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(SUPERUSER), sql.Literal(hashed.decode()))
    )
    access = home / "postgres" / "pg_hba.conf"
    others = _WITHOUT_PASSWORD.sub(r"\1scram-sha-256", access.read_text().removeprefix(_OF_THE_READER))
    access.write_text(_OF_THE_READER + others)


def owner_url(url: URL) -> str:
    """The URL of the curation database as psql writes it, with the owner's password if there is one."""
    return written_url(url.set(database=url.database or CURATION)).render_as_string(hide_password=False)
