"""A broken metric of an installed package stops no command: one warning, and a line of doctor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assets.scores.brought import ENTRY_POINTS
from db.server.embedded import stop_embedded
from tests.conftest import PROJECT
from tests.homes import copy_home

POINTS = "broken = no_such_package:Scorer\nshared_words = tests.outside.words:words\n"


@pytest.fixture
def home(prepared_home: Path, tmp_path: Path) -> Iterator[Path]:
    copy_home(prepared_home, tmp_path / "home")
    yield tmp_path / "home"
    stop_embedded(tmp_path / "home")


def run(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command in a process that has the package, since entry points are read when the registry is imported."""
    packages = home.parent / "packages"
    installed = packages / "bad_metrics-1.5.dist-info"
    installed.mkdir(parents=True, exist_ok=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: bad-metrics\nVersion: 1.5\n")
    (installed / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{POINTS}")
    path = os.pathsep.join([str(packages), str(PROJECT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "REELSIEVE_HOME": str(home), **variables}
    command = [sys.executable, "-m", "reelsieve", *arguments]
    return subprocess.run(command, cwd=home.parent, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_every_other_metric_works(home: Path) -> None:
    why = (
        "importing no_such_package:Scorer raises ModuleNotFoundError (No module named 'no_such_package'): "
        "correct, update or uninstall bad-metrics 1.5"
    )
    # The variable and the key may be settings of the broken metric.
    (home / "reelsieve.toml").write_text("broken_least = 5\n")
    for arguments in (["sql", "SELECT count(shared_words) AS n FROM sample_scores"], ["status"]):
        done = run(home, *arguments, "--json", REELSIEVE_BROKEN_MOST="5")
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("warning: metric broken is left out, since") == 1
        assert why in done.stderr
    done = run(home, "doctor", "--json")
    lines = [finding for finding in json.loads(done.stdout) if not finding["ok"]]
    assert {"what": "metric broken of bad-metrics 1.5", "ok": False, "detail": why} in lines
    assert done.returncode == 1
