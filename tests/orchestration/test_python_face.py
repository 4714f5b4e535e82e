"""What `import reelsieve` does with an installation: tables of what it holds, and selections that are frozen in it."""

from __future__ import annotations

import doctest
import json
import math
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
import sqlalchemy as sa
from sqlalchemy import make_url

import reelsieve as rs
from orchestration.installation import get_installation
from tests.command_line import run_command
from tests.conftest import PROJECT
from tests.orchestration.conftest import Installation

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scored(installation: Installation) -> Installation:
    rating = {"caption_id": "clip_00_faithful_0", "rater": "ann", "aspect": "overall", "value": 5}
    (installation.manifest / "ratings.jsonl").write_text(json.dumps(rating) + "\n")
    for arguments in (["ingest", str(installation.manifest)], ["score", "--metric", "vcs"]):
        done = run_command(*arguments, "--dataset", "mine")
        assert done.returncode == 0, done.stderr
    return installation


def test_what_is_stored_comes_as_tables(scored: Installation) -> None:
    here = rs.connect()
    assert here.datasets().set_index("dataset").loc["mine", "captions"] == 36
    scores = here.scores("mine")
    assert len(scores) == 36
    assert scores["vcs"].dtype == float
    printed = json.loads(run_command("dataset", "scores", "--dataset", "mine", "--by", "vcs", "--json").stdout)
    by_sample = scores.set_index("sample")["vcs"]
    assert all(by_sample[row["sample"]] == pytest.approx(row["vcs"]) for row in printed if row["vcs"] is not None)
    # A column without any number is one of numbers all the same.
    assert scores["evqa"].dtype == float
    assert all(map(math.isnan, scores["evqa"]))
    assert here.ratings("mine").to_dict("records") == [
        {
            "sample": "clip_00_faithful_0",
            "kind": "caption",
            "system": "faithful",
            "rater": "ann",
            "aspect": "overall",
            "value": 5.0,
        }
    ]
    assert here.sql("SELECT 1 AS one, 'a' AS text, NULL AS nothing").to_dict("records") == [
        {"one": 1, "text": "a", "nothing": None}
    ]
    assert list(here.sql("SELECT 1 AS one WHERE false").columns) == ["one"]


def test_the_columns_that_are_asked_for_come_in_their_order(scored: Installation) -> None:
    here = rs.connect()
    all_columns = here.scores("mine")
    two = here.scores("mine", columns=["vcs", "sample"])
    assert list(two.columns) == ["vcs", "sample"]
    assert two.equals(all_columns[["vcs", "sample"]])
    with pytest.raises(rs.ReelsieveError, match="has no column 'vcz', did you mean 'vcs'"):
        here.scores("mine", columns=["sample", "vcz"])
    with pytest.raises(rs.ReelsieveError, match="has no column"):
        here.scores("mine", columns=['vcs" FROM x; --'])
    with pytest.raises(rs.ReelsieveError, match=r"give a list, such as \['vcs'\]"):
        here.scores("mine", columns="vcs")


def test_a_connection_shows_its_database_without_a_password() -> None:
    made = rs.Connection(make_url("postgresql+psycopg://me:b5f1-secret@host/curation"))
    assert repr(made) == "<Connection to postgresql://me:***@host/curation>"


def test_only_public_names_are_listed() -> None:
    assert sorted(dir(rs)) == sorted(rs.__all__)


def test_mean_ratings_of_all_captions_are_estimated(scored: Installation) -> None:
    here = rs.connect()
    with pytest.raises(rs.ReelsieveError, match="there is no dataset 'mime', did you mean 'mine'"):
        here.estimated_means("mime", "vcs")
    with pytest.raises(rs.ReelsieveError, match="nothing"):
        here.estimated_means("mine", "nothing")
    columns = list(here.estimated_means("mine", "vcs").columns)
    assert columns[:7] == ["expensive_score", "group_kind", "group_name", "helper", "value", "low", "high"]
    with get_installation().engine.begin() as connection:
        ratings = (
            "INSERT INTO rating (sample_id, rater, aspect, value, row_sha256, text_sha256) "
            "SELECT sample_id, 'bob', 'fun', 1 + sample_id % 5, '', text_sha256 FROM sample "
            "ORDER BY draw_number(kind, key, 0) LIMIT 30"
        )
        connection.execute(sa.text(ratings))
    means = here.estimated_means("mine", "vcs")
    whole = means[means["group_kind"] == "dataset"].set_index("expensive_score").loc["fun"]
    # Captions that are too short have no value of vcs, so that it corrects nothing.
    assert (whole["n"], whole["size"], whole["helper"]) == (30, 36, None)
    assert whole["low"] < whole["value"] == whole["plain"] < whole["high"]
    with get_installation().engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM rating WHERE rater = 'bob'"))


def test_without_pandas_they_are_tables_of_arrow(scored: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    scores = rs.connect().scores("mine")
    assert isinstance(scores, pa.Table)
    assert (scores.num_rows, scores["dataset"][0].as_py()) == (36, "mine")


def test_a_selection_is_that_of_the_command(scored: Installation, tmp_path: Path) -> None:
    here, recipe = rs.connect(scored.home), {"by": "vcs", "count": 4}
    made = rs.select(recipe, "mine")
    file = tmp_path / "recipe.yaml"
    file.write_text("by: vcs\ncount: 4\n")
    assert rs.select(file, "mine", home=scored.home) == made
    done = run_command("select", "--dataset", "mine", "--by", "vcs", "--count", "4", "--json")
    assert json.loads(done.stdout) == made
    (row,) = here.selections().to_dict("records")
    assert (row["selection_id"], row["n"]) == (made["selection_id"], 4)
    assert recipe.items() <= row["spec"].items()
    chosen = here.selection(made["selection_id"])
    best = here.scores("mine").sort_values("vcs", ascending=False)["vcs"][:4]
    assert chosen["value"].tolist() == pytest.approx(best.tolist())
    assert isinstance(chosen, pd.DataFrame)


def test_bad_input_is_one_sentence(scored: Installation, tmp_path: Path) -> None:
    here = rs.connect()
    for call, sentence in [
        (lambda: rs.connect(tmp_path / "none"), "there is no data in"),
        (lambda: rs.connect(url="mysql://x"), "url names a mysql database"),
        (lambda: here.scores("minee"), "there is no dataset 'minee', did you mean 'mine'?"),
        (lambda: here.scores("'; --"), 'there is no dataset "\'; --": choose one of mine'),
        (lambda: here.sql("SELECT nothing"), 'column "nothing" does not exist'),
        (lambda: here.sql("DELETE FROM sample"), "cannot execute DELETE in a read-only transaction"),
        (lambda: here.selection(99), "there is no selection 99"),
        (lambda: rs.select({"by": "vsc"}, "mine"), "vsc"),
        (lambda: rs.select({"by": "vcs", "kep": 1}, "mine"), "the recipe has no field 'kep', did you mean 'keep'?"),
        (
            lambda: rs.select({"by": "vcs"}, "mine"),
            "the recipe has no size: of the 24 samples of mine with vcs, a",
        ),
        (lambda: rs.select({"by": "vcs"}, "minee"), "there is no dataset 'minee', did you mean 'mine'?"),
        (lambda: rs.select(3, "mine"), "a recipe is a mapping of fields to values"),  # type: ignore[arg-type]
        (lambda: rs.select(tmp_path / "gone.yaml", "mine"), "the recipe cannot be read"),
        (lambda: rs.select({"by": "vcs"}, 3), "dataset is 3: give a text"),  # type: ignore[arg-type]
        (
            lambda: rs.select({"by": "vcs"}, "a\0b"),
            "dataset has the character '\\x00' at position 2, which cannot be stored: remove it",
        ),
        (lambda: rs.select("a\0b", "mine"), "recipe has the character '\\x00' at position 2"),
        (lambda: here.scores("\ud800"), "dataset has the character '\\ud800' at position 1"),
        (lambda: here.scores("mine", 5), "columns is 5: give a list, such as ['vcs']"),  # type: ignore[arg-type]
        (lambda: here.sql("SELECT '\0'"), "query has the character '\\x00' at position 9"),
        (lambda: here.sql(None), "query is None: give a text"),  # type: ignore[arg-type]
        (lambda: here.selection("x"), "selection_id is 'x': give a whole number"),  # type: ignore[arg-type]
        (lambda: rs.connect(tmp_path / "a\0b"), "home has the character '\\x00' at position"),
        (lambda: rs.connect(""), "home is empty: give a path"),
        (lambda: rs.connect(5), "home is 5: give a path"),  # type: ignore[arg-type]
        (lambda: rs.connect(url=b"x"), "url is b'x': give a text"),  # type: ignore[arg-type]
        (lambda: rs.import_scores([], "extra", None), "dataset is None: give a text"),  # type: ignore[arg-type]
        (lambda: rs.import_scores([], "extra", "mi\0ne"), "dataset has the character '\\x00' at position 3"),
        (lambda: rs.evqa("a\0.mp4", "A dog."), "video has the character '\\x00' at position 2"),
    ]:
        with pytest.raises(rs.ReelsieveError, match=r"^[^\n]*$") as error:
            call()
        assert sentence in str(error.value)


@pytest.mark.parametrize(("page", "n_examples"), [("docs/python.md", 21), ("README.md", 3)])
def test_the_examples_of_the_page_run(scored: Installation, page: str, n_examples: int) -> None:
    done = doctest.testfile(str(PROJECT / page), module_relative=False)
    assert (done.failed, done.attempted >= n_examples) == (0, True)
