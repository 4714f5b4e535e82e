"""The public interface of Reelsieve for programs: every name here keeps its meaning from version to version.

>>> import reelsieve as rs
>>> rs.vcs_short("A dog runs over the lawn.", "A dog runs over the lawn.").value
1.0

Importing it loads no model library and no database driver: every function imports what it needs. docs/python.md has an
example of every function.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelsieve.errors import ReelsieveError
from reelsieve.frames import score
from reelsieve.functions import FunctionMetric, metric
from reelsieve.imports import import_scores
from reelsieve.stored import Connection, connect, select
from reelsieve.values import ecs, evqa, judge, qeva, vcs, vcs_short

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
    "judge",
    "metric",
    "qeva",
    "score",
    "select",
    "vcs",
    "vcs_short",
]


def _refuse_other_rooms() -> None:
    """Raise ImportError if another package hides one of ours; in a checkout ours have common names such as `db`."""
    here = Path(__file__).resolve().parent
    if (here / "rooms").is_dir():
        return  # installed from a wheel, see building.py
    for room in ("assets", "db", "demo", "metrics_core", "orchestration"):
        spec = find_spec(room)
        if spec is None:
            raise ImportError(f"the package {room!r} of Reelsieve is missing: install Reelsieve again")
        folder = Path(spec.origin or "").resolve().parent
        if folder != here.parent / room:
            raise ImportError(
                f"the package {room!r} in {folder.parent} hides that of Reelsieve: rename it, or install Reelsieve "
                "from a wheel, which has no such names"
            )


_refuse_other_rooms()


def __getattr__(name: str) -> Any:
    # Dagster looks for the component here; other users need not import Dagster.
    if name == "Dataset":
        from reelsieve.dagster import Dataset

        return Dataset
    raise AttributeError(f"module 'reelsieve' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__]
