"""What the process that commands are forked from has once: whatever a command may import, and the definitions."""

from __future__ import annotations

import gc
import importlib
import pkgutil

import dagster_postgres
import pytest
import sentence_transformers
import sqlglot

import assets
import orchestration.cli.app
import orchestration.definitions
import orchestration.launch
import orchestration.runs
import orchestration.settings

__all__ = ["dagster_postgres", "orchestration", "pytest", "sentence_transformers", "sqlglot"]

for module in pkgutil.walk_packages(assets.__path__, f"{assets.__name__}."):
    importlib.import_module(module.name)
# Dagster's definitions take half a second. A command reads settings of its own.
orchestration.runs.get_definitions()
orchestration.settings.get_settings.cache_clear()
# A collection in a forked process would touch, and so copy, every page of what is imported here.
gc.freeze()
