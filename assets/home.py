"""The home folder: the nearest `.reelsieve` in the current folder or above it, as git finds its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from metrics_core.child_processes import find_caller_folder

HOME_NAME = ".reelsieve"
# The dataset of the demo's drawn videos, and its folder in the home. Models that only know these videos score every
# dataset of this name.
DEMO_DATASET = "demo"


def find_home(start: Path | None = None) -> Path:
    """Return the path of the home folder that belongs to the folder `start`, by default the current one. It is the
    nearest `.reelsieve` in the folder or above it; without any, `.reelsieve` in the folder, which may not exist yet.

    Above the folder only a home of this user counts, since anyone who may write into a home decides what its server
    runs.
    """
    return find_nearest_path(HOME_NAME, Path.is_dir, start) or (start or find_caller_folder()).resolve() / HOME_NAME


def find_nearest_path(name: str, is_match: Callable[[Path], bool], start: Path | None = None) -> Path | None:
    """Find the nearest path of this name that fits, in the folder `start` or above it; None where there is none.
    `is_match` returns whether a path fits; `start` is by default the current folder. Above the folder itself only a
    path that this user owns counts.
    """
    start = (start or find_caller_folder()).resolve()
    for folder in (start, *start.parents):
        path = folder / name
        if is_match(path) and (folder == start or path.stat().st_uid == os.geteuid()):
            return path
    return None


def list_homes_nearby(start: Path | None = None) -> list[Path]:
    """List the home folders that exist directly below a folder's subfolders or siblings, by default those of the
    current folder. The homes of subfolders come first. Folders that cannot be read are skipped.
    """
    start = (start or find_caller_folder()).resolve()
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
