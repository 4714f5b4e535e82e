"""The list of files that this account trusts: identities of homes that it made, and settings files that it allowed.

A folder may come from somebody else, with a home whose server runs programs, or with settings that send data away. So
the list is kept where no such folder reaches: in the folder of this account's own configuration.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from assets.settings import SettingsError

TRUSTED_LIST = "trusted.json"


def find_config_folder() -> Path | None:
    """Return the path of this account's configuration folder, which may not exist. It is `reelsieve` in
    XDG_CONFIG_HOME, or in `.config` of the account's home folder where that variable is no absolute path. None for an
    account without a home folder.
    """
    named = os.environ.get("XDG_CONFIG_HOME", "")
    if named.startswith("/"):
        return Path(named) / "reelsieve"
    try:
        return Path.home() / ".config" / "reelsieve"
    except RuntimeError:
        return None


def is_trusted(file: Path, content: bytes) -> bool:
    """Return whether the account's list of trusted files has this file with this content. The path must be absolute and
    without links. A list that is missing, broken or owned by another account counts as empty.
    """
    return _read_list().get(str(file)) == _digest(content)


def trust_file(file: Path, content: bytes) -> None:
    """Add a file with its present content to the account's list of trusted files, which only keeps the SHA-256 of the
    content. The path must be absolute and without links. Raises SettingsError where the list cannot be written.
    """
    with hold_account_lock("trusted") as folder, _explain_write_errors(folder):
        _write_list(folder, _read_list() | {str(file): _digest(content)})


@contextmanager
def hold_account_lock(name: str) -> Iterator[Path]:
    """Let only one process of this account at a time run a block under this name; others wait. Yields the account's
    configuration folder, which is created if missing. Raises SettingsError for a folder that cannot be written to. A
    file system without locks excludes no process.
    """
    folder = find_config_folder()
    if folder is None:
        raise SettingsError("this account has no home folder to keep a list of trusted files in: set XDG_CONFIG_HOME")
    with _explain_write_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / f"{name}.lock", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(descriptor)


@contextmanager
def _explain_write_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(
            f"{folder}: the list of trusted files cannot be written there ({error.strerror}): set XDG_CONFIG_HOME to a "
            "folder that you may write to"
        ) from None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read_list() -> dict[str, str]:
    """Read the digests by file. A list that is missing, broken or owned by another account counts as empty."""
    folder = find_config_folder()
    if folder is None:
        return {}
    with suppress(OSError, ValueError, RecursionError), (folder / TRUSTED_LIST).open("rb") as file:
        known = json.load(file)
        if os.fstat(file.fileno()).st_uid == os.geteuid() and isinstance(known, dict):
            return known
    return {}


def _write_list(folder: Path, known: dict[str, str]) -> None:
    fresh = folder / f"trusted-{secrets.token_hex(4)}.new"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(known, file, indent=1, sort_keys=True)
    fresh.replace(folder / TRUSTED_LIST)
