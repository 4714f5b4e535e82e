"""From tiny clips to a frozen set whose promise a judge answers, as a user goes: score a draw, select, draw more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.assets.judging import answering, decide, judged_text
from tests.assets.manifests import candidate, reference, write_clip
from tests.assets.manifests import write_manifest as write_tables
from tests.command_line import run_command, run_successfully
from tests.metrics_core.chat_server import Answer, Loopback, Script, completion, loopback
from tests.orchestration.conftest import Installation, forget_installation

pytestmark = pytest.mark.slow

N_VIDEOS, SYSTEMS = 20, ("good", "plain", "wrong")
N = N_VIDEOS * len(SYSTEMS)
SELECT = ("--by", "words_in_common", "--shares", "0.5,1")
PROMISE = (*SELECT, "--errors-at-most", "0.3", "--by-judge", "--error-below", "0.8")


@pytest.fixture(scope="module")
def folder(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captions of three systems about twenty clips with a reference; those of `wrong` have a red cat in them."""
    folder = tmp_path_factory.mktemp("judged")
    for number in range(N_VIDEOS):
        write_clip(folder / "videos" / f"v{number}.avi", n_frames=3, brightness=40 + number)
    texts = {"good": "A dog runs on grass {}.", "plain": "A dog runs on grass.", "wrong": "One red cat sleeps, {}."}
    captions = [
        candidate(f"{system}{number}", f"v{number}", text.format(number), system=system)
        for number in range(N_VIDEOS)
        for system, text in texts.items()
    ]
    captions += [reference(f"r{n}", f"v{n}", f"A dog runs on grass {n}.") for n in range(N_VIDEOS)]
    videos = [{"video_id": f"v{number}", "path": f"videos/v{number}.avi"} for number in range(N_VIDEOS)]
    write_tables(folder, videos, captions=captions)
    return folder


@pytest.fixture
def dataset(folder: Path, request: pytest.FixtureRequest) -> str:
    """The name of a dataset of its own with these captions, and with a simple score."""
    name = "about_" + "_".join(request.node.name.split("_")[1:4])
    run_successfully("ingest", str(folder), "-d", name)
    run_successfully("score", "-d", name, "--metric", "words_in_common")
    return name


def at(script: Script, model: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    with loopback(script) as served:
        monkeypatch.setenv("REELSIEVE_JUDGE_MODEL", model)
        monkeypatch.setenv("REELSIEVE_JUDGE_URL", served.url)
        monkeypatch.setenv("REELSIEVE_JUDGE_FRAMES", "2")
        forget_installation()
        yield served
    forget_installation()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """A judge that gives 90 to good captions and 50 to wrong ones, and 5 more or less when it is asked again."""

    def wavering(n: int, body: dict[str, Any]) -> Answer:
        verdict = dict(decide(judged_text(body)))
        verdict["score"] += {0: 0, 100: -5, 200: 5}[body["seed"]]
        return completion(json.dumps(verdict), model=body["model"])

    yield from at(wavering, "careful", monkeypatch)


@pytest.fixture
def flatterer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """A judge that always answers 90."""
    yield from at(answering(lambda text: {"spans": [], "why": "Good.", "score": 90}), "flatterer", monkeypatch)


def draw(dataset: str, *options: str) -> str:
    """Have a draw judged; what is printed before."""
    return run_successfully("score", "-d", dataset, "--metric", "judge", "--draw", *options).stderr


def promise_and_export(dataset: str, path: Path) -> str:
    """Make the promise and export its selection; what is printed before."""
    printed = run_successfully("promise", dataset, *PROMISE).stdout
    run_successfully("export", printed.split("reelsieve export ")[1].split()[0], "--to", str(path))
    return printed


def select(dataset: str) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(run_command("promise", dataset, *PROMISE, "--json").stdout)
    return shown


def test_a_draw_is_judged_and_a_larger_one_confirms_the_promise(server: Loopback, dataset: str, tmp_path: Path) -> None:
    done = run_command("promise", dataset, *PROMISE)
    assert done.returncode == 1
    assert (
        f"{dataset} has no scores of judge: run reelsieve score --dataset {dataset} --metric judge first" in done.stderr
    )
    draw(dataset, "6")
    assert len(server.asked) == 6
    refused = run_command("promise", dataset, *PROMISE)
    assert refused.returncode == 1
    message = " ".join(refused.stderr.split())
    assert "nothing is selected: the strictest share, 0.5 with 30 samples, is not confirmed" in message
    assert "(a score of judge below 0.8)" in message
    assert f"reelsieve score --dataset {dataset} --metric judge --draw with a larger number asks the judge" in message
    before = select(dataset)
    assert before["sets"][-1]["answers"] == 6

    # More answers continue the same attempt; nobody is asked twice.
    draw(dataset, "40")
    assert len(server.asked) == 40
    path = tmp_path / "best.jsonl"
    chosen = " ".join(promise_and_export(dataset, path).split())
    assert "are errors, which is a score of judge below 0.8 by careful promise" in chosen
    after = select(dataset)
    assert (after["promise_id"], after["attempt"], after["n"]) == (before["promise_id"], 1, 30)
    first, every = after["sets"]
    assert (first["confirmed"], first["errors"], first["at_most"] <= 9) == (True, 0, True)
    # A third of all captions is wrong: no number of answers may confirm them.
    assert (every["confirmed"], every["answers"]) == (False, 40)
    assert every["errors"] > 0
    assert {json.loads(line)["system"] for line in path.read_text().splitlines()} <= {"good", "plain"}
    promise = json.loads(next(tmp_path.glob("best*passport*")).read_text())["selection"]["promise"]
    assert promise["answered_by"].startswith("judge ")
    assert (promise["models"], promise["error"]) == ("careful", "a score of judge below 0.8")
    assert (promise["n_asked"], promise["n_wrong"], promise["only_answer"]) == (first["answers"], 0, None)

    draw(dataset, str(N))
    assert len(server.asked) == N
    everything = select(dataset)
    assert (everything["n"], everything["attempt"]) == (30, 1)
    assert (everything["sets"][1]["errors"], everything["sets"][1]["at_most"]) == (N_VIDEOS, N_VIDEOS)


def test_repeated_answers_change_no_promise_and_show_in_compare(server: Loopback, dataset: str) -> None:
    draw(dataset, "30")
    before = select(dataset)
    draw(dataset, "30", "--repeat", "3")
    assert [body["temperature"] for body in server.asked][-60:] == [1.0] * 60
    assert select(dataset) == before
    compare = ("compare", "judge", "words_in_common", "-d", dataset)
    (steady,) = json.loads(run_successfully(*compare, "--json").stdout)["judges"]
    # Every text got 5 less and 5 more: the variance of two is 2 x .05^2.
    assert steady["variances"]["answer"] == pytest.approx(2 * 0.05**2)
    assert steady["mean_difference"] == pytest.approx(0.1)
    assert (steady["n_texts"], steady["n_answers"]) == (30, 60)
    assert steady["shares"]["system"] > 0.5
    shown = " ".join(run_successfully(*compare).stdout.split())
    assert "is the judge's own; two answers about one text differ by .100 on average." in shown
    assert "One answer lies .071 from the mean of many" in shown


def test_a_judge_that_always_answers_90_promises_what_it_measures_and_is_named(
    flatterer: Loopback, dataset: str, tmp_path: Path
) -> None:
    draw(dataset, "40")
    path = tmp_path / "all.jsonl"
    chosen = " ".join(promise_and_export(dataset, path).split())
    # True by this judge, whose blindness is shown with it.
    assert "of 60 are errors" in chosen
    assert "0 of 40 asked are errors, which is a score of judge below 0.8 by flatterer; all its scores" in chosen
    assert "are 0.9, so it may not notice errors" in chosen
    promise = json.loads(next(tmp_path.glob("all*passport*")).read_text())["selection"]["promise"]
    assert (promise["models"], promise["only_answer"]) == ("flatterer", 0.9)


def test_another_judge_answers_the_same_draw_and_has_attempts_of_its_own(
    server: Loopback, dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw(dataset, "40")
    first = select(dataset)
    monkeypatch.setenv("REELSIEVE_JUDGE_MODEL", "second")
    forget_installation()
    # Scores of the first are no answers of the second, and the forecast counts what was drawn for the first.
    assert "judge: 40 drawn samples without a score; 40 requests at most to second" in draw(dataset, "10")
    assert [body["model"] for body in server.asked].count("second") == 40
    again = select(dataset)
    # Attempts by the first judge count over all datasets of this module, which have the same captions.
    assert (again["attempt"], again["promise_id"] > first["promise_id"]) == (1, True)
