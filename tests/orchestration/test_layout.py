"""Rows for people: a table where it fits, else records; and no number is ever broken."""

from __future__ import annotations

import io
import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from orchestration.cli.output import format_cell
from orchestration.cli.table_layout import MOST_LINES, ROWS_AT_A_TIME, make_column, print_table_or_records

WORDS = "a red circle bounces three times and leaves at the top "


def shown(columns: dict[str, bool], rows: list[list[object]], width: int = 80) -> list[str]:
    """The lines that are printed. columns: by name, whether it is of numbers."""
    console = Console(file=io.StringIO(), width=width, highlight=False, emoji=False)
    made = [make_column(Text(name), is_number=is_number) for name, is_number in columns.items()]
    assert print_table_or_records(made, ([format_cell(value) for value in row] for row in rows), console) == len(rows)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_table_where_it_fits() -> None:
    lines = shown({"system": False, "vcs": True, "n": True}, [["sys_brief", None, 60], ["other", 0.891234, 7]])
    assert lines == [
        "system        vcs   n",
        "sys_brief       –  60",
        "other      0.8912   7",
    ]


def test_text_is_folded_between_words_beside_numbers() -> None:
    lines = shown({"n": True, "text": False, "vcs": True}, [[1, WORDS * 2, 0.25]], width=50)
    assert lines == [
        "n  text                                        vcs",
        "1  a red circle bounces three times and     0.2500",
        "   leaves at the top a red circle bounces",
        "   three times and leaves at the top",
    ]


def test_records_where_a_table_would_be_crowded() -> None:
    lines = shown(
        {"sample": False, "text": False, "vcs": True}, [["s1", WORDS * 5, 0.25], ["s2", None, None]], width=40
    )
    assert lines[:3] == [
        "── 1 ───────────────────────────────────",
        "sample  s1",
        "text    a red circle bounces three times",
    ]
    assert lines[-5:] == [
        "vcs     0.2500",
        "── 2 ───────────────────────────────────",
        "sample  s2",
        "text    –",
        "vcs     –",
    ]


def test_many_columns_of_numbers_become_records_and_not_halves_of_numbers() -> None:
    columns = {f"metric_{i}": True for i in range(12)}
    lines = shown(columns, [[i / 7 for i in range(12)]])
    assert len(lines) == 13
    assert lines[2] == "metric_1   0.1429"


def test_a_number_wider_than_the_terminal_stays_whole() -> None:
    number = Decimal("1" * 60)
    assert str(number) in shown({"n": True, "text": False}, [[number, "a"]], width=40)[1]


def test_a_long_answer_has_one_header_and_widens_with_another() -> None:
    n = ROWS_AT_A_TIME
    lines = shown({"n": True}, [[1]] * (2 * n))
    assert lines == ["n", *["1"] * (2 * n)]
    lines = shown({"n": True}, [*[[1]] * n, [12345]])
    assert lines == ["n", *["1"] * n, "    n", "12345"]


def test_a_long_name_of_a_column_is_folded_and_stands_once_above_a_long_answer() -> None:
    rows = [["a red circle", 1]] * (ROWS_AT_A_TIME + 1)
    lines = shown({"what the caption says": False, "n": True}, rows, width=18)
    assert [line.split()[0] for line in lines[:2]] == ["what", "caption"]
    assert lines[2:] == ["a red circle     1"] * len(rows)


def test_the_first_rows_are_shown_before_the_last_are_asked_for() -> None:
    console = Console(file=io.StringIO(), width=80)
    rows = iter([[Text("1")]] * ROWS_AT_A_TIME)

    def endless() -> object:
        yield from rows
        assert isinstance(console.file, io.StringIO)
        assert console.file.getvalue().count("1") == ROWS_AT_A_TIME

    assert print_table_or_records([make_column(Text("n"), is_number=True)], endless(), console) == ROWS_AT_A_TIME


def test_wide_characters_take_two_places() -> None:
    lines = shown({"text": False, "n": True}, [["赤い円", 1], ["red", 2]])
    assert lines == ["text    n", "赤い円  1", "red     2"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5000"),
        (0.00001234, "1.234e-05"),
        (-0.0, "-0.0000"),
        (1e20, "1e+20"),
        (float("nan"), "NaN"),
        (Decimal("0.89"), "0.89"),
        (Decimal("0.123456789"), "0.1235"),
        (Decimal("NaN"), "NaN"),
        (Decimal("1E+3"), "1E+3"),
    ],
)
def test_numbers_as_they_are_shown(value: float | Decimal, text: str) -> None:
    assert str(format_cell(value)) == text


VALUES = st.one_of(
    st.none(),
    st.integers(-(10**15), 10**15),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
)
TEXTS = st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), max_size=60))


@given(
    width=st.integers(30, 120),
    rows=st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*[VALUES] * n, TEXTS), min_size=1, max_size=5)),
)
def test_whatever_the_rows_every_number_stands_whole_on_a_line(width: int, rows: list[tuple[object, ...]]) -> None:
    numbers = [f"n{i}" for i in range(len(rows[0]) - 1)]
    lines = shown({**dict.fromkeys(numbers, True), "text": False}, [list(row) for row in rows], width)
    words = [word for line in lines for word in re.split(r"\s+", line)]
    for row in rows:
        for value in row[:-1]:
            assert str(format_cell(value) or "–") in words
    is_table = not lines[0].startswith("── 1 ")
    assert len(lines) <= 1 + MOST_LINES * len(rows) if is_table else True
    wide = [line for line in lines if cell_len(line) > width]
    assert not (is_table and wide)
