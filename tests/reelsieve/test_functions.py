"""A function as a metric: what it may read and return, and what becomes of one that fails."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import reelsieve as rs
from assets.scores.base import Outcome

TABLE = pa.table({"caption": ["a b"], "references": [["c", "d e"]], "keypoints": [["f"]]})


class Unshowable(Exception):
    """Its own code fails, as an object of somebody else may."""

    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


def scored(function: Any, low: float = 0.0, high: float = 1.0) -> tuple[Any, ...]:
    """Value, status and reason that the function gives the only caption."""
    made = rs.metric("mine", version="1", value_range=(low, high))(function)
    (row,) = rs.score(TABLE, [made]).to_pylist()
    return row["mine"], row["mine_status"], row["mine_reason"]


def test_it_shows_its_name_version_and_range() -> None:
    made = rs.metric("mine", version="1", value_range=(0, 2.5))(lambda text: 1.0)
    assert repr(made) == "<metric 'mine', version '1', from 0 to 2.5>"


def test_it_is_given_what_its_parameters_name() -> None:
    seen = []

    def all_of_them(keypoints: list[str], text: str, references: list[str]) -> float:
        seen.append((keypoints, text, references))
        return 1

    assert scored(all_of_them) == (1.0, "ok", None)
    assert seen == [(["f"], "a b", ["c", "d e"])]
    assert scored(lambda text: len(text), high=10.0) == (3.0, "ok", None)


@pytest.mark.parametrize(
    ("result", "status", "reason"),
    [
        (None, "undefined", "mine gives this caption no value"),
        ("good", "failed", "mine returned 'good': return a number"),
        (float("nan"), "failed", "mine returned nan: return a number"),
        (7.0, "failed", "mine returned 7, not 0 to 1: correct the function or its value_range"),
        ([1.0], "failed", "mine returned [1.0]"),
        (Outcome(None, "too_quiet", "it says nothing"), "too_quiet", "it says nothing"),
        (10**400, "failed", "mine returned inf, not 0 to 1"),
        (-(10**400), "failed", "mine returned -inf, not 0 to 1"),
        ("\ud800", "failed", "mine returned '\\ud800'"),
        (Unshowable(), "failed", "mine returned an object that cannot be shown (RuntimeError): return a number"),
        (Outcome(None, "too_quiet", "half \ud800 and \x00"), "too_quiet", "half \\ud800 and \\x00"),
        (Outcome(None, "too_quiet", None), "too_quiet", "mine gives no reason"),
        (Outcome(10**400), "failed", "mine returned inf, not 0 to 1"),
        (Outcome(float("nan")), "failed", "mine returned nan: return a number"),
        (Outcome(None), "undefined", "mine gives this caption no value"),
        (Outcome(0.5, "no_audio"), "failed", "mine returned value 0.5 and status 'no_audio'"),
        (Outcome(None, "\x00"), "failed", "mine returned value None and status '\\x00'"),
    ],
)
def test_what_is_no_number_is_a_status(result: Any, status: str, reason: str) -> None:
    value, found, why = scored(lambda text: result)
    assert (value, found) == (None, status)
    assert why.startswith(reason)


def test_an_error_costs_its_own_caption_a_value() -> None:
    @rs.metric("mine", version="1", value_range=(0, 1))
    def picky(text: str) -> float:
        """Raises for one text."""
        if text == "b":
            raise KeyError("no such\ntext")
        return 0.5

    rows = rs.score(pa.table({"caption": ["a", "b", "c"]}), picky)
    assert rows["mine"].to_pylist() == [0.5, None, 0.5]
    assert rows["mine_reason"].to_pylist() == [None, "mine raised KeyError: 'no such\\ntext'", None]
    function: Any = picky
    assert (picky("a"), function.__name__, picky.__doc__) == (0.5, "picky", "Raises for one text.")


def test_an_error_that_cannot_be_shown_costs_its_own_caption_a_value() -> None:
    @rs.metric("mine", version="1", value_range=(0, 1))
    def picky(text: str) -> float:
        if text == "b":
            raise Unshowable
        if text == "c":
            raise ValueError("half of a pair \ud800 and \x00")
        return 0.5

    rows = rs.score(pa.table({"caption": ["a", "b", "c"]}), picky)
    assert rows["mine"].to_pylist() == [0.5, None, None]
    assert rows["mine_reason"].to_pylist()[1:] == [
        "mine raised Unshowable: an object that cannot be shown (RuntimeError)",
        "mine raised ValueError: half of a pair \\ud800 and \\x00",
    ]


@pytest.mark.parametrize("metrics", [None, 5])
def test_no_metrics_are_one_sentence(metrics: Any) -> None:
    with pytest.raises(rs.ReelsieveError, match=f"^metrics is {metrics}: name some of vcs"):
        rs.score(TABLE, metrics)


def test_question_answer_pairs_are_not_its_business() -> None:
    @rs.metric("mine", version="1", value_range=(0, 1))
    def one(text: str) -> float:
        return 1.0

    assert rs.score(pa.table({"question": ["q?"], "answer": ["a."]}), [one])["mine_status"].to_pylist() == [
        "not_applicable"
    ]


@pytest.mark.parametrize(
    ("name", "function", "sentence"),
    [
        ("My metric", lambda text: 1, "metric name 'My metric': write a lower-case letter, then at most 39"),
        (3, lambda text: 1, "metric name 3"),
        ("words", lambda text: 1, "metric name 'words' is that of a column of sample_scores already"),
        (
            "mine",
            lambda caption: 1,
            "metric mine: its function has the unknown parameter caption: give it some of text,",
        ),
        ("mine", lambda: 1, "metric mine: its function has no parameter: give it some of text, references, keypoints"),
    ],
)
def test_what_cannot_be_a_metric_is_one_sentence(name: Any, function: Any, sentence: str) -> None:
    with pytest.raises(rs.ReelsieveError, match=r"^[^\n]*$") as error:
        rs.metric(name, version="1", value_range=(0, 1))(function)
    assert sentence in str(error.value)
