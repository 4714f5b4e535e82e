"""Whether this account trusts a home folder: a file in the home and the list of trusted files show it together."""

from __future__ import annotations

import os
import secrets
import shlex
import stat
from contextlib import ExitStack
from pathlib import Path

from assets.settings import SettingsError
from assets.trusted_files import hold_account_lock, is_trusted, trust_file

IDENTITY = "identity"
_LONGEST_IDENTITY = 1000
# What people may put into a home before its first command.
_BEFORE_FIRST_COMMAND = {"inbox", "reelsieve.toml"}


class UntrustedHome(SettingsError):
    """Raised for a home that neither this account made nor its user named; the message says how to trust it."""


def open_home(home: Path, *, is_named_by_user: bool) -> str | None:
    """Create a home that does not exist yet, and mark it as this account's; raise UntrustedHome for a home of another
    account. is_named_by_user: whether the user named the home outside of any folder's file, which makes any home count.
    Return None, or a sentence for the user if a new home could not be marked.
    """
    if is_own_home(home) or (is_named_by_user and not _is_new(home)):
        return None
    # Imported late: it imports SQLAlchemy, and most commands find their home made.
    from db.server.embedded import create_home

    quoted = shlex.quote(str(home))
    with ExitStack() as stack:
        unmarkable = None
        try:
            # Of two commands that begin in a new home at once, the second one goes by the mark of the first.
            stack.enter_context(hold_account_lock("homes"))
        except SettingsError as error:
            unmarkable = str(error)
        if not _is_new(home) and not is_own_home(home):
            remedy = f"set REELSIEVE_HOME={quoted}" if unmarkable else f"run reelsieve config trust {quoted}"
            raise UntrustedHome(
                f"{home} was not made by this account, and its server could run programs in your name: if you trust "
                f"it, {remedy}"
            )
        create_home(home)
        if unmarkable is None:
            trust_home(home)
    if unmarkable is None or is_named_by_user:
        return None
    return f"{home} is not marked as yours ({unmarkable}); later commands need REELSIEVE_HOME={quoted}"


def is_own_home(home: Path) -> bool:
    """Return whether this account made or trusted this home, and it was not replaced since. A home that does not exist
    gives False. The answer is read from the home's file `identity` and the account's list of trusted files.
    """
    try:
        # In another account's home it may be a pipe that stays empty, or a link to an endless file.
        descriptor = os.open(home / IDENTITY, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return False
    with open(descriptor, "rb") as file:
        is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return is_regular and is_trusted(home / IDENTITY, file.read(_LONGEST_IDENTITY))


def trust_home(home: Path) -> None:
    """Mark a home as this account's: write a new random identity into it and add that to the account's list of trusted
    files. Raises SettingsError where either cannot be written.
    """
    fresh = home / f"{IDENTITY}-{secrets.token_hex(4)}.new"
    # Nobody can guess it, so a folder that takes the home's place later has another one.
    content = f"{secrets.token_hex(16)}\n".encode()
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        trust_file(home / IDENTITY, content)
        fresh.replace(home / IDENTITY)
    except OSError as error:
        raise SettingsError(
            f"{home}: it cannot be marked as yours ({error.strerror}): copy it to a folder of yours"
        ) from None
    finally:
        fresh.unlink(missing_ok=True)


def _is_new(home: Path) -> bool:
    """Return whether the home is missing, or holds only what people may put there before the first command.

    A link in it may lead to any file of the user, so a home with a link is not new.
    """
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
