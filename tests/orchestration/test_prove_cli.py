"""`reelsieve prove` on a dataset whose captions are half true and half of another video, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from metrics_core.trial.student import StudentSettings
from orchestration.installation import get_installation
from orchestration.runs import run_job
from tests.assets.manifests import write_lines
from tests.command_line import run_command, run_successfully
from tests.orchestration.conftest import Installation

pytestmark = pytest.mark.slow

N_VIDEOS = 300
CURVE = ("--curve", "0.2", "--curve", "0.5")
WHO = ("man", "woman", "boy", "girl", "dog", "cat", "horse", "chef", "singer", "diver", "pilot", "farmer")
DOES = ("paints", "carries", "washes", "breaks", "finds", "sells", "hides", "throws", "cuts", "builds")
WHAT = ("a red ball", "a small boat", "two apples", "an old lamp", "a guitar", "some flowers", "a wooden door")


def describe(video: int, opening: str = "A") -> str:
    """A sentence that belongs to one video."""
    who, does, what = WHO[video % 12], DOES[video % 10], WHAT[video % 7]
    return f"{opening} {who} {does} {what} near place {video % 83} of town {video % 61}."


@pytest.fixture(scope="module", autouse=True)
def _brief_training() -> Iterator[None]:
    """Students end after 128 steps, when all are about as good as they get; those of one arm would take a minute."""
    with pytest.MonkeyPatch.context() as patched:
        brief = partial(StudentSettings, max_steps=128)
        patched.setattr("assets.trial.student_trainer.StudentSettings", brief)
        yield


@pytest.fixture(scope="module")
def proved(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Dataset `clips` of 300 videos with two references and four captions each, two of them of another video."""
    folder = tmp_path_factory.mktemp("noisy")
    captions = []
    for video in range(N_VIDEOS):
        key = f"video_{video}"
        for number, opening in enumerate(("A", "There, a")):
            text = describe(video, opening)
            captions.append(build_caption(f"{key}_r{number}", key, "reference", text))
        for number in range(4):
            of = video if number < 2 else (video + 17 * number) % N_VIDEOS
            text = describe(of, ("One", "This", "One", "This")[number])
            captions.append(build_caption(f"{key}_c{number}", key, "candidate", text) | {"system": f"s{number}"})
    write_lines(folder / "videos.jsonl", [{"video_id": f"video_{video}"} for video in range(N_VIDEOS)])
    write_lines(folder / "captions.jsonl", captions)
    run_successfully("ingest", str(folder), "--dataset", "clips")
    run_successfully("score", "--dataset", "clips", "--metric", "words_in_common")
    run_successfully("select", "--dataset", "clips", "--by", "words_in_common", "--keep", "0.4")
    run_successfully("select", "--dataset", "clips", "--by", "words_in_common", "--count", "20")


def build_caption(key: str, video: str, role: str, text: str) -> dict[str, Any]:
    return {"caption_id": key, "video_id": video, "role": role, "text": text}


@pytest.mark.usefixtures("proved")
def test_a_selection_without_noise_trains_better_than_random_and_all() -> None:
    found = json.loads(run_successfully("prove", "1", *CURVE, "--json").stdout)
    arms = {arm["arm"]: arm for arm in found["arms"]}
    assert (found["dataset"], found["video_side"], found["n_seeds"]) == ("clips", "references", 5)
    assert sum(found[f"n_{part}_videos"] for part in ("train", "validation", "test")) == N_VIDEOS
    assert 40 < found["n_test_videos"] < 80
    shares = ["share 0.2", "share 0.5", "share 1"]
    simple = ["length", "words in common"]
    assert list(arms) == ["selection 1", "random", "all", *simple, *shares, "planted noise", "copy"]
    assert arms["selection 1"]["n"] == arms["random"]["n"] == arms["planted noise"]["n"]
    for name in ("random", "all"):
        assert arms[name]["conclusion"] == "better", name
        assert arms[name]["low"] > 0
    assert arms["copy"]["conclusion"] not in ("better", "worse")
    assert arms["planted noise"]["difference"] > 0
    assert found["sentences"][0].startswith("Selection 1 trains better than random (")
    assert any(sentence.startswith("Differences below ") for sentence in found["sentences"])
    assert any("your model may differ" in sentence for sentence in found["sentences"])
    best = max(shares, key=lambda name: arms[name]["value"])
    assert {arms[name]["compared_with"] for name in shares if name != best} == {best}
    assert (arms[best]["difference"], best) == (None, "share 0.5")
    assert arms["share 1"]["conclusion"] == "better"
    # All captions have a value: the same rows, which are trained once.
    assert arms["share 1"]["rows_sha256"] == arms["all"]["rows_sha256"]
    assert any(sentence.startswith("Of the shares tried, 0.5 trained best, at ") for sentence in found["sentences"])


@pytest.mark.usefixtures("proved")
def test_arms_that_would_still_improve_are_not_called_different(monkeypatch: pytest.MonkeyPatch) -> None:
    few = partial(StudentSettings, max_steps=8)
    monkeypatch.setattr("assets.trial.student_trainer.StudentSettings", few)
    found = json.loads(run_successfully("prove", "1", "--json").stdout)
    arms = {arm["arm"]: arm for arm in found["arms"]}
    assert (arms["selection 1"]["steps"], list(arms["all"]["curve"])) == (8, ["8"])
    assert min(arm["p"] for arm in found["arms"][1:]) < 0.05
    assert {arm["conclusion"] for arm in found["arms"][1:]} == {"open"}
    shown = run_successfully("prove", "1").stdout
    assert "Mean reciprocal rank of the validation videos by step" in shown
    assert "8 steps" in shown


@pytest.mark.usefixtures("proved")
def test_a_trial_again_trains_only_what_is_new() -> None:
    def load() -> tuple[list[Any], list[Any]]:
        with get_installation().engine.connect() as connection:
            runs = connection.exec_driver_sql("SELECT run_sha256, trained_at FROM trial_run ORDER BY 1").all()
            trials = connection.exec_driver_sql(
                "SELECT trial_id, result->'n_seeds' FROM selection_trial ORDER BY 1"
            ).all()
        return list(runs), list(trials)

    first = run_successfully("prove", "1", "--json").stdout
    runs, trials = load()
    assert run_successfully("prove", "1", "--json").stdout == first
    assert load() == (runs, trials)
    json.loads(run_successfully("prove", "1", "--seeds", "6", "--json").stdout)
    more, further = load()
    assert set(runs) < set(more)
    assert further == [*trials, (further[-1][0], 6)]


@pytest.mark.usefixtures("proved")
def test_the_asset_tries_a_selection_with_what_is_stored() -> None:
    config = {"ops": {"selection_trial": {"config": {"selection": 1, "curve": [0.5]}}}}
    (found,) = run_job(get_installation(), "trial_job", "clips", config).asset_materializations_for_node(
        "selection_trial"
    )
    assert found.metadata["selection"].value == 1
    assert "Selection 1 trains better than random" in str(found.metadata["conclusions"].value)


TRAINER = """
import json, sys
from pathlib import Path
folder = Path(sys.argv[1])
trial = json.loads((folder / "trial.json").read_text())
if (Path(__file__).parent / "broken").exists() and folder.parent.name == "length":
    raise SystemExit(3)
calls = Path(__file__).parent / "calls"
with calls.open("a") as file:
    file.write(f"{folder}\\n")
if (Path(__file__).parent / "killed").exists() and len(calls.read_text().splitlines()) == 3:
    import os, signal
    os.kill(os.getppid(), signal.SIGKILL)
print(json.dumps({"accuracy": trial["budget"]["rows"] + trial["seed"] / 100}))
"""


@pytest.mark.usefixtures("proved")
def test_an_own_trainer_is_killed_resumed_and_handed_in_with_the_same_verdict(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINER)
    command = ("--trainer", f"{sys.executable} {script}", "--results", str(tmp_path / "runs"))
    (tmp_path / "killed").touch()
    # In a process of its own, which the trainer kills at the third run.
    program = [sys.executable, "-c", "from orchestration.cli import main; main()", "prove", "1", *command]
    assert subprocess.run(program, check=False).returncode == -9
    (tmp_path / "killed").unlink()
    (tmp_path / "broken").touch()
    broken = json.loads(run_successfully("prove", "1", *command, "--json").stdout)
    assert {arm["arm"] for arm in broken["arms"] if arm["status"] != "ok"} == {"length"}
    assert any("exit code 3: look at " in sentence for sentence in broken["sentences"])
    (tmp_path / "broken").unlink()
    whole = json.loads(run_successfully("prove", "1", *command, "--json").stdout)
    assert {arm["status"] for arm in whole["arms"]} == {"ok"}
    # Only the third run, which was killed, was called to its end again; a broken run ends before it counts.
    calls = (tmp_path / "calls").read_text().splitlines()
    again = [call for call in dict.fromkeys(calls) if calls.count(call) > 1]
    assert again == [calls[2]]
    assert (whole["measure"], whole["video_side"], whole["chance"]) == ("accuracy", "media", None)
    by_hand = json.loads(run_successfully("prove", "1", "--results", str(tmp_path / "runs"), "--json").stdout)
    assert by_hand["trainer"] == "results in runs"
    for mine, theirs in zip(whole["arms"], by_hand["arms"], strict=True):
        assert (mine["value"], mine["difference"]) == (theirs["value"], theirs["difference"])
    empty = run_command("prove", "1", "--results", str(tmp_path / "empty"))
    assert (empty.returncode, "result.json is missing" in empty.stdout) == (1, True)
    assert len(list((tmp_path / "empty").rglob("trial.json"))) == 5 * len(whole["arms"])


@pytest.mark.usefixtures("proved")
def test_two_machines_share_the_runs_of_a_trial(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    (tmp_path / "train.py").write_text(TRAINER)
    command = ("prove", "1", "--trainer", f"{sys.executable} {tmp_path / 'train.py'}")
    program = [sys.executable, "-c", "from orchestration.cli import main; main()", *command]
    with subprocess.Popen([*program, "--results", str(tmp_path / "there"), "--json"], stdout=subprocess.PIPE) as other:
        here = run_successfully(*command, "--results", str(tmp_path / "here"), "--json").stdout
        there, _ = other.communicate()
    assert json.loads(here)["arms"] == json.loads(there)["arms"]
    done = [call.split("/")[-2:] for call in calls.read_text().splitlines()]
    arms = len(json.loads(here)["arms"])
    assert len(done) == len(set(map(tuple, done))) == 5 * arms


@pytest.mark.usefixtures("proved")
def test_further_selections_are_arms_and_the_selection_itself_is_none() -> None:
    found = json.loads(run_successfully("prove", "1", "--beside", "2", "--beside", "1", "--json").stdout)
    names = [arm["arm"] for arm in found["arms"]]
    assert (names.count("selection 1"), names.count("selection 2")) == (1, 1)
    few = next(arm for arm in found["arms"] if arm["arm"] == "selection 2")
    assert few["status"] == "too_few_rows"


@pytest.mark.usefixtures("proved")
def test_what_cannot_be_tried_is_one_sentence() -> None:
    few = json.loads(run_command("prove", "2", "--json").stdout)
    assert few["sentences"][0].startswith("Nothing is compared, because selection 2 has no value: ")
    assert few["arms"][0]["status"] == "too_few_rows"
    unknown = run_command("prove", "99")
    assert (unknown.returncode, "there is no selection 99" in unknown.stderr) == (1, True)


@pytest.mark.usefixtures("proved")
def test_a_dataset_with_few_videos_or_dropped_is_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "videos.jsonl", [{"video_id": f"v{i}"} for i in range(40)])
    rows = [build_caption(f"r{i}_{n}", f"v{i}", "reference", f"Text {i} and {n}.") for i in range(40) for n in range(2)]
    rows += [build_caption(f"c{i}", f"v{i}", "candidate", f"Text {i}.") | {"system": "s"} for i in range(40)]
    write_lines(tmp_path / "captions.jsonl", rows)
    run_successfully("ingest", str(tmp_path), "--dataset", "small")
    run_successfully("score", "--dataset", "small", "--metric", "words_in_common")
    shown = run_successfully("select", "--dataset", "small", "--by", "words_in_common", "--keep", "0.5")
    number = shown.stdout.split()[1].rstrip(":")
    (found,) = run_job(get_installation(), "trial_job", "small", {}).asset_materializations_for_node("selection_trial")
    assert "a trial needs 50" in str(found.metadata["why none"].value)
    refused = run_command("prove", number)
    assert refused.returncode == 1
    assert "a trial needs 50" in refused.stderr
    other = run_command("prove", "1", "--beside", number)
    assert "is of dataset small, not of clips" in other.stderr
    run_successfully("dataset", "drop", "small", "--yes")
    assert "its dataset small was dropped" in run_command("prove", number).stderr
