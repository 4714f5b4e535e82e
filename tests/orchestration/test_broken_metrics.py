"""A broken metric of an installed package stops no command: one warning, and a line of doctor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assets.metrics.installed import ENTRY_POINTS
from db.server.embedded import stop_embedded
from tests.command_line import Done
from tests.conftest import PROJECT
from tests.homes import copy_home
from tests.orchestration.conftest import write_manifest

POINTS = """
broken = no_such_package:Scorer
refused = later:Refused
moody = later:Moody
shared_words = tests.outside.words:words
"""
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

# Entry points are read once per process, so that commands need one that has the package; settings, database and
# instance are each command's own.
PROGRAM = """
import dataclasses, json, sys
from tests.command_line import run_command
from tests.orchestration.conftest import forget_installation

done = []
for arguments in json.load(sys.stdin):
    forget_installation()
    done.append(dataclasses.asdict(run_command(*arguments)))
print(json.dumps(done))
"""


WHY = {
    "broken": "importing no_such_package:Scorer raises ModuleNotFoundError (No module named 'no_such_package')",
    "refused": "Postgres refuses its inputs (column s.no_such_column does not exist)",
    "moody": "making its scorer from the settings raises ValueError (the mood is missing)",
}
REMEDY = "correct, update or uninstall bad-metrics 1.5"
USABLE = {
    "ingest": ("ingest", "MANIFEST", "--dataset", "d", "--json"),
    "list": ("dataset", "list", "--json"),
    "score": ("score", "--dataset", "d", "--metric", "words_in_common", "--json"),
    "dry run": ("score", "--dataset", "d", "--dry-run", "--json"),
    "sql": ("sql", "SELECT count(words_in_common) AS n, count(shared_words) AS others FROM sample_scores", "--json"),
}
REFUSED = {metric: ("score", "--dataset", "d", "--metric", metric) for metric in ("refused", "moody")}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def outcomes(prepared_home: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    """What each command leaves behind, in one process that has the package."""
    folder = tmp_path_factory.mktemp("broken")
    home, manifest, packages = (folder / name for name in ("home", "manifest", "packages"))
    copy_home(prepared_home, home)
    manifest.mkdir()
    write_manifest(manifest, n_videos=2)
    installed = packages / "bad_metrics-1.5.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: bad-metrics\nVersion: 1.5\n")
    (installed / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{POINTS}")
    (packages / "later.py").write_text(LATER)
    # The variable and the key may be settings of the broken metric.
    settings = home / "settings.toml"
    settings.write_text("broken_least = 5\n")
    variables = {"REELSIEVE_BROKEN_MOST": "5", "REELSIEVE_CONFIG": str(settings), "REELSIEVE_HOME": str(home)}
    path = os.pathsep.join([str(packages), str(PROJECT), os.environ.get("PYTHONPATH", "")])
    commands = USABLE | REFUSED | {"doctor": ("doctor", "--json")}
    given = [[each.replace("MANIFEST", str(manifest)) for each in command] for command in commands.values()]
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **variables},
        input=json.dumps(given),
        capture_output=True,
        text=True,
    )
    stop_embedded(home)
    assert process.returncode == 0, process.stderr
    return {name: Done(**fields) for name, fields in zip(commands, json.loads(process.stdout), strict=True)}


@pytest.mark.parametrize("command", USABLE)
def test_every_other_metric_works_and_the_command_warns_once(outcomes: dict[str, Done], command: str) -> None:
    done = outcomes[command]
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())
    assert said.count(f"warning: metric broken is left out, since {WHY['broken']}: {REMEDY}") == 1
    assert said.count("warning: metric broken is left out") == 1
    assert said.count("warning: metric refused is left out") == 1
    assert said.count("warning: metric moody is left out") <= 1


def test_a_broken_metric_is_left_out_of_the_answers(outcomes: dict[str, Done]) -> None:
    answers = {name: json.loads(outcomes[name].stdout) for name in USABLE}
    assert "shared_words_pending" in answers["list"][0]
    assert {"refused_pending", "moody_pending", "broken_pending"}.isdisjoint(answers["list"][0])
    assert WHY.keys().isdisjoint(row["metric"] for row in answers["dry run"])
    assert answers["sql"][0]["n"] == 6


@pytest.mark.parametrize("metric", REFUSED)
def test_who_asks_for_a_metric_that_turns_out_to_be_broken_hears_why(outcomes: dict[str, Done], metric: str) -> None:
    assert outcomes[metric].returncode == 1
    sentence = f"metric {metric} cannot be used, since {WHY[metric]}: {REMEDY}"
    assert sentence in " ".join(outcomes[metric].stderr.split())


def test_doctor_names_every_broken_metric(outcomes: dict[str, Done]) -> None:
    lines = {line["what"]: line["detail"] for line in json.loads(outcomes["doctor"].stdout) if not line["ok"]}
    for metric, why in WHY.items():
        assert lines[f"metric {metric} of bad-metrics 1.5"].startswith(why)
    assert lines["metric broken of bad-metrics 1.5"] == f"{WHY['broken']}: {REMEDY}"
    assert outcomes["doctor"].returncode == 1
