"""Open the embedded server to programs of other users: it then listens on 127.0.0.1 and asks for a password."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy.engine import URL

from db.server.embedded import start_embedded, stop_embedded
from db.server.engine import open_connection
from db.server.listening import (
    SUPERUSER,
    ListeningAddress,
    choose_listening_address,
    read_listening_address,
    write_listening_address,
)
from db.server.processes import is_embedded_running
from db.server.reader import READER_ROLE
from db.server.urls import CURATION, DatabaseUnavailable, build_sibling_url, convert_to_psql_url

_WITHOUT_PASSWORD = re.compile(r"^(host\w*\s.*\s)(trust|peer|ident)\s*$", re.MULTILINE)
# The first matching line counts. The rule is here and not in the databases, since a later command may make another
# database.
_READER_LINES = f"host {CURATION} {READER_ROLE} all scram-sha-256\nhost all {READER_ROLE} all reject\n"


class ServerInUse(RuntimeError):
    """Raised when the embedded server must be restarted but other programs are connected to it; the message gives their
    number and asks to end them first.
    """

    plain = True


def start_listening(home: Path) -> URL:
    """Make the embedded server of a home folder listen on a port of 127.0.0.1, and return the curation database's URL
    with the password. The server is started if needed, and restarted unless it listens already. Port and password are
    written to a file in the home folder.

    Raises ServerInUse if a restart is needed while other programs are connected, and DatabaseUnavailable if the server
    does not start.
    """
    home = home.expanduser().resolve()
    if read_listening_address(home) is not None:
        return start_embedded(home)
    with open_connection(build_sibling_url(start_embedded(home), "postgres"), autocommit=True) as connection:
        _refuse_while_in_use(connection)
        listening = choose_listening_address()
        _ask_for_passwords(connection, home, listening)
    stop_embedded(home)
    write_listening_address(home, listening)
    try:
        return start_embedded(home)
    except DatabaseUnavailable:
        write_listening_address(home, None)
        raise


def stop_listening(home: Path) -> URL:
    """Make the embedded server of a home folder use only its socket again, and return the curation database's URL. The
    server runs afterwards; one that listens is restarted. Raises ServerInUse if it listens and other programs are
    connected.
    """
    home = home.expanduser().resolve()
    if read_listening_address(home) is not None:
        if is_embedded_running(home):
            with open_connection(build_sibling_url(start_embedded(home), "postgres"), autocommit=True) as connection:
                _refuse_while_in_use(connection)
            stop_embedded(home)
        write_listening_address(home, None)
    return start_embedded(home)


def _refuse_while_in_use(connection: psycopg.Connection[Any]) -> None:
    query = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    (n,) = connection.execute(query).fetchone() or (0,)
    if n:
        raise ServerInUse(
            f"the server cannot be restarted, since {n:,} {'connection is' if n == 1 else 'connections are'} open: end "
            "the commands, programs and web pages that use it, then run the same command again"
        )


def _ask_for_passwords(connection: psycopg.Connection[Any], home: Path, listening: ListeningAddress) -> None:
    """Set the superuser's password, and require a password from all TCP connections."""
    # Hashed here, since the server logs the text of a statement that fails.
    hashed = connection.pgconn.encrypt_password(listening.password.encode(), SUPERUSER.encode(), b"scram-sha-256")
    connection.execute(
        sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(SUPERUSER), sql.Literal(hashed.decode()))
    )
    access = home / "postgres" / "pg_hba.conf"
    host_lines = _WITHOUT_PASSWORD.sub(r"\1scram-sha-256", access.read_text().removeprefix(_READER_LINES))
    access.write_text(_READER_LINES + host_lines)


def format_owner_url(url: URL) -> str:
    """Return the curation database's URL as text for psql. It shows the password in clear, if the URL has one."""
    return convert_to_psql_url(url.set(database=url.database or CURATION)).render_as_string(hide_password=False)
