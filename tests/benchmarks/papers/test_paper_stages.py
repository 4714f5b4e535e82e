"""A run that is stopped goes on where it was, and finished work is not done again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from benchmarks.papers.__main__ import run
from benchmarks.papers.page import as_json, as_markdown, read_tables
from benchmarks.papers.recipes import Recipe
from benchmarks.papers.records import Comparison, Made, Row, Table
from benchmarks.papers.stages import PROJECT, Stages


class Maker:
    """Makes tables and counts how often."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def recipe(self, name: str, version: int = 1, fails: bool = False) -> Recipe:
        """A recipe whose table follows from a version."""
        return Recipe(name, (), (), (), lambda: {"version": version}, partial(self._make, name, fails))

    def _make(self, name: str, fails: bool, stages: Stages) -> Table:
        if fails:
            raise KeyboardInterrupt
        self.calls.append(name)
        return Table(name, f"Table {name}", ["It is."], {"encoder": "none"}, [Row(name, "r", "c", 0.5, 0.25)])


def runner(folder: Path, wanted: list[str] | None = None) -> Callable[[list[Recipe]], bool]:
    """`run` with files in a folder."""
    return lambda recipes: run(recipes, folder / "kept", folder / "page.md", folder / "rows.json", wanted)


def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    maker, make = Maker(), runner(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        make([maker.recipe("one"), maker.recipe("two", fails=True)])
    assert maker.calls == ["one"]
    assert not (tmp_path / "page.md").exists()
    assert make([maker.recipe("one"), maker.recipe("two")])
    assert maker.calls == ["one", "two"]
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "## Table one" in page
    assert "## Table two" in page


def test_a_third_run_has_nothing_to_do(tmp_path: Path) -> None:
    maker, make = Maker(), runner(tmp_path)
    recipes = [maker.recipe("one"), maker.recipe("two")]
    assert make(recipes)
    assert not make(recipes)
    assert maker.calls == ["one", "two"]
    (tmp_path / "page.md").unlink()
    assert make(recipes)
    assert maker.calls == ["one", "two"]


def test_another_model_makes_a_table_anew(tmp_path: Path) -> None:
    maker, make = Maker(), runner(tmp_path)
    make([maker.recipe("one"), maker.recipe("two")])
    assert make([maker.recipe("one", version=2), maker.recipe("two")])
    assert maker.calls == ["one", "two", "one"]
    assert len(list((tmp_path / "kept" / "table_one").iterdir())) == 1


def test_tables_that_are_not_wanted_stay_as_they_were(tmp_path: Path) -> None:
    maker = Maker()
    runner(tmp_path)([maker.recipe("one"), maker.recipe("two"), maker.recipe("gone")])
    before = read_tables(tmp_path / "rows.json")
    assert runner(tmp_path, ["two"])(
        [maker.recipe("one", version=2), maker.recipe("two", version=2), maker.recipe("new")]
    )
    assert maker.calls == ["one", "two", "gone", "two"]
    tables = read_tables(tmp_path / "rows.json")
    assert list(tables) == ["one", "two"]
    assert tables["one"] == before["one"]


def test_tables_come_back_from_the_file(tmp_path: Path) -> None:
    table = Table(
        "t", "T", ["s"], {"m": "n"}, [Row("t", "r", "c", 0.5)], 2, ["r"], "b", [Comparison("c", 1.0, "b", 2.0)]
    )
    made = Made(1.5, "2026-01-02", "abc")
    (tmp_path / "rows.json").write_text(as_json([(table, made)]), encoding="utf-8")
    assert read_tables(tmp_path / "rows.json") == {"t": (table, made)}
    assert read_tables(tmp_path / "none.json") == {}


CHILD = """
import sys, time
from pathlib import Path
from benchmarks.papers.stages import Stages

def make(item):
    if item == "c":
        print("ready", flush=True)
        time.sleep(600)
    return item.upper()

Stages(Path(sys.argv[1])).each("letters", {"k": 1}, "abcd", make)
"""


def test_a_killed_stage_keeps_its_items(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    made: list[str] = []

    def make(item: str) -> str:
        made.append(item)
        return item.upper()

    found = Stages(tmp_path).each("letters", {"k": 1}, "abcd", make)
    assert found == {"a": "A", "b": "B", "c": "C", "d": "D"}
    assert made == ["c", "d"]


def test_half_a_line_is_made_again(tmp_path: Path) -> None:
    Stages(tmp_path).each("letters", {}, "ab", str.upper)
    (ledger,) = (tmp_path / "letters").iterdir()
    ledger.write_bytes(ledger.read_bytes()[:-4])
    stages = Stages(tmp_path)
    assert stages.each("letters", {}, "ab", str.upper) == {"a": "A", "b": "B"}
    assert stages.made == 1
    assert Stages(tmp_path).each("letters", {}, "ab", str.lower) == {"a": "A", "b": "B"}


def test_the_page_shows_ours_the_interval_and_the_published_figure() -> None:
    rows = [
        Row("t", "ECS", "rho", 0.33, 0.461, 0.4, 0.52, 1050, source="paper, Table 1"),
        Row("t", "METEOR", "rho", 0.8, note="needs WordNet", source="paper, Table 1"),
        Row("t", "words", "rho", ours=-0.0625, n=1050),
    ]
    worse = [Comparison("rho", 0.461, "words", 0.5)]
    table = Table("t", "One table", ["Then this."], {"verifier": "small"}, rows, 3, ["Last."], "words", worse)
    page = as_markdown([(table, Made(1212.4, "2026-01-02", "abc+", 3.6))])
    assert "- [One table](#one-table)" in page
    assert "| | rho, n 1,050 |\n|---|---|\n| ECS | .461 (.400 to .520) *.330* |\n| METEOR | – *.800* |" in page
    assert "| words (strongest simple baseline) | -.062 |" in page
    assert page.count("Published: paper, Table 1.") == 1
    assert "- METEOR: needs WordNet." in page
    assert page.index("- Below the strongest simple baseline: rho (") < page.index("Then this.") < page.index("| ECS")
    assert "Made on 2026-01-02 at commit abc+ in 1,212 s (load of the machine at the end: 4), kept" in page


def test_sizes_that_differ_by_row_have_a_column() -> None:
    rows = [Row("t", "a", "x", ours=1.0, n=5), Row("t", "b", "x", ours=2.0, n=1200), Row("t", "b", "y", ours=3.0, n=7)]
    page = as_markdown([(Table("t", "One", [], {}, rows, 1), Made(0.0, "", ""))])
    assert "| | x | y | n |\n|---|---|---|---|\n| a | 1.0 | – | 5 |\n| b | 2.0 | 3.0 | 7 to 1,200 |" in page
