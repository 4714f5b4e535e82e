"""A metric that an installed package brings along needs no change of this project: graph to history follow."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from assets.metrics.installed import ENTRY_POINTS
from tests.conftest import PROJECT

ROOMS = ("orchestration", "assets", "metrics_core", "db", "demo", "lab")
METRIC = PROJECT / "tests" / "outside" / "letters.py"


def test_a_metric_is_short_and_imports_from_one_place() -> None:
    lines = METRIC.read_text().splitlines()
    assert len(lines) < 150
    ours = {line.split()[1] for line in lines if re.match(rf"(from|import) ({'|'.join(ROOMS)}|reelsieve)\b", line)}
    assert ours == {"reelsieve.metrics"}


@pytest.mark.slow
def test_everything_follows_from_an_installed_metric(tmp_path: Path) -> None:
    installed = tmp_path / "outside_metric-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-metric\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(
        f"[{ENTRY_POINTS}]\nletters = tests.outside.letters:LetterScorer\nwords = tests.outside.words:words\n"
    )
    # The registry reads entry points when it is imported, so that the checks need a process of their own.
    path = os.pathsep.join([str(tmp_path), str(PROJECT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/outside/checks.py"],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
