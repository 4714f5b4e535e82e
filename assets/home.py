"""The home folder: the nearest `.reelsieve` in the current folder or above it, as git finds its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

HOME_NAME = ".reelsieve"
# The dataset of the demo's drawn videos, and its folder in the home. Models that only know these videos score every
# dataset of this name.
DEMO_DATASET = "demo"


def find_home(start: Path | None = None) -> Path:
    """Return the home folder of a folder, by default the current one: the nearest `.reelsieve` in it or above it, else
    `.reelsieve` in the folder itself, which may not exist yet.

    It is the nearest `.reelsieve` in the folder or above it, and without any `.reelsieve` in the folder itself. Above
    the folder only a home of this user counts, since anyone who may write into a home decides what its server runs.
    """
    return find_nearest_path(HOME_NAME, Path.is_dir, start) or (start or Path.cwd()).resolve() / HOME_NAME


def find_nearest_path(name: str, is_match: Callable[[Path], bool], start: Path | None = None) -> Path | None:
    """Find the nearest path of this name that fits, in a folder or above it; None where there is none.

    Above the folder itself only a path that this user owns counts. is_match: whether a path fits. start: the current
    folder where it is None.
    """
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        path = folder / name
        if is_match(path) and (folder == start or path.stat().st_uid == os.geteuid()):
            return path
    return None


def list_homes_nearby(start: Path | None = None) -> list[Path]:
    """List the home folders that exist one level below a folder, or in its sibling folders; folders that cannot be read
    are skipped.
    """
    start = (start or Path.cwd()).resolve()
    homes: list[Path] = []
    for folder in dict.fromkeys((start, start.parent)):
        try:
            homes += [
                path / HOME_NAME for path in sorted(folder.iterdir()) if path != start and (path / HOME_NAME).is_dir()
            ]
        except OSError:
            # A folder that may not be listed hides its homes.
            continue
    return homes
