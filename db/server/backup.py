"""Back-ups of both databases, the curation database and Dagster's, as files that only COPY writes and reads."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from sqlalchemy.engine import URL

from db.server.dump_rows import BackupError, write_rows
from db.server.engine import open_connection
from db.server.urls import CURATION, DAGSTER, build_sibling_url

_PASSPORT = "backup.json"
_FORMAT = 3
_BLOCK = 1 << 20
_REVISION = re.compile(r"[0-9a-z_]{1,32}")
ReportProgress = Callable[[str], object]


def write_backup(url: URL, target: Path, revision: str, tell: ReportProgress) -> Path:
    """Write the curation database and Dagster's into the new folder `target`, and return its absolute path. Every
    database is saved as of one moment; other commands may run meanwhile. Raises BackupError if `target` exists or
    writing fails, and then leaves no folder behind.

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
            with open_connection(build_sibling_url(url, database)) as connection:
                query = "SELECT ', ' || pg_size_pretty(pg_database_size(current_database()))"
                (size,) = connection.execute(query).fetchone() or ("",)
                tell(f"writing database {database}{size}")
                write_rows(connection, build_dump_path(folder, name))
        files = {file.name: _measure_file(file) for file in sorted(folder.iterdir())}
        (folder / _PASSPORT).write_text(json.dumps({"format": _FORMAT, "revision": revision, "files": files}))
        for file in folder.iterdir():
            file.chmod(0o600)
        folder.rename(target)
    except OSError as error:
        raise _build_write_error(target, error) from error
    except psycopg.Error as error:
        reason = str(error).strip().splitlines()[0]
        raise BackupError(f"no back-up was written ({reason}): fix that and run the same command again") from error
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
    passport = source / _PASSPORT
    try:
        if not passport.is_file():  # opening a pipe would wait
            raise FileNotFoundError
        content = json.loads(passport.read_text())
        version, revision, stored_marks = int(content["format"]), str(content["revision"]), dict(content["files"])
        if not _REVISION.fullmatch(revision):
            raise ValueError(revision)
    except PermissionError as error:
        raise _build_read_error(passport, error) from error
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise BackupError(f"{source} is not a back-up: give a folder that reelsieve db dump wrote") from error
    made = f"another version of Reelsieve made the back-up in {source}"
    remedy = "ingest your manifests again with reelsieve ingest"
    if version != _FORMAT:
        raise BackupError(f"{made} (format {version}, this one has {_FORMAT}): {remedy}")
    if revision not in revisions:
        raise BackupError(f"{made} (schema {revision}, this one has {revisions[-1]}): {remedy}")
    marks = {}
    for file in (build_dump_path(source, name) for name in (CURATION, DAGSTER)):
        if not file.is_file():
            raise BackupError(f"{source} is an incomplete back-up, without the file {file.name}: give a complete one")
        try:
            marks[file.name] = _measure_file(file)
        except OSError as error:
            raise _build_read_error(file, error) from error
        if stored_marks.get(file.name) != marks[file.name]:
            raise BackupError(f"{file} has changed since it was written (see {_PASSPORT}): give an intact back-up")
    return CheckedBackup(hashlib.sha256(json.dumps(marks).encode()).hexdigest(), revision)


def list_databases(url: URL) -> dict[str, str]:
    """Return {"curation": name of the curation database, "dagster": name of Dagster's database} for a server's URL. The
    keys are the names of their files in a back-up, without ".zip".
    """
    return {CURATION: url.database or CURATION, DAGSTER: DAGSTER}


def build_dump_path(source: Path, name: str) -> Path:
    """Return the path of the file NAME.zip in the back-up folder `source`; it need not exist. `name` is "curation" or
    "dagster".
    """
    return source / f"{name}.zip"


def _build_write_error(target: Path, error: OSError) -> BackupError:
    return BackupError(f"{target} cannot be written ({error.strerror}): fix that or give another folder")


def _build_read_error(file: Path, error: OSError) -> BackupError:
    return BackupError(f"{file} cannot be read ({error.strerror}): fix that and run the same command again")


def _measure_file(file: Path) -> dict[str, Any]:
    """Return size and SHA-256 of a file."""
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while block := content.read(_BLOCK):
            digest.update(block)
        return {"bytes": content.tell(), "sha256": digest.hexdigest()}
