"""The home folder: the nearest `.reelsieve`, in the current folder or above it, as git finds its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

HOME_NAME = ".reelsieve"
# The dataset of the demo's drawn clips, and its folder in the home. Models that know these clips alone score every
# dataset of this name.
DEMO_DATASET = "demo"


def find_home(start: Path | None = None) -> Path:
    """The home of a folder; the current one where it is None. Without any it is `.reelsieve` in that folder.

    Above the folder itself only a home of this user counts: whoever may write into a home decides what its server runs.
    """
    return find_nearest_path(HOME_NAME, Path.is_dir, start) or (start or Path.cwd()).resolve() / HOME_NAME


def find_nearest_path(name: str, is_match: Callable[[Path], bool], start: Path | None = None) -> Path | None:
    """The nearest right path of a name, in a folder or above it; above it only one of this user counts."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        path = folder / name
        if is_match(path) and (folder == start or path.stat().st_uid == os.geteuid()):
            return path
    return None


def list_homes_nearby(start: Path | None = None) -> list[Path]:
    """The homes one folder below a folder, and in the folders beside it."""
    start = (start or Path.cwd()).resolve()
    found: list[Path] = []
    for folder in dict.fromkeys((start, start.parent)):
        try:
            found += [
                path / HOME_NAME for path in sorted(folder.iterdir()) if path != start and (path / HOME_NAME).is_dir()
            ]
        except OSError:
            # A folder that may not be listed hides its homes.
            continue
    return found
