"""The expectation of a number over the tokens that spell it: whole numbers, digit by digit, and what is no number."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics_core.models.chat.expected_number import TokenChoice, compute_expected_number, parse_token_choices


def token(text: str, **chances: float) -> TokenChoice:
    return TokenChoice(text, {other: math.log(chance) for other, chance in (chances or {text: 1.0}).items()})


def choice(text: str, chances: Mapping[str, float]) -> TokenChoice:
    return TokenChoice(text, {other: math.log(chance) for other, chance in chances.items()})


def answer(*number: TokenChoice) -> list[TokenChoice]:
    return [token('{"why": "so", "score"'), token(": "), *number]


END = token("}")


@pytest.mark.parametrize(
    ("tokens", "number", "expected"),
    [
        # Whole numbers in a token: 0.5 * 80 + 0.3 * 90 + 0.2 * 5.
        ([choice("80", {"80": 0.5, "90": 0.3, "5": 0.2}), END], 80, 68.0),
        # What is no number from 0 to 100 is left out, and the others are scaled: (80 + 60) / 2.
        ([choice("80", {"80": 0.2, "60": 0.2, "high": 0.2, "101": 0.2, "-5": 0.1, "08": 0.1}), END], 80, 70.0),
        # A token of more digits than Python reads as a number is none.
        ([choice("80", {"80": 0.25, "60": 0.25, "9" * 4400: 0.5}), END], 80, 70.0),
        # The space before a number and the end after it belong to its token.
        ([choice(" 80}", {" 80}": 0.5, " 70}": 0.5})], 80, 75.0),
        # Digit by digit: after 8, (5 + 0) / 2; another first digit 7 counts as the middle of 70 .. 79.
        ([choice("8", {"8": 0.5, "7": 0.5}), choice("5", {"5": 0.5, "0": 0.5}), END], 85, (82.5 + 74.5) / 2),
        # After the 8 the number may end: 0.5 * 8 + 0.5 * 85.
        ([token("8"), choice("5", {"5": 0.5, "}": 0.5}), END], 85, 46.5),
        # In the upper half, a 1 leads to 100.
        ([choice("9", {"9": 0.5, "1": 0.5}), token("0"), END], 90, 95.0),
        # In the lower half, it leads to the middle of 10 .. 19.
        ([choice("2", {"2": 0.5, "1": 0.5}), token("0"), END], 20, (20 + 14.5) / 2),
        # 100 in three tokens: the last may be missing (10), and a 9 leads to the middle of 90 .. 99.
        (
            [choice("1", {"1": 0.5, "9": 0.5}), token("0"), choice("0", {"0": 0.8, "}": 0.2}), END],
            100,
            (0.8 * 100 + 0.2 * 10 + 94.5) / 2,
        ),
        # A first 0 is the number 0.
        ([choice("8", {"8": 0.5, "0": 0.5}), token("0"), END], 80, 40.0),
        # One digit: it may go on. Another digit counts as the middle of its ten numbers.
        ([choice("5", {"5": 0.5, "3": 0.5}), choice("}", {"}": 0.5, "0": 0.5})], 5, ((5 + 50) / 2 + 34.5) / 2),
        # A server that gives only the chosen token is sure of it.
        ([token("80"), END], 80, 80.0),
        # The number at the very end of the tokens.
        ([token("80")], 80, 80.0),
    ],
)
def test_expectations_by_hand(tokens: list[TokenChoice], number: int, expected: float) -> None:
    assert compute_expected_number(answer(*tokens), "score", number, 100) == pytest.approx(expected)


@pytest.mark.parametrize(
    "tokens",
    [
        [],
        [token('{"score": "high"}')],
        answer(token("70"), END),
        [token('{"mark": '), token("80"), END],
        # The name within a text of the answer is not the member.
        [token('{"why": "\\"score\\": 80"'), token("}")],
        # All of the answer in one token.
        [token('{"score": 80}')],
    ],
)
def test_tokens_that_do_not_show_the_number_have_no_expectation(tokens: list[TokenChoice]) -> None:
    assert compute_expected_number(tokens, "score", 80, 100) is None


def test_the_last_member_of_that_name_counts() -> None:
    tokens = [token('{"score": 80} no: {"score": '), choice("40", {"40": 0.5, "20": 0.5}), END]
    assert compute_expected_number(tokens, "score", 40, 100) == pytest.approx(30)


@given(
    st.dictionaries(st.integers(0, 100).map(str), st.floats(0.001, 1), min_size=1, max_size=20),
    st.integers(0, 100).map(str),
)
def test_whole_numbers_give_the_weighted_mean(chances: dict[str, float], written: str) -> None:
    # A two-digit token shows that the model writes whole numbers.
    chances |= {written: 0.5, "50": 0.5}
    total = sum(chances.values())
    mean = sum(int(text) * chance for text, chance in chances.items()) / total
    scaled = {text: chance / total for text, chance in chances.items()}
    found = compute_expected_number(answer(choice(written, scaled), END), "score", int(written), 100)
    assert found == pytest.approx(mean)


@given(
    st.integers(0, 100),
    st.lists(st.dictionaries(st.text("0123456789}, ", min_size=1), st.floats(0.001, 1)), max_size=4),
)
def test_an_expectation_stays_within_the_range(number: int, considered: list[dict[str, float]]) -> None:
    digits = [*str(number), "}"]
    tokens = [
        choice(digit, {**(considered[i] if i < len(considered) else {}), digit: 0.5}) for i, digit in enumerate(digits)
    ]
    found = compute_expected_number(answer(*tokens), "score", number, 100)
    assert found is not None
    assert 0 <= found <= 100


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {},
        {"content": None},
        {"content": [None]},
        {"content": [{"token": "a"}]},
        {"content": [{"token": "a", "logprob": "low"}]},
        {"content": [{"token": "a", "logprob": -(10**400)}]},
        {"content": [{"token": "a", "logprob": 0.5}]},
        {"content": [{"token": "a", "logprob": float("nan")}]},
        {"content": [{"token": "a", "logprob": -1, "top_logprobs": [3]}]},
        {"tokens": ["a"], "token_logprobs": [-1.0]},
        [1, 2],
    ],
)
def test_unknown_forms_of_probabilities_are_none(logprobs: Any) -> None:
    assert parse_token_choices(logprobs) == ()


def test_probabilities_are_read_as_servers_send_them() -> None:
    top = [{"token": "80", "logprob": -0.1, "bytes": [56, 48]}, {"token": "90", "logprob": -2.5, "bytes": None}]
    sent = json.loads(json.dumps({"content": [{"token": "80", "logprob": -0.1, "top_logprobs": top}]}))
    assert parse_token_choices(sent) == (TokenChoice("80", {"80": -0.1, "90": -2.5}),)
    (impossible,) = parse_token_choices({"content": [{"token": "a", "logprob": -float("inf")}]})
    assert impossible.logprobs == {"a": -float("inf")}
