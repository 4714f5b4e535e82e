"""The public face of Reelsieve for programs: what stands here keeps its name and meaning from version to version.

>>> import reelsieve as rs
>>> rs.vcs_short("A dog runs over the lawn.", "A dog runs over the lawn.").value
1.0

Importing it loads no model library and no database driver: every function imports what it needs. docs/python.md has an
example of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reelsieve.errors import ReelsieveError
from reelsieve.frames import score
from reelsieve.functions import FunctionMetric, metric
from reelsieve.imports import import_scores
from reelsieve.stored import Connection, connect, select
from reelsieve.values import ecs, evqa, qeva, vcs, vcs_short

if TYPE_CHECKING:
    from reelsieve.dagster import Dataset

__all__ = [
    "Connection",
    "Dataset",
    "FunctionMetric",
    "ReelsieveError",
    "connect",
    "ecs",
    "evqa",
    "import_scores",
    "metric",
    "qeva",
    "score",
    "select",
    "vcs",
    "vcs_short",
]


def __getattr__(name: str) -> Any:
    # Dagster's component is looked for here, and nobody else need import Dagster.
    if name == "Dataset":
        from reelsieve.dagster import Dataset

        return Dataset
    raise AttributeError(f"module 'reelsieve' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), "Dataset"]
