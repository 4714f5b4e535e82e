"""`reelsieve compare` as a user meets it: two settings of one metric, two metrics, and what cannot be compared."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from db.schema import rating
from metrics_core.agreement import Estimate
from orchestration.cli.compare import format_short_estimate
from orchestration.installation import get_installation
from tests.command_line import run_command, run_successfully
from tests.orchestration.conftest import Installation

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scored(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A rated dataset `clips`, scored by VCS at two tolerances, and by VCS_short; and a dataset without scores."""
    rows = []
    captions = [json.loads(line) for line in (installation.manifest / "captions.jsonl").read_text().splitlines()]
    for place, caption in enumerate(row for row in captions if row["role"] == "candidate"):
        for rater in ("ann", "bob"):
            value = 1 + (place * 7 + len(rater) * place) % 5
            rows.append({"caption_id": caption["caption_id"], "rater": rater, "aspect": "overall", "value": value})
    (installation.manifest / "ratings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run_successfully("ingest", str(installation.manifest), "--dataset", "clips")
    run_successfully("score", "--dataset", "clips", "--metric", "vcs", "--metric", "vcs_short")
    run_successfully("score", "--dataset", "clips", "--metric", "vcs", REELSIEVE_VCS_LCT="2")
    run_successfully("ingest", str(unscored(tmp_path_factory.mktemp("unscored"))), "--dataset", "unscored")


def unscored(folder: Path) -> Path:
    (folder / "videos.jsonl").write_text('{"video_id": "v"}\n')
    caption = {"caption_id": "c", "video_id": "v", "role": "candidate", "system": "s", "text": "A dog runs."}
    (folder / "captions.jsonl").write_text(json.dumps(caption) + "\n")
    return folder


def compare(*arguments: str) -> dict[str, Any]:
    found = json.loads(run_successfully("compare", *arguments, "--dataset", "clips", "--json").stdout)
    assert isinstance(found, dict)
    return found


def names() -> tuple[str, str]:
    """The retired and the active scorer of VCS."""
    query = "SELECT metric || '@' || scorer_id AS name FROM scorer WHERE metric = 'vcs' ORDER BY status = 'active'"
    rows = json.loads(run_successfully("sql", query, "--json").stdout)
    retired, active = (row["name"] for row in rows)
    return retired, active


@pytest.mark.usefixtures("scored")
def test_two_settings_of_one_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    retired, active = names()
    found = compare(retired, "vcs")
    assert (found["a"]["name"], found["b"]["name"], found["dataset"]) == (retired, active, "clips")
    assert [(each["name"], each["a"], each["b"]) for each in found["differences"]] == [("lct", 0.0, 2.0)]
    assert found["n"] + found["n_left_out"] == 36
    assert {each["aspect"] for each in found["people"]} == {"overall", "coverage (labels)"}
    assert found["mean_difference"]["low"] <= found["mean_difference"]["value"] <= found["mean_difference"]["high"]
    shown = run_successfully("compare", retired, "vcs", "--dataset", "clips").stdout
    # Two spaces between the columns of a table; a sentence is one line where nobody reads at a terminal.
    assert max(len(line) for line in shown.splitlines() if "  " in line.strip()) <= 80
    for wanted in ("lct", "Kendall's tau-b", "mean of B - A", "overall", "2 raters", f"{found['n']} samples"):
        assert wanted in shown
    assert " ".join(shown.split()).startswith(" ".join(found["sentences"]))


@pytest.mark.usefixtures("scored")
def test_two_metrics_and_a_limit() -> None:
    found = compare("vcs_short", "vcs", "--limit", "1")
    assert found["mean_difference"] is None
    assert [len(found[side]) for side in ("up", "down")] == [1, 1]
    assert found["up"][0]["move"] > 0 > found["down"][0]["move"]
    assert found["b"]["without"] == {"too_short": 12}
    shown = run_successfully("compare", "vcs_short", "vcs", "--dataset", "clips").stdout
    assert "B has no value for 12 samples (12 too_short)" in shown


@pytest.mark.usefixtures("scored")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("vcs", "vcs", "-d", "clips"), 1, "are the same scorer"),
        (("vcs", "bleu", "-d", "clips"), 1, "there is no scorer 'bleu': name one of"),
        (("vcs", "evqa", "-d", "clips"), 1, "there is no scorer 'evqa'"),
        (("vcs", "vcs_short", "-d", "unscored"), 1, "has no score on unscored, only on clips"),
        (("vcs", "vcs_short", "-d", "gone"), 1, "there is no dataset 'gone'"),
        (("vcs", "vcs_short", "-d", "clips", "--limit", "0"), 2, "limit"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(arguments: tuple[str, ...], code: int, said: str) -> None:
    done = run_command("compare", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("estimate", "shown"),
    [
        ((None, None, None), "–"),
        ((0.4123, None, None), ".412"),
        ((-0.094, -0.112, -0.0761), "-.094 [-.112, -.076]"),
        ((1.0, 0.99, 1.0), "1.000 [.990, 1.000]"),
        ((10.04, 0.0, 20.5), "10.0 [.000, 20.5]"),
    ],
)
def test_intervals_are_short(estimate: tuple[float | None, float | None, float | None], shown: str) -> None:
    assert format_short_estimate(Estimate(*estimate)) == shown


@pytest.mark.usefixtures("scored")
def test_means_from_a_part_fit_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert compare("vcs", "vcs_short")["estimated_means"] == []
    with get_installation().engine.begin() as connection:
        ratings = (
            "INSERT INTO rating (sample_id, rater, aspect, value, row_sha256, text_sha256) "
            "SELECT sample_id, 'eve', 'fun', 1 + sample_id % 5, '', text_sha256 FROM sample s "
            "JOIN dataset d USING (dataset_id) WHERE d.name = 'clips' ORDER BY draw_number(s.kind, s.key, 0) LIMIT 30"
        )
        connection.execute(sa.text(ratings))
    (mean, *_) = compare("vcs", "vcs_short")["estimated_means"]
    assert (mean["expensive_score"], mean["group_kind"], mean["n"], mean["size"]) == ("fun", "dataset", 30, 36)
    text = run_successfully("compare", "vcs", "vcs_short", "--dataset", "clips").stdout
    part = text.partition("estimated means over all captions")[2]
    row = r"^fun of 5 +all +vcs_short@\d+ +\S+ \[\S+, \S+\] +30 of 36 +\d\.\d\d +\d+$"
    assert re.search(row, part, flags=re.MULTILINE)
    assert "further answers for an interval of ± 0.2. Intervals are of these captions" in " ".join(part.split())
    assert max(len(line) for line in part.splitlines() if "  " in line.strip()) <= 80
    with get_installation().engine.begin() as connection:
        connection.execute(sa.delete(rating).where(rating.c.rater == "eve"))
