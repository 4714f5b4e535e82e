"""A warning that a command is about to start a second server or home, where the user may mean an existing one."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from assets.home import HOME_NAME, list_homes_nearby
from db.server.processes import has_embedded_data, is_embedded_running, list_running_homes


def explain_second_server(
    home: Path, list_running_homes: Callable[[], list[Path]] = list_running_homes, *, is_read_only: bool = False
) -> str | None:
    """Return the warning for a command that uses this home while another home's server runs or another home is near.
    None if this home's server runs already or there is no other home. list_running_homes: returns the homes whose
    server runs. is_read_only: the command starts no server, and the warning is worded so.
    """
    if is_embedded_running(home):
        return None
    running = [other for other in list_running_homes() if other != home]
    nearby = [] if has_embedded_data(home) else list_homes_nearby(home.parent)
    if not running and not nearby:
        return None
    starts = "finds no data" if is_read_only else "starts a second server" if running else "makes a new home"
    other = (
        f"{'a server' if is_read_only else 'another one'} runs in {running[0]}"
        if running
        else f"there is one in {nearby[0]}"
    )
    meant = (running or nearby)[0]
    # A home of another name is found only by REELSIEVE_HOME.
    there = f"run the command in {meant.parent}, or " if meant.name == HOME_NAME else ""
    return (
        f"this command {starts} in {home}, and {other}: to use that, {there}set "
        f"REELSIEVE_HOME={shlex.quote(str(meant))}"
    )
