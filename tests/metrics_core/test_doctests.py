"""Every example in a docstring of metrics_core runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import metrics_core

MODULES = [module.name for module in pkgutil.walk_packages(metrics_core.__path__, "metrics_core.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("metrics_core"):
            raise
        pytest.skip(f"{name} needs {error.name}, which is not installed")
    assert doctest.testmod(module).failed == 0


def test_there_are_modules_to_check() -> None:
    assert "metrics_core.vcs.score" in MODULES
