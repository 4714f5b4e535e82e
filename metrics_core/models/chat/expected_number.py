"""Compute the expectation of a number in a model's JSON answer from the probabilities of the tokens that spell it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

# What may be around the digits in a token: the end of the name before them, or what comes after the number.
_DIGITS = re.compile(r'[\s":]*([0-9]+)[\s,}\]"]*')
_END = re.compile(r'[\s,}\]"]')


@dataclass(frozen=True, slots=True)
class TokenChoice:
    """One token of an answer, with the logarithms of the probabilities of the tokens that the model considered for its
    place, by their texts; the token itself is among them.
    """

    text: str
    logprobs: Mapping[str, float]


def parse_token_choices(logprobs: Any) -> tuple[TokenChoice, ...]:
    """Parse the member `logprobs` of a chat completion's choice into the tokens of the answer; () where the server
    gives none, or in a form that is not known.
    """
    try:
        return tuple(_parse_token(entry) for entry in logprobs["content"])
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
        return ()


def _parse_token(entry: Mapping[str, Any]) -> TokenChoice:
    considered = [*(entry.get("top_logprobs") or ()), entry]
    logprobs = {str(other["token"]): float(other["logprob"]) for other in considered}
    if any(not value <= 0 for value in logprobs.values()):
        raise ValueError("a logarithm of a probability is above 0 or not a number")
    return TokenChoice(str(entry["token"]), logprobs)


def compute_expected_number(tokens: Sequence[TokenChoice], name: str, number: int, highest: int) -> float | None:
    """Return the expectation of the member `name`, an integer from 0 to `highest` (10 or more), over the tokens that
    the model considered where it wrote `number`; None where the tokens do not show it. tokens: all of the answer.

    Probabilities of tokens that spell no such number are left out, and the others scaled to a sum of 1. A model may
    write a number digit by digit. What it would have written after another first digit is then not known, and counts as
    the middle of the numbers with that first digit.

    >>> one = TokenChoice("80", {"80": math.log(0.75), "60": math.log(0.25)})
    >>> tokens = [TokenChoice('{"score": ', {}), one, TokenChoice("}", {"}": 0.0})]
    >>> round(compute_expected_number(tokens, "score", 80, 100), 9)
    75.0
    """
    place = _find_number(tokens, name, number)
    if place is None:
        return None
    has_whole_numbers = any(len(_find_digits(text) or "") > 1 for text in tokens[place].logprobs)
    return _Spelling(tokens, number, highest, is_by_digit=not has_whole_numbers).expect(place, "")


def _find_number(tokens: Sequence[TokenChoice], name: str, number: int) -> int | None:
    """Return the place of the token with which the number begins; None where the tokens spell another answer."""
    written = list(re.finditer(rf'(?<!\\)"{re.escape(name)}"\s*:\s*([0-9]+)', "".join(token.text for token in tokens)))
    if not written or written[-1][1] != str(number):
        return None
    ends = accumulate(len(token.text) for token in tokens)
    place = next(place for place, end in enumerate(ends) if end > written[-1].start(1))
    # A token that begins long before the number holds more of the answer than can be compared.
    return place if _find_digits(tokens[place].text) else None


def _find_digits(token: str) -> str | None:
    spelt = _DIGITS.fullmatch(token)
    return spelt[1] if spelt else None


@dataclass(frozen=True, slots=True)
class _Spelling:
    """The tokens of an answer with a `number` from 0 to `highest`. is_by_digit: the model writes one digit a token."""

    tokens: Sequence[TokenChoice]
    number: int
    highest: int
    is_by_digit: bool

    def expect(self, place: int, prefix: str) -> float | None:
        """Return the expectation of the number after its first digits `prefix`, which the token at `place` follows."""
        if place >= len(self.tokens):
            return float(prefix)
        token = self.tokens[place]
        # A server that gives no alternatives for a token is sure of it.
        logprobs = token.logprobs or {token.text: 0.0}
        values = {text: self._find_value(text, place, prefix) for text in logprobs}
        weights = {text: math.exp(logprobs[text]) for text, value in values.items() if value is not None}
        total = sum(weights.values())
        return sum(weight * float(values[text] or 0) for text, weight in weights.items()) / total if total > 0 else None

    def _find_value(self, text: str, place: int, prefix: str) -> float | None:
        """Return the number that a token leads to at this place; None for a token that leads to no number."""
        digits = _find_digits(text)
        if digits is None:
            # The number ended before this token.
            return float(prefix) if prefix and _END.match(text) else None
        spelt = prefix + digits
        # Its length first: Python reads no number of thousands of digits.
        is_long = len(spelt) > len(str(self.highest))
        if is_long or int(spelt) > self.highest or (len(spelt) > 1 and spelt.startswith("0")):
            return None
        if text == self.tokens[place].text:
            return self.expect(place + 1, spelt) if text.endswith(digits) else float(spelt)
        if prefix or not self.is_by_digit or spelt == "0":
            return float(spelt)
        return self._estimate_from_first_digit(spelt)

    def _estimate_from_first_digit(self, digit: str) -> float:
        """Return the middle of the numbers that begin with this digit and have as many digits as the number written, or
        one less where these are all above the highest. In the upper half, the first digit of the highest leads to it: a
        1 instead of a 9 leads to 100 rather than to 15.
        """
        if str(self.highest).startswith(digit) and 2 * self.number >= self.highest:
            return float(self.highest)
        n_more = max(1, len(str(self.number)) - 1)
        while int(digit) * 10**n_more > self.highest:
            n_more -= 1
        n_numbers: int = 10**n_more
        low = int(digit) * n_numbers
        return (low + min(low + n_numbers - 1, self.highest)) / 2
