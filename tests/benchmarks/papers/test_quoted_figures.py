"""Figures that other pages quote are those of docs/papers.json."""

from __future__ import annotations

from functools import lru_cache

import pytest

from benchmarks.papers.page import cell, read_tables
from benchmarks.papers.records import Row, Table
from benchmarks.papers.stages import PROJECT

KENDALL, SPEARMAN = "{}, Kendall", "{}, Spearman"
AREAS = [f"AUC, {part}" for part in ("all", "Content Additions & Omissions", "Content Corruption", "Chronology")]
RANKS = [form.format(count) for count in ("1 ref", "9 refs") for form in (KENDALL, SPEARMAN)]
BEST_QUARTER, BEST_EIGHTH = "one keyword, best 25 %", "one keyword, best 12.5 %"
VCS, FIGURES, MODELS = "docs/metrics/vcs.md", "docs/figures.md", "docs/models.md"
# Page and start of the line; table, row and columns of the figures that the line has in this order.
QUOTED = [
    (VCS, "| VCS, `lct` 1 |", "vcs_1_separation", "VCS_LCT1", AREAS),
    (VCS, "| VCS, `lct` 0 |", "vcs_1_separation", "VCS_LCT0", AREAS),
    (VCS, "| cosine of the mean of sentence vectors |", "vcs_1_separation", "cosine of mean sentences", AREAS),
    (VCS, "| cosine of whole texts |", "vcs_1_separation", "cosine of whole texts", AREAS),
    (VCS, "| `vcs_short`, lct 1 |", "vcs_2", "VCS_short, lct 1", RANKS),
    (VCS, "| `vcs_short`, lct 0 |", "vcs_2", "VCS_short, lct 0", RANKS),
    (VCS, "| highest GAS of all references |", "vcs_2", "highest cosine of whole texts", RANKS),
    (MODELS, "**`laptop`**", "vcs_2", "VCS_short, lct 1", [RANKS[0], RANKS[2]]),
    (FIGURES, "| `evqa` |", "evqa_4_demo", "EVQAScore", [BEST_QUARTER, BEST_EIGHTH]),
    (FIGURES, "| length |", "evqa_4_demo", "length of the answer", [BEST_QUARTER, BEST_EIGHTH]),
    (FIGURES, "| random |", "evqa_4_demo", "random", [BEST_QUARTER, BEST_EIGHTH]),
]


@lru_cache(maxsize=1)
def tables() -> dict[str, Table]:
    return {name: table for name, (table, _) in read_tables(PROJECT / "docs" / "papers.json").items()}


def figure(table: str, row: str, column: str) -> Row:
    (found,) = [each for each in tables()[table].rows if (each.row, each.column) == (row, column)]
    return found


@pytest.mark.parametrize(("page", "start", "table", "row", "columns"), QUOTED)
def test_quoted_figures_are_those_of_the_tables(
    page: str, start: str, table: str, row: str, columns: list[str]
) -> None:
    lines = [line for line in (PROJECT / page).read_text(encoding="utf-8").splitlines() if line.startswith(start)]
    (rest,) = lines
    for column in columns:
        one = figure(table, row, column)
        with_interval = cell(Row("", "", "", ours=one.ours, low=one.low, high=one.high), tables()[table].digits)
        shown = with_interval if with_interval in rest else with_interval.split()[0]
        assert shown in rest, (column, with_interval)
        # A figure without its interval is quoted where the page quotes no intervals.
        assert shown == with_interval or "(" not in rest
        rest = rest[rest.index(shown) + len(shown) :]


def test_the_shares_of_noise_and_what_a_cosine_explains_are_those_of_the_tables() -> None:
    kinds = ["answer of another video", "colours swapped", "counts swapped", "negated"]
    found = [figure("evqa_4_demo", "EVQAScore", f"{kind}, best 25 %").ours for kind in kinds]
    cosine = figure("evqa_4_demo", "cosine of question and answer", "negated, best 25 %").ours
    other, colours, counts, negated, simple = (f"{value + 1e-9:.2f}"[1:] for value in (*found, cosine))
    page = " ".join((PROJECT / "docs/metrics/evqa.md").read_text(encoding="utf-8").split())
    assert f"keeps {other} noise where the answer is another video's, {colours} where its colours are swapped" in page
    assert f"{counts} to {negated}, where it is negated" in page
    assert f"keeps {simple} of negated ones" in page
    first, second, simple_area = (
        figure("vcs_1_separation", row, AREAS[0]).ours - 0.5
        for row in ("VCS_LCT1", "VCS_LCT0", "cosine of mean sentences")
    )
    page = " ".join((PROJECT / VCS).read_text(encoding="utf-8").split())
    numbers = [f"{value:.3f}"[1:] for value in (first, second, simple_area)]
    shares = [f"{100 * simple_area / value:.0f}" for value in (first, second)]
    assert "{} and {}, the cosine of mean sentence vectors has {}:".format(*numbers) in page
    assert "{} and {} %".format(*shares) in page
