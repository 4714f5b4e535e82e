"""A warning that a command is about to start a second server or home, where the user may mean an existing one."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from db.server.processes import is_embedded_running, list_running_homes


def explain_second_server(
    home: Path, list_running_homes: Callable[[], list[Path]] = list_running_homes, *, is_read_only: bool = False
) -> str | None:
    """Return the warning for a command that uses this home while only another home's server runs; None otherwise.
    list_running_homes: returns the homes whose server runs. is_read_only: the command starts no server, and the warning
    is worded so.
    """
    if is_embedded_running(home):
        return None
    others = [other for other in list_running_homes() if other != home]
    if not others:
        return None
    starts, other = ("finds no data", "a server") if is_read_only else ("starts a second server", "another one")
    return (
        f"this command {starts} in {home}, and {other} runs in {others[0]}: to use that, set "
        f"REELSIEVE_HOME={shlex.quote(str(others[0]))}"
    )
