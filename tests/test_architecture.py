"""The rooms import one way only, and importing the light ones stays light."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
ROOMS = (
    "reelsieve",
    "orchestration",
    "assets",
    "metrics_core",
    "db",
    "demo",
    "lab",
    "benchmarks",
    "tests",
    "docs",
)
# In backticks: a folder with its slash, or a file; alone, or as a reader finds it in the package just named.
NAMED = re.compile(r"`([\w./]+(?:/|\.(?:py|sql|md|txt|json|toml)))`")
HEAVY = {"torch", "sentence_transformers", "open_clip", "transformers", "av", "decord", "onnxruntime", "rapidocr"}

IMPORT_ALL = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
names = [m.name for m in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
for name in names:
    if not name.startswith("db.migrations."):  # Alembic's scripts only run inside Alembic
        importlib.import_module(name)
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""

IMPORT_THIRD_PARTY = """
import sys
before = set(sys.modules)
import metrics_core
loaded = [name for name in set(sys.modules) - before if getattr(sys.modules[name], "__file__", None)]
print(*sorted({name.partition(".")[0] for name in loaded} - sys.stdlib_module_names))
"""


def loaded_modules(program: str, *arguments: str) -> set[str]:
    """The top-level modules that a fresh interpreter prints after running the program."""
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_imports_obey_the_contracts() -> None:
    executable = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    assert executable, "lint-imports is missing beside the interpreter: run make develop"
    command = [executable, "--no-logo", "--no-cache"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("room", ["metrics_core", "db", "assets"])
def test_no_module_of_a_room_loads_a_model_library_or_a_decoder(room: str) -> None:
    loaded = loaded_modules(IMPORT_ALL, room)
    assert room in loaded
    assert not loaded & HEAVY


def test_metrics_core_needs_only_numpy() -> None:
    assert loaded_modules(IMPORT_THIRD_PARTY) <= {"metrics_core", "numpy"}


@pytest.mark.parametrize("room", ["orchestration", "assets", "db", "metrics_core", "benchmarks"])
def test_nobody_uses_what_dagster_keeps_to_itself(room: str) -> None:
    """Else every new version of Dagster is a project."""
    private = re.compile(r"\bdagster(_\w+)?(\.\w+)*\._[a-z]")
    texts = {path: path.read_text(encoding="utf-8") for path in (PROJECT / room).rglob("*.py")}
    assert texts
    assert [str(path) for path, text in texts.items() if private.search(text)] == []


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_path_that_a_page_names_exists(page: str) -> None:
    named = set(NAMED.findall((PROJECT / page).read_text(encoding="utf-8")))
    assert named
    missing = [name for name in named if not (PROJECT / name).exists()]
    assert [name for name in missing if "/" in name.rstrip("/") or not any(_below_rooms(name))] == []


def _below_rooms(name: str) -> Iterator[Path]:
    return (found for room in ROOMS for found in (PROJECT / room).rglob(name))
