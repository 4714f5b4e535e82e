"""A folder of somebody else in which commands are called, and an environment that knows nothing of Dagster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

MODULE = """
import os
with open("/proc/self/cmdline", "rb") as command, open("{marks}/{name}-" + str(os.getpid()), "wb") as mark:
    mark.write(command.read())
raise ImportError("a module of somebody else")
"""


@dataclass(frozen=True, slots=True)
class Foreign:
    """The folder, and where a false module in it leaves a file when it runs."""

    folder: Path
    marks: Path

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Fail unless none of its modules runs while the block lasts, and nothing is written there."""
        before = set(self.folder.iterdir())
        yield
        ran = {mark.name: mark.read_bytes().replace(b"\0", b" ") for mark in self.marks.iterdir()}
        for mark in self.marks.iterdir():
            mark.unlink()
        assert not ran
        assert set(self.folder.iterdir()) == before, "nothing is written there"


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Foreign:
    """With a false module of every name that anything imports here, and with files of Dagster that name it."""
    folder, marks = tmp_path_factory.mktemp("foreign"), tmp_path_factory.mktemp("marks")
    names = {name.partition(".")[0] for name in [*sys.modules, *sys.stdlib_module_names]}
    for name in names | {"dagster", "orchestration", "torch", "yaml", "numpy", "ray", "reelsieve", "multiprocessing"}:
        (folder / name).mkdir()
        for file in ("__init__.py", "__main__.py"):
            (folder / name / file).write_text(MODULE.format(marks=marks, name=name))
    (folder / ".env").write_text(f"PYTHONPATH={folder}\nREELSIEVE_HOME={folder / 'home'}\n")
    (folder / "workspace.yaml").write_text("load_from: [{python_module: foreign}]\n")
    (folder / "pyproject.toml").write_text('[tool.dagster]\nmodule_name = "foreign"\n')
    return Foreign(folder, marks)


def fresh_environment() -> dict[str, str]:
    """An environment that knows nothing of Dagster, with the commands of this installation."""
    theirs = ("DAGSTER_", "REELSIEVE_DAGSTER_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
    return {**environment, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"}
