"""`reelsieve stress` as a user meets it: the answer first, JSON, what is stored, and what cannot be stressed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from assets.datasets.leases import format_dataset_lease_name
from db.manifest.datasets import find_dataset
from db.manifest.removal import delete_dataset
from db.schema import stress_result
from db.server.leases import Leases
from metrics_core.stress.rewrites import REWRITE_KINDS
from orchestration.installation import get_installation
from tests.command_line import run_command, run_successfully
from tests.orchestration.conftest import Installation

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scored(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A dataset `clips` scored by two metrics, one without scores, and one whose only sample is a question."""
    run_successfully("ingest", str(installation.manifest), "--dataset", "clips")
    run_successfully("score", "--dataset", "clips", "--metric", "vcs_short", "--metric", "words_in_common")
    unscored, questions = tmp_path_factory.mktemp("unscored"), tmp_path_factory.mktemp("questions")
    for folder in (unscored, questions):
        (folder / "videos.jsonl").write_text('{"video_id": "v"}\n')
    caption = {"caption_id": "c", "video_id": "v", "role": "candidate", "system": "s", "text": "A dog runs."}
    pair = {"qa_id": "q", "video_id": "v", "question": "Who runs?", "answer": "A dog.", "system": "s"}
    (unscored / "captions.jsonl").write_text(json.dumps(caption) + "\n")
    (questions / "captions.jsonl").write_text(json.dumps({**caption, "role": "reference"}) + "\n")
    (questions / "qa.jsonl").write_text(json.dumps(pair) + "\n")
    run_successfully("ingest", str(unscored), "--dataset", "unscored")
    run_successfully("ingest", str(questions), "--dataset", "questions")


@pytest.mark.usefixtures("scored")
def test_the_answer_comes_first_and_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = run_successfully("stress", "vcs_short", "--dataset", "clips", "--draw", "12", "--show", "1")
    lines = done.stdout.splitlines()
    assert lines[0] == "vcs_short shows no hole, but all kinds of rewrites are open: 12 captions of 8 videos"
    table = lines.index("") + 1
    assert max(len(line) for line in lines[table : table + 20]) <= 80
    assert [line.split()[0] for line in lines[table + 1 : table + 20]] == [kind.name for kind in REWRITE_KINDS]
    assert "seed 0" in done.stdout
    assert any(line.startswith("hidden_instruction") for line in lines)
    assert "texts of 12 captions" in done.stderr


@pytest.mark.usefixtures("scored")
def test_json_holds_all_numbers() -> None:
    arguments = ("stress", "words_in_common", "--dataset", "clips", "--json", "--show", "2", "--seed", "5")
    found = json.loads(run_successfully(*arguments).stdout)
    assert (found["metric"], found["dataset"], found["seed"], found["n_captions"]) == (
        "words_in_common",
        "clips",
        5,
        36,
    )
    assert [effect["rewrite"] for effect in found["effects"]] == [kind.name for kind in REWRITE_KINDS]
    effects = {effect["rewrite"]: effect for effect in found["effects"]}
    assert effects["reference_words"]["change"] > effects["reference_words"]["low"] > 0
    assert effects["swapped_names"]["n_not_applicable"] == 36
    assert len({shown["sample"] for shown in found["shown"]}) == 2
    assert found == json.loads(run_successfully(*arguments).stdout)


@pytest.mark.usefixtures("scored")
def test_the_newest_outcome_is_stored_and_reported(tmp_path: Path) -> None:
    query = (
        "SELECT result->'seed' AS seed, result->'n_drawn' AS n_drawn, jsonb_array_length(result->'effects') AS n_kinds "
        "FROM stress_result JOIN scorer USING (scorer_id) JOIN dataset USING (dataset_id) "
        "WHERE dataset.name = 'clips' AND metric = 'vcs_short'"
    )
    for seed, n_drawn in ((3, 14), (4, 12)):
        run_successfully("stress", "vcs_short", "-d", "clips", "--draw", str(n_drawn), "--seed", str(seed))
        rows = json.loads(run_successfully("sql", query, "--json").stdout)
        assert rows == [{"seed": seed, "n_drawn": n_drawn, "n_kinds": len(REWRITE_KINDS)}]
    run_successfully("report", "--dataset", "clips", "--to", str(tmp_path))
    (stressed,) = json.loads((tmp_path / "report.json").read_text())["stresses"]
    assert (stressed["metric"], stressed["holes"], stressed["stress"]["seed"]) == ("vcs_short", [], 4)
    assert stressed["summary"].startswith("VCS_short shows no hole, but all kinds of rewrites are open: 12 captions")


@contextmanager
def at_the_store(act: Callable[[], None]) -> Iterator[list[str]]:
    """Do something right before an outcome is stored; yields the first statement of the store, once it was met."""
    met: list[str] = []
    engine = get_installation().engine

    def meet(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "INSERT INTO stress_result" in statement and not met:
            met.append(statement)
            act()

    sa.event.listen(engine, "before_cursor_execute", meet)
    try:
        yield met
    finally:
        sa.event.remove(engine, "before_cursor_execute", meet)


@pytest.mark.usefixtures("scored")
def test_the_dataset_is_held_until_the_outcome_is_stored() -> None:
    free: list[bool] = []

    def try_to_take() -> None:
        with Leases(get_installation().engine.url) as other:
            free.append(other.take_if_free(format_dataset_lease_name("clips")))

    with at_the_store(try_to_take):
        run_successfully("stress", "words_in_common", "-d", "clips", "--draw", "2")
    try_to_take()
    assert free == [False, True]


@pytest.mark.usefixtures("scored")
def test_of_a_dataset_that_somebody_drops_nothing_is_stored(installation: Installation) -> None:
    """By SQL, which asks for no lease."""
    engine = get_installation().engine

    def drop() -> None:
        with engine.begin() as connection:
            found = find_dataset(connection, "doomed")
            assert found is not None
            delete_dataset(connection, found)

    def count() -> int:
        with engine.connect() as connection:
            return connection.scalar(sa.select(sa.func.count()).select_from(stress_result)) or 0

    run_successfully("ingest", str(installation.manifest), "--dataset", "doomed")
    run_successfully("score", "--dataset", "doomed", "--metric", "words_in_common")
    before = count()
    with at_the_store(drop) as met:
        done = run_command("stress", "words_in_common", "-d", "doomed", "--draw", "2")
    assert met
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: dataset 'doomed' was dropped meanwhile" in done.stderr
    assert count() == before


@pytest.mark.usefixtures("scored")
@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("bleu", "-d", "clips"), 2, "there is no metric 'bleu': choose one of vcs"),
        (("vcs_short", "-d", "gone"), 1, "there is no dataset 'gone'"),
        (("vcs_short", "-d", "unscored"), 1, "no caption of unscored has a current vcs_short score"),
        (("evqa", "-d", "clips"), 1, "no caption of clips has a current evqa score with the present settings: run "),
        (("evqa", "-d", "questions"), 1, "questions has no captions to rewrite"),
        (("vcs_short", "-d", "clips", "--draw", "0"), 2, "draw"),
    ],
)
def test_what_cannot_be_stressed_is_one_sentence(arguments: tuple[str, ...], code: int, sentence: str) -> None:
    done = run_command("stress", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert sentence in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("scored")
def test_a_metric_without_a_model_says_why() -> None:
    run_successfully("score", "--dataset", "clips", "--metric", "evqa")
    done = run_command("stress", "evqa", "--dataset", "clips")
    assert done.returncode == 1
    assert "evqa has no value for any caption of clips: no " in " ".join(done.stderr.split())
