"""Every example in a docstring runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.conftest import PROJECT

ROOMS = ("reelsieve", "metrics_core", "db", "assets", "orchestration", "demo", "lab", "benchmarks/papers")
# By their text, since importing all modules to look for examples takes longer than running these.
MODULES = [
    ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__")
    for room in ROOMS
    for path in sorted((PROJECT / room).rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    done = doctest.testmod(importlib.import_module(name))
    assert done.attempted > 0
    assert done.failed == 0


def test_there_are_examples_of_every_room() -> None:
    expected = {
        "metrics_core.vcs.score",
        "db.selection.exports",
        "assets.progress",
        "orchestration.requests",
        "lab.demo.story",
    }
    assert expected <= set(MODULES)
