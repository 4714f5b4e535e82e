"""Inputs of public bug reports, each with what is right: their own check, on commands in this process."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.measure import DATA
from tests.command_line import run_command

REPORTS = DATA / "reports"
LINKS = "hub_cache_links"

pytestmark = pytest.mark.slow


def run_here(*arguments: object) -> tuple[int, str, str]:
    """Run a command; return its exit code, all that it printed, and its standard output, as the check wants them."""
    done = run_command(*map(str, arguments))
    return done.returncode, done.stdout + done.stderr, done.stdout


@pytest.fixture(scope="module")
def check(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The check, on a copy of the inputs. The links of a hub's cache came as texts that name their targets."""
    copy = tmp_path_factory.mktemp("inputs") / "reports"
    shutil.copytree(shared_data / "reports", copy)
    for file in (copy / LINKS / "input").rglob("*"):
        if file.is_file() and (target := file.read_bytes()).startswith(b"../"):
            file.unlink()
            file.symlink_to(target.decode().strip())
    spec = importlib.util.spec_from_file_location("check_reports", copy / "check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module)["run"] = run_here
    return module


@pytest.mark.usefixtures("installation")
@pytest.mark.parametrize("name", sorted(path.parent.name for path in REPORTS.glob("*/expected.json")))
def test_a_reported_input_gives_what_is_right(check: ModuleType, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert check.main([name]) == 0, capsys.readouterr().out
