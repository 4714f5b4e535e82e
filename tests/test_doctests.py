"""Every example in a docstring runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

ROOMS = ("metrics_core", "db", "assets", "orchestration", "demo", "verifier", "benchmarks.papers")
MODULES = [
    module.name
    for room in ROOMS
    for module in pkgutil.walk_packages(importlib.import_module(room).__path__, f"{room}.")
    if not module.name.startswith("db.migrations.")  # Alembic's scripts run inside Alembic only
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_modules_of_every_room() -> None:
    expected = {"metrics_core.vcs.score", "db.bulk", "assets.progress", "orchestration.launch", "demo.story"}
    assert expected <= set(MODULES)
