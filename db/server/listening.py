"""Where the embedded server listens, and with which password: in a file of the home folder, for its owner only."""

from __future__ import annotations

import json
import os
import secrets
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.engine import URL

if TYPE_CHECKING:
    pass

HOST = "127.0.0.1"
SUPERUSER = "postgres"
# With five digits the path of the socket beside it would grow by a byte, see LONGEST_HOME.
PORTS = range(5433, 9999)


@dataclass(frozen=True, slots=True)
class ListeningAddress:
    """A port of 127.0.0.1 and the superuser's password there."""

    port: int
    password: str

    def build_url(self, database: str) -> URL:
        """The URL of a database, with the password."""
        query = {"require_auth": "scram-sha-256"}
        return URL.create("postgresql+psycopg", SUPERUSER, self.password, HOST, self.port, database, query)


def choose_listening_address() -> ListeningAddress:
    """A new password, and a port that nobody uses now."""
    for port in PORTS:
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return ListeningAddress(port, secrets.token_urlsafe(32))
    raise OSError("no port between 5433 and 9998 of 127.0.0.1 is free")


def read_listening_address(home: Path) -> ListeningAddress | None:
    """Where the home's server listens; None where it does not."""
    try:
        return ListeningAddress(**json.loads(_file(home).read_text()))
    except FileNotFoundError:
        return None


def write_listening_address(home: Path, listening: ListeningAddress | None) -> None:
    """Let the home's server listen from its next start on, or with None no more."""
    if listening is None:
        _file(home).unlink(missing_ok=True)
        return
    fresh = home / f"listening-{secrets.token_hex(4)}.new"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(listening), file)
    fresh.replace(_file(home))


def _file(home: Path) -> Path:
    return home / "listening.json"
