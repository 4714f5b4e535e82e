"""How Python processes that this one starts begin: they import nothing from the folder in which a person works, which
may be somebody else's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Parent folder of the packages: modules that `python -m` imports from there are our own.
PACKAGES_FOLDER = Path(__file__).resolve().parents[1]
STARTED_IN = "REELSIEVE_STARTED_IN"
# Any text turns it on (from Python 3.11). This one distinguishes it from the value of a user.
_SAFE_PATH = ("PYTHONSAFEPATH", "reelsieve")


def find_caller_folder() -> Path:
    """Return the folder that the user's relative paths start from: the current folder, or in a process that another one
    of ours started elsewhere, the current folder of the first one.
    """
    return Path(os.environ.get(STARTED_IN) or os.getcwd())


def build_child_environment(import_paths: Iterable[str] | None = None) -> dict[str, str]:
    """Return the environment for a Python process that may start in another folder: that of this process, with
    PYTHONSAFEPATH, and without the current folder in PYTHONPATH. import_paths: the folders of the new PYTHONPATH; by
    default those of the present one, as absolute paths.
    """
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep) if import_paths is None else import_paths
    return {
        **os.environ,
        _SAFE_PATH[0]: os.environ.get(_SAFE_PATH[0]) or _SAFE_PATH[1],
        STARTED_IN: str(find_caller_folder()),
        # An empty entry means the current folder.
        "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in paths if path),
    }


def start_child(module: str, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start `python -m module` with these arguments, and return the process. It imports from the folders of this
    process, except the current one, which may hold somebody's data. Ctrl-C reaches only this process, which then ends
    the child. options: further ones of `subprocess.Popen`, such as pipes.
    """
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env=build_child_environment(sys.path),
        cwd=PACKAGES_FOLDER,
        start_new_session=True,
        **options,
    )


def build_user_environment() -> dict[str, str]:
    """Return the environment for a program that the user named: that of this process without what
    `build_child_environment` adds, so that the program imports from its own folder.
    """
    return {name: value for name, value in os.environ.items() if (name, value) != _SAFE_PATH and name != STARTED_IN}


def locate_path(path: str | os.PathLike[str]) -> Path:
    """Return a path that the user gave, without ~, as this process can open it: a relative path stays as it is in the
    folder of `find_caller_folder`, and becomes absolute in any other folder.
    """
    folder = find_caller_folder()
    return (Path() if folder == Path.cwd() else folder) / Path(path).expanduser()


@contextmanager
def protect_children() -> Iterator[None]:
    """Give every process that is started during the block, also by a library, the environment of
    `build_child_environment`.
    """
    before = dict(os.environ)
    ours = build_child_environment()
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in {name for name in ours if before.get(name) != ours[name]}:
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)
