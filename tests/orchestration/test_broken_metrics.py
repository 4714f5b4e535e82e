"""A broken metric of an installed package stops no command: one warning, and a line of doctor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assets.metrics.installed import ENTRY_POINTS
from db.server.embedded import stop_embedded
from tests.command_line import Done
from tests.conftest import PROJECT
from tests.homes import copy_home
from tests.orchestration.conftest import write_manifest

POINTS = "broken = no_such_package:Scorer\nshared_words = tests.outside.words:words\n"
LATER_POINTS = "refused = later:Refused\nmoody = later:Moody\nshared_words = tests.outside.words:words\n"
# Metrics that can be loaded: one depends on SQL that Postgres refuses, one is made from no settings.
LATER = """
from dataclasses import replace
from reelsieve.metrics import TEXT
from tests.outside.letters import LetterScorer

class Refused(LetterScorer):
    metric = "refused"
    inputs = (replace(TEXT, name="mood", digest="sha256(s.no_such_column)"),)

class Moody(LetterScorer):
    metric = "moody"

    @classmethod
    def from_settings(cls, settings):
        raise ValueError("the mood is missing")
"""

# The registry stays, as it is read once per process; settings, database and instance are each command's own.
COMMANDS = """
import dataclasses, json, sys
from tests.command_line import run_command
from tests.orchestration.conftest import forget_installation

done = []
for arguments in json.load(sys.stdin):
    forget_installation()
    done.append(dataclasses.asdict(run_command(*arguments)))
print(json.dumps(done))
"""


@pytest.fixture
def home(prepared_home: Path, tmp_path: Path) -> Iterator[Path]:
    copy_home(prepared_home, tmp_path / "home")
    yield tmp_path / "home"
    stop_embedded(tmp_path / "home")


def run(home: Path, *commands: tuple[str, ...], points: str = POINTS, **variables: str) -> list[Done]:
    """What commands leave behind, in one process that has the package: entry points are read when it begins."""
    packages = home.parent / "packages"
    installed = packages / "bad_metrics-1.5.dist-info"
    installed.mkdir(parents=True, exist_ok=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: bad-metrics\nVersion: 1.5\n")
    (installed / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{points}")
    (packages / "later.py").write_text(LATER)
    path = os.pathsep.join([str(packages), str(PROJECT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "REELSIEVE_HOME": str(home), **variables}
    process = subprocess.run(
        [sys.executable, "-c", COMMANDS],
        cwd=home.parent,
        env=environment,
        input=json.dumps(commands),
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    return [Done(**fields) for fields in json.loads(process.stdout)]


@pytest.mark.slow
def test_every_other_metric_works(home: Path) -> None:
    why = (
        "importing no_such_package:Scorer raises ModuleNotFoundError (No module named 'no_such_package'): "
        "correct, update or uninstall bad-metrics 1.5"
    )
    # The variable and the key may be settings of the broken metric.
    settings = home / "settings.toml"
    settings.write_text("broken_least = 5\n")
    query = "SELECT count(shared_words) AS n FROM sample_scores"
    for done in run(
        home,
        ("sql", query, "--json"),
        ("dataset", "list", "--json"),
        REELSIEVE_BROKEN_MOST="5",
        REELSIEVE_CONFIG=str(settings),
    ):
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("warning: metric broken is left out, since") == 1
        assert why in done.stderr
    (done,) = run(home, ("doctor", "--json"))
    lines = [finding for finding in json.loads(done.stdout) if not finding["ok"]]
    assert {"what": "metric broken of bad-metrics 1.5", "ok": False, "detail": why} in lines
    assert done.returncode == 1


@pytest.mark.slow
def test_a_metric_that_turns_out_to_be_broken_later_is_left_out_of_the_commands(home: Path, tmp_path: Path) -> None:
    why = {
        "refused": "Postgres refuses its inputs (column s.no_such_column does not exist)",
        "moody": "making its scorer from the settings raises ValueError (the mood is missing)",
    }
    manifest = tmp_path / "manifest"
    manifest.mkdir()
    write_manifest(manifest, n_videos=2)
    commands = [
        ("ingest", str(manifest), "--dataset", "d"),
        ("dataset", "list"),
        ("score", "--dataset", "d", "--metric", "words_in_common"),
        ("score", "--dataset", "d", "--dry-run"),
        ("sql", "SELECT count(words_in_common) AS n FROM sample_scores"),
    ]
    asked = [("score", "--dataset", "d", "--metric", metric) for metric in why]
    usable = [(*command, "--json") for command in commands]
    *outcomes, doctor = run(home, *usable, *asked, ("doctor", "--json"), points=LATER_POINTS)
    answers = []
    for done in outcomes[: len(usable)]:
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("warning: metric refused is left out") == 1
        assert done.stderr.count("warning: metric moody is left out") <= 1
        answers.append(json.loads(done.stdout))
    assert "shared_words_pending" in answers[1][0]
    assert {"refused_pending", "moody_pending"}.isdisjoint(answers[1][0])
    assert {"refused", "moody"}.isdisjoint(row["metric"] for row in answers[3])
    assert answers[4] == [{"n": 6}]
    for (metric, reason), done in zip(why.items(), outcomes[len(usable) :], strict=True):
        sentence = f"metric {metric} cannot be used, since {reason}: correct, update or uninstall bad-metrics 1.5"
        assert done.returncode == 1
        assert sentence in " ".join(done.stderr.split())
    lines = {finding["what"]: finding["detail"] for finding in json.loads(doctor.stdout) if not finding["ok"]}
    for metric, reason in why.items():
        assert lines[f"metric {metric} of bad-metrics 1.5"].startswith(reason)
