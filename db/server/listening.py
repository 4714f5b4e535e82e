"""Port and password of the embedded server, in a file of the home folder that only its owner may read."""

from __future__ import annotations

import json
import os
import secrets
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

from sqlalchemy.engine import URL

from db.server.urls import DatabaseUnavailable

HOST = "127.0.0.1"
SUPERUSER = "postgres"
# With five digits the path of the server's socket would grow by a byte, see LONGEST_HOME.
PORTS = range(5433, 9999)


@dataclass(frozen=True, slots=True)
class ListeningAddress:
    """A port of 127.0.0.1 on which the embedded server listens, and the superuser's password there."""

    port: int
    password: str

    def build_url(self, database: str) -> URL:
        """Return the URL of the database of this name on the embedded server, as superuser, with the password."""
        query = {"require_auth": "scram-sha-256"}
        return URL.create("postgresql+psycopg", SUPERUSER, self.password, HOST, self.port, database, query)


def choose_listening_address() -> ListeningAddress:
    """Return the first free port of 127.0.0.1 from 5433 to 9998 with a new random password; nothing is stored. Raises
    OSError if no port is free.
    """
    for port in PORTS:
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return ListeningAddress(port, secrets.token_urlsafe(32))
    raise OSError("no port between 5433 and 9998 of 127.0.0.1 is free: end a program that uses one")


def read_listening_address(home: Path) -> ListeningAddress | None:
    """Read port and password of a home's embedded server from the file listening.json in the home folder; None if there
    is no such file, so that the server does not listen. Raises DatabaseUnavailable for a damaged file.
    """
    try:
        return ListeningAddress(**json.loads(_file(home).read_text()))
    except FileNotFoundError:
        return None
    except (IsADirectoryError, ValueError, TypeError, RecursionError) as error:
        raise DatabaseUnavailable(
            f"{_file(home)} is damaged: remove it, and run reelsieve db start --listen again if other programs connect"
        ) from error


def write_listening_address(home: Path, listening: ListeningAddress | None) -> None:
    """Write the port and password that a home's server will use from its next start on into the file listening.json,
    which only the owner may read. With None the file is removed, and the server no longer listens.
    """
    if listening is None:
        _file(home).unlink(missing_ok=True)
        return
    fresh = home / f"listening-{secrets.token_hex(4)}.new"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(listening), file)
    fresh.replace(_file(home))


def _file(home: Path) -> Path:
    return home / "listening.json"
