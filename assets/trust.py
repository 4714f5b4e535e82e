"""What this account trusts: the homes that it made and the settings files that it allowed, listed outside of them.

A folder may come from somebody else, with a home whose server runs programs, or with settings that send data away. So
the list is kept where no such folder reaches: in the folder of this account's own configuration.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import shlex
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from assets.settings import SettingsError

LIST = "trusted.json"


def config_folder() -> Path | None:
    """Return the folder of this account's own configuration, which may not exist; None for an account without a home.

    It is `reelsieve` in XDG_CONFIG_HOME, or in `.config` of the account's home folder where that is not set.
    """
    named = os.environ.get("XDG_CONFIG_HOME", "")
    if named.startswith("/"):
        return Path(named) / "reelsieve"
    try:
        return Path.home() / ".config" / "reelsieve"
    except RuntimeError:
        return None


def is_trusted(file: Path, content: bytes) -> bool:
    """Return whether this account trusts the file with this content. The path must be absolute and without links."""
    return _read_list().get(str(file)) == _digest(content)


def trust(file: Path, content: bytes) -> None:
    """Add a file with its present content to the list. Raises SettingsError where the list cannot be written."""
    with locked("trusted") as folder, _writable(folder):
        _write_list(folder, _read_list() | {str(file): _digest(content)})


@contextmanager
def locked(name: str) -> Iterator[Path]:
    """Keep other processes of this account out of a block of this name, and give the folder of its configuration.

    Makes the folder. On a file system without locks nobody is kept out. Raises SettingsError for a folder that cannot
    be written to.
    """
    folder = config_folder()
    if folder is None:
        raise SettingsError("this account has no home folder to keep a list of trusted files in: set XDG_CONFIG_HOME")
    with _writable(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / f"{name}.lock", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(descriptor)


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
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
    """The digests by file. A list that is missing, broken or of another account trusts nothing."""
    folder = config_folder()
    if folder is None:
        return {}
    with suppress(OSError, ValueError, RecursionError), (folder / LIST).open("rb") as file:
        known = json.load(file)
        if os.fstat(file.fileno()).st_uid == os.geteuid() and isinstance(known, dict):
            return known
    return {}


def _write_list(folder: Path, known: dict[str, str]) -> None:
    fresh = folder / f"trusted-{secrets.token_hex(4)}.new"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(known, file, indent=1, sort_keys=True)
    fresh.replace(folder / LIST)


# Whether a home is this account's: it made it, which a file in the home and the list of trusted files say together.

IDENTITY = "identity"
_LONGEST_IDENTITY = 1000
# What people may put into a home before its first command.
_BEFORE_FIRST_COMMAND = {"inbox", "reelsieve.toml"}


class UntrustedHome(SettingsError):
    """A home that neither this account made nor its user named; the message says how to trust it."""


def open_home(home: Path, *, is_asked: bool) -> str | None:
    """Make a home that is new and mark it as this account's; raise UntrustedHome for one that is somebody else's.

    is_asked: whether the user named the home outside of any folder's file, so that it counts whoever made it. Returns a
    sentence for the user where a new home could not be marked, else None.
    """
    if is_own_home(home) or (is_asked and not _is_new(home)):
        return None
    # Imported late: it imports SQLAlchemy, and most commands find their home made.
    from db.server.embedded import make_home

    quoted = shlex.quote(str(home))
    with ExitStack() as stack:
        unmarkable = None
        try:
            # Of two commands that begin in a new home at once, the second one goes by the mark of the first.
            stack.enter_context(locked("homes"))
        except SettingsError as error:
            unmarkable = str(error)
        if not _is_new(home) and not is_own_home(home):
            remedy = f"set REELSIEVE_HOME={quoted}" if unmarkable else f"run reelsieve config trust {quoted}"
            raise UntrustedHome(
                f"{home} was not made by this account, and its server could run programs in your name: if you trust "
                f"it, {remedy}"
            )
        make_home(home)
        if unmarkable is None:
            trust_home(home)
    if unmarkable is None or is_asked:
        return None
    return f"{home} is not marked as yours ({unmarkable}); later commands need REELSIEVE_HOME={quoted}"


def is_own_home(home: Path) -> bool:
    """Return whether this account made the home, or trusted it by name, and nobody has put another in its place."""
    try:
        # In somebody else's home it may be a pipe, which nobody writes to, or a link to an endless file.
        descriptor = os.open(home / IDENTITY, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return False
    with open(descriptor, "rb") as file:
        is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return is_regular and is_trusted(home / IDENTITY, file.read(_LONGEST_IDENTITY))


def trust_home(home: Path) -> None:
    """Let a home count as this account's from now on. Raises SettingsError where it cannot be marked."""
    fresh = home / f"{IDENTITY}-{secrets.token_hex(4)}.new"
    # Nobody can guess it, so a folder that takes the home's place later has another one.
    content = f"{secrets.token_hex(16)}\n".encode()
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        trust(home / IDENTITY, content)
        fresh.replace(home / IDENTITY)
    except OSError as error:
        raise SettingsError(
            f"{home}: it cannot be marked as yours ({error.strerror}): copy it to a folder of yours"
        ) from None
    finally:
        fresh.unlink(missing_ok=True)


def _is_new(home: Path) -> bool:
    """Whether nobody has worked in the home. A link in it may lead to any file of the user, so it counts as work."""
    try:
        entries = list(os.scandir(home))
        is_mine = home.stat().st_uid == os.geteuid()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return is_mine and all(_is_before_first_command(entry) for entry in entries)


def _is_before_first_command(entry: os.DirEntry[str]) -> bool:
    is_known = entry.name in _BEFORE_FIRST_COMMAND or entry.name.startswith(f"{IDENTITY}-")
    return is_known and not entry.is_symlink()
