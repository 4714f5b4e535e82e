"""The home folder of this account, and the name of the demo's dataset."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from platformdirs import user_data_path

from metrics_core.child_processes import locate_path

# The dataset of the demo's drawn videos, and its folder in the home. Models that only know these videos score every
# dataset of this name.
DEMO_DATASET = "demo"


def find_home() -> Path:
    """Return the path of the home folder that commands use unless another one is named: `reelsieve` in this account's
    folder for data. It may not exist. Raises SettingsError for an account without such a folder.
    """
    with suppress(RuntimeError):
        path = user_data_path("reelsieve")
        if path.is_absolute():
            return path
    raise _build_error("this account has no folder for data: name a home by --home or REELSIEVE_HOME")


def locate_home(named: str | os.PathLike[str]) -> Path:
    """Return the absolute path, without links, of a home folder that the person named. It may not exist. Raises
    SettingsError for a home of another account, and for a file.
    """
    me = os.geteuid()
    try:
        path = locate_path(named)
    except RuntimeError:  # for ~ of an account that is unknown, or has no folder
        raise _build_error(
            f"home {named} cannot be used, since there is no folder {Path(named).parts[0]}: name another one by --home "
            "or REELSIEVE_HOME"
        ) from None
    try:
        home = path.resolve()
        if home.exists() and not home.is_dir():
            raise _build_error(f"home {home} is not a folder: name one by --home or REELSIEVE_HOME")
        # Root may have made it for this account, such as a volume of a container. Root's server has its own account.
        is_mine = home.stat().st_uid in (me, 0) and (me == 0 or (home / "postgres").stat().st_uid == me)
    except (FileNotFoundError, NotADirectoryError):
        is_mine = True
    except RuntimeError:
        raise _build_error(
            f"home {named} leads through links in a circle: name another one by --home or REELSIEVE_HOME"
        ) from None
    except PermissionError:
        home, is_mine = Path(named), False
    if not is_mine:
        raise _build_error(f"home folder {home} is not this account's: set REELSIEVE_HOME to one that is")
    return home


def _build_error(sentence: str) -> ValueError:
    # Imported late: it imports pydantic, and commands that need no home start without it.
    from assets.home.settings import SettingsError

    return SettingsError(sentence)
