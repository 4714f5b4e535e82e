"""`reelsieve promise` and `rate --for-promise` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assets.datasets.lookup import require_dataset
from db.manifest.answers import Rater, find_next_question, store_answer
from orchestration.installation import get_installation
from tests.command_line import run_command, run_successfully
from tests.orchestration.conftest import Installation

PROMISE = ("promise", "clips", "--by", "n_characters", "--shares", "0.5,1")
TERMS = ("--errors-at-most", "0.1", "--error-below", "3")


@pytest.fixture(scope="module")
def clips(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A dataset of 60 captions of different lengths."""
    folder = tmp_path_factory.mktemp("manifest")
    videos = [{"video_id": f"v{number}"} for number in range(20)]
    captions = [
        {
            "caption_id": f"v{number}_{system}",
            "video_id": f"v{number}",
            "role": "candidate",
            "system": system,
            "text": "A dog runs" + " fast" * (number + len(system)),
        }
        for number in range(20)
        for system in ("a", "bb", "ccc")
    ]
    (folder / "videos.jsonl").write_text("".join(json.dumps(row) + "\n" for row in videos))
    (folder / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in captions))
    run_successfully("ingest", str(folder), "--dataset", "clips")


@pytest.mark.usefixtures("clips")
def test_from_a_refusal_to_a_passport(tmp_path: Path) -> None:
    options = ("--errors-at-most", "0.3", "--by-people", "overall", "--error-below", "3")
    refused = run_command(*PROMISE, *options)
    assert refused.returncode == 1
    assert "nothing is selected: the strictest share, 0.5 with 30 samples, is not confirmed" in refused.stderr
    assert "reelsieve rate clips --for-promise 1 serves them" in " ".join(refused.stderr.split())
    assert "Traceback" not in refused.stderr
    assert "promise 1; its sets, strictest first:" in refused.stdout
    shown = run_command(*PROMISE, *options, "--json")
    sets = json.loads(shown.stdout)["sets"]
    assert [(row["share"], row["samples"], row["answers"], row["allowed"]) for row in sets] == [
        (0.5, 30, 0, 9),
        (1.0, 60, 0, 18),
    ]
    installation = get_installation()
    dataset = require_dataset(installation.engine, "clips")
    with installation.engine.begin() as connection:
        ann = Rater(dataset, "ann", "overall", spans=True)  # nothing is repeated
        while question := find_next_question(connection, ann):
            assert store_answer(connection, ann, question, 5.0, {"seed": 0})
    path = tmp_path / "best.jsonl"
    chosen = run_successfully(*PROMISE, *options)
    number = chosen.stdout.split("reelsieve export ")[1].split()[0]
    run_successfully("export", number, "--to", str(path))
    assert "promised with confidence 0.95: at most 0 of 60 are errors" in " ".join(chosen.stdout.split())
    assert len(path.read_text().splitlines()) == 60
    passport = json.loads(next(tmp_path.glob("best*passport*")).read_text())
    assert passport["selection"]["promise"]["n_asked"] == 60
    assert passport["selection"]["promise"]["error"] == "a rating of overall below 3"
    shown_again = run_successfully("selections", "show", str(passport["selection"]["selection_id"])).stdout
    assert "# promised with confidence 0.95: at most 0 of 60 are errors (18 would be 0.3); 0 of 60 asked" in shown_again
    again = json.loads(run_successfully(*PROMISE, *options, "--json").stdout)
    assert (again["n"], again["attempt"], again["promise_id"]) == (60, 1, 1)


@pytest.mark.usefixtures("clips")
@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        ([*TERMS], 2, "a promise needs answers: give either --by-people ASPECT or --by-judge"),
        ([*TERMS, "--by-people", "fun", "--by-judge"], 2, "--by-people and --by-judge cannot be combined"),
        (["--errors-at-most", "0.1", "--by-people", "fun"], 2, "missing option '--error-below'"),
        ([*TERMS, "--errors-at-most", "5%", "--by-people", "fun"], 2, "'5%' is not a number: write 0.05"),
        ([*TERMS, "--errors-at-most", "5", "--by-people", "fun"], 1, "--errors-at-most is 5: give a share"),
        ([*TERMS, "--shares", "a", "--by-people", "fun"], 1, "--shares: 'a' is not a number"),
        ([*TERMS, "--error-below", "0.5", "--by-judge"], 1, "clips has no scores of judge"),
        (
            [*TERMS, "--by-people", "fun", "--keep", "0.5"],
            2,
            "no such option: --keep",
        ),
        (
            [*TERMS, "--by-people", "fun", "--recipe", "RECIPE"],
            1,
            "--recipe holds the whole recipe: leave --by",
        ),
    ],
)
def test_a_mistake_is_named_in_one_sentence(options: list[str], code: int, sentence: str) -> None:
    done = run_command(*PROMISE, *options)
    assert (done.returncode, sentence in " ".join(done.stderr.split())) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("clips")
def test_a_recipe_file_may_hold_what_is_no_option_but_no_size(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    command = ("promise", "clips", *TERMS, "--by-people", "kinds", "--recipe", str(recipe))
    recipe.write_text("by: n_characters\nper: system\n")
    done = run_command(*command)
    assert (done.returncode, "nothing is selected: the strictest share" in done.stderr) == (1, True), done.stderr
    recipe.write_text("by: n_characters\nkeep: 0.5\n")
    said = run_command(*command).stderr
    assert said == "error: a promise sets the size of a selection: leave keep, count and quotas out\n"


@pytest.mark.usefixtures("clips")
@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["--for-promise", "99"], 1, "clips has no promise 99"),
        (["--for-promise", "1", "--aspect", "overall"], 2, "--for-promise has its own aspect and order"),
    ],
)
def test_rate_names_a_promise_that_is_not_there(options: list[str], code: int, sentence: str) -> None:
    done = run_command("rate", "clips", *options)
    assert (done.returncode, sentence in " ".join(done.stderr.split())) == (code, True), done.stderr


@pytest.mark.usefixtures("clips")
def test_near_duplicates_are_no_members_of_the_sets() -> None:
    options = ("--dedupe", "1", "--errors-at-most", "0.3", "--by-people", "other", "--error-below", "3", "--json")
    done = run_command("promise", "clips", "--by", "n_characters", *options)
    assert done.returncode == 1
    texts = {"A dog runs" + " fast" * (number + length) for number in range(20) for length in (1, 2, 3)}
    assert json.loads(done.stdout)["sets"][-1]["samples"] == len(texts) < 60
