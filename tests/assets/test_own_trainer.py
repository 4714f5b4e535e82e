"""Own trainers of trials: what a run's folder holds, what a command may print, and how it may fail."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from assets.trial.arms import TrialRun
from assets.trial.own_trainer import OwnTrainer, _parse_result, _read_result
from assets.trial.parts import TrialParts, split_captions
from db.selection.recipes import SelectionError
from db.selection.trial_rows import TrialCaptions, TrialVideo

N = 300
KEYS = ["v1", "v2"]


@pytest.fixture(scope="module")
def parts() -> TrialParts:
    captions = TrialCaptions(
        np.arange(N), np.arange(N), [f"c{i}" for i in range(N)], [f"text {i}" for i in range(N)], ["all"] * N, {}
    )
    videos = [TrialVideo(i, f"v{i}", [f"reference {i}"], None, None, f"/clips/{i}.mp4") for i in range(N)]
    return split_captions("clips", captions, videos, [], 1)


@pytest.fixture
def run(parts: TrialParts) -> TrialRun:
    """A run of three rows, the last of which has the text of the one before."""
    first, second, third = parts.training[:3].tolist()
    texts, videos = np.array([first, second, second]), np.array([first, second, third])
    return TrialRun("words in common", 2, texts, videos, "r", "s")


def make_trainer(parts: TrialParts, folder: Path, script: str) -> OwnTrainer:
    """A trainer whose command is a Python script of this text."""
    folder.mkdir(exist_ok=True)
    (folder / "train me.py").write_text(script)
    return OwnTrainer(parts, f"{sys.executable} '{folder / 'train me.py'}' --epochs 2", folder, 60)


SCRIPT = """
import json, sys
from pathlib import Path
import pyarrow.parquet as pq
folder = Path(sys.argv[-1])
assert sys.argv[1:3] == ["--epochs", "2"]
test = pq.read_table(folder / "test.parquet")
trial = json.loads((folder / "trial.json").read_text())
print("loss 0.1")
print("read", len(test), file=sys.stderr)
print(json.dumps({"mrr": {key: trial["seed"] / 4 for key in test["video"].to_pylist()}, "loss": 3}))
print()
"""


def test_a_command_reads_the_rows_of_a_run_and_its_result_is_kept(
    parts: TrialParts, run: TrialRun, tmp_path: Path
) -> None:
    trainer = make_trainer(parts, tmp_path, SCRIPT)
    found = trainer.train(run)
    assert (found.status, found.measure, found.measures) == ("ok", "mrr", {"mrr": 0.5, "loss": 3.0})
    assert found.test_values == (0.5,) * len(parts.test_videos)
    folder = tmp_path / "words-in-common" / "seed-2"
    first, second, third = (parts.captions.keys[place] for place in parts.training[:3].tolist())
    assert pq.read_table(folder / "rows.parquet").to_pydict() == {
        "sample": [first, second, second],
        "video": [f"v{key[1:]}" for key in (first, second, third)],
        "text": [f"text {key[1:]}" for key in (first, second, second)],
        "media": [f"/clips/{key[1:]}.mp4" for key in (first, second, third)],
    }
    test = pq.read_table(folder / "test.parquet").to_pylist()
    assert [row["video"] for row in test] == [video.key for video in parts.test_videos]
    assert test[0]["text"] == parts.test_videos[0].references[0]
    trial = json.loads((folder / "trial.json").read_text())
    assert trial == {
        "run": "r",
        "arm": "words in common",
        "seed": 2,
        "budget": {"rows": 3, "max_steps": 4096, "batch": 128},
    }
    assert (folder / "log.txt").read_text() == f"read {len(test)}\n"
    # The result lies there now: the command is not called again, and results that are handed in are the same.
    (tmp_path / "train me.py").write_text("raise SystemExit(9)")
    again, handed_in = trainer.train(run), OwnTrainer(parts, "", tmp_path, 60).train(run)
    assert again[:5] == handed_in[:5] == found[:5]


def test_a_folder_of_another_run_is_refused(parts: TrialParts, run: TrialRun, tmp_path: Path) -> None:
    trainer = OwnTrainer(parts, "", tmp_path, 60)
    missing = trainer.train(run)
    assert (missing.status, "seed-2/result.json is missing" in str(missing.reason)) == ("missing", True)
    other = replace(run, rows_sha256="other")
    with pytest.raises(SelectionError, match="seed-2 holds another run, of other rows or held-out videos"):
        trainer.train(other)


@pytest.mark.parametrize(
    ("script", "status", "reason"),
    [
        ("raise SystemExit(3)", "failed", r"exit code 3: look at .*log\.txt"),
        ("print('done')", "bad_output", "no JSON object of measures was printed, but done"),
        ("", "bad_output", "no JSON object of measures was printed, but nothing"),
        ("print('{\"mrr\": NaN}')", "bad_output", r"measure 'mrr' is nan: print finite numbers up to 1e\+50"),
        ('print(\'{"mrr": {"v0": 1}}\')', "bad_output", r"measure 'mrr' lacks \d+ of \d+ test videos, such as 'v"),
        ("print('{\"mrr\": true}')", "bad_output", "measure 'mrr' is true: print a number, or one by test video"),
    ],
)
def test_a_command_that_fails_has_a_status_and_leaves_no_result(
    parts: TrialParts, run: TrialRun, tmp_path: Path, script: str, status: str, reason: str
) -> None:
    found = make_trainer(parts, tmp_path, script).train(run)
    assert (found.status, found.test_values) == (status, ())
    assert found.reason is not None
    assert re.search(reason, found.reason)
    assert _read_result(tmp_path / "words-in-common" / "seed-2", KEYS).status == "missing"


def test_a_command_that_hangs_is_ended_with_what_it_started(parts: TrialParts, run: TrialRun, tmp_path: Path) -> None:
    # A shell starts its child long before the limit, as Python might not.
    (tmp_path / "train.sh").write_text(f"sleep 600 & echo $! > '{tmp_path / 'child'}'; wait")
    found = OwnTrainer(parts, f"sh '{tmp_path / 'train.sh'}'", tmp_path, 2).train(run)
    assert (found.status, "did not end within 2 s" in str(found.reason)) == ("timed_out", True)
    child = int((tmp_path / "child").read_text())
    assert not Path(f"/proc/{child}").exists() or "zombie" in Path(f"/proc/{child}/status").read_text()


@pytest.mark.parametrize("name", ["trial.json", "result.json", "output.txt", "log.txt"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_no_file_in_a_folder_of_a_run(
    parts: TrialParts, run: TrialRun, tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    folder = tmp_path / "words-in-common" / "seed-2"
    folder.mkdir(parents=True)
    make(folder / name)
    if make is os.mkfifo and name in ("output.txt", "log.txt"):
        assert make_trainer(parts, tmp_path, SCRIPT).train(run).status == "ok"
        return
    with pytest.raises(SelectionError, match=rf"{name} (cannot be|is a folder)"):
        make_trainer(parts, tmp_path, SCRIPT).train(run)


def test_a_command_that_does_not_exist_is_one_sentence(
    parts: TrialParts, run: TrialRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A folder of this name gives the error of a folder in the PATH that cannot be read.
    (tmp_path / "path" / "no_such_trainer").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    with pytest.raises(SelectionError, match="no_such_trainer cannot be called: there is no such program"):
        OwnTrainer(parts, "no_such_trainer --fast", tmp_path, 60).train(run)
    (tmp_path / "program").touch(0o600)
    with pytest.raises(SelectionError, match="program cannot be called: Permission denied"):
        OwnTrainer(parts, str(tmp_path / "program"), tmp_path, 60).train(run)
    with pytest.raises(
        SelectionError,
        match="the trainer's command cannot be split, no closing quotation, so quote its words: python 'a",
    ):
        OwnTrainer(parts, "python 'a", tmp_path, 60)


@pytest.mark.parametrize(
    "printed",
    [
        pytest.param("[" * 100_000, id="deep"),
        pytest.param('{"a": 1' + "0" * 400 + "}", id="long"),
        pytest.param('{"a": {"v1": 1e308, "v2": 1e308}}', id="great"),
        pytest.param('{"\\u0000": 1}', id="nul"),
        pytest.param('{"\\ud800": 1}', id="surrogate"),
        pytest.param("a\x00b", id="no text"),
        pytest.param(json.dumps({"m" * 2_000_000: 1}), id="long name"),
    ],
)
def test_strange_output_is_a_status_that_can_be_stored(printed: str) -> None:
    found = _parse_result(printed, KEYS)
    assert found.status == "bad_output"
    assert str(found.reason).isprintable()
    assert len(str(found.reason)) < 200


def test_runs_of_several_trials_share_the_default_folder(parts: TrialParts, run: TrialRun, tmp_path: Path) -> None:
    shared = OwnTrainer(parts, "", tmp_path, 60, is_shared=True)
    assert shared.train(run).status == "missing"
    other = replace(run, rows_sha256="other")
    assert shared.train(other).status == "missing"
    assert len(list(tmp_path.rglob("trial.json"))) == 2
    with pytest.raises(SelectionError, match="the trainer's command is empty"):
        OwnTrainer(parts, "  ", tmp_path, 60)


@pytest.mark.parametrize(
    "printed", ["[1]", "{}", '{"a": []}', '{"a": {}}', '{"a": 1e999}', '{"a": 1e51}', '{"a": {"v1": 1, "v2": "x"}}']
)
def test_what_holds_no_numbers_is_no_result(printed: str) -> None:
    assert _parse_result(printed, KEYS).status == "bad_output"


def test_numbers_of_other_videos_are_left_out() -> None:
    assert _parse_result('{"a": {"v2": 2, "v1": 1, "v3": 9}}', KEYS).test_values == (1.0, 2.0)
