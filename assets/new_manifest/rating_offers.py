"""Offers to read columns as ratings by people, made from the numbers that they hold."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from assets.ingest.scales import DEFAULT_SCALE
from assets.new_manifest.columns import parse_ratings
from assets.new_manifest.findings import Findings
from assets.words.text import join_names

# On which people rate, the likeliest first.
_SCALES = ((1, 5), (1, 7), (0, 5), (1, 10), (0, 10), (0, 100))


class RatingOffer(NamedTuple):
    """An offer to read columns as ratings of one aspect. options: the values of the option --rating that do it.
    question: for a terminal, None where the numbers lie on no usual scale of people. sentence: what the columns hold
    and how the option reads them.

    It names what the numbers do not show: a scale other than the usual one, and how many raters a mean is of.
    """

    options: tuple[str, ...]
    question: str | None
    sentence: str

    @property
    def arguments(self) -> str:
        """The options as the user writes them in a shell."""
        return " ".join(f"--rating {shlex.quote(option)}" for option in self.options)


def list_rating_offers(findings: Findings) -> list[RatingOffer]:
    """List an offer for every aspect that columns of a source may hold ratings of, in the order of the source."""
    numbers = {column: held for column, held in findings.possible_ratings.items() if held is not None}
    by_aspect: dict[str, list[str]] = {}
    for column in parse_ratings(list(numbers), numbers):
        by_aspect.setdefault(column.aspect, []).append(column.name)
    return [
        _make_offer(
            aspect,
            columns,
            min(numbers[column][0] for column in columns),
            max(numbers[column][1] for column in columns),
            all(numbers[column][2] for column in columns),
            findings.possible_raters,
        )
        for aspect, columns in by_aspect.items()
    ]


def _make_offer(
    aspect: str, columns: list[str], least: float, most: float, are_whole: bool, raters: str | None
) -> RatingOffer:
    scale = _guess_scale(least, most, are_whole)
    is_usual = scale == DEFAULT_SCALE.name and are_whole
    rule = "" if is_usual else f"={scale}" + ("" if are_whole or scale == "real" else ", mean of 3")
    is_list = len(columns) > 1 and not any("," in column for column in columns)
    options = [f"{aspect}={','.join(columns)}"] if is_list else columns
    named = f"{'column' if len(columns) == 1 else 'columns'} {join_names(list(map(repr, columns)))}"
    by = f", given by those in column {raters!r}" if raters else ""
    offer = RatingOffer(tuple(f"{option}{rule}" for option in options), None, "")
    made = f"{named} {'holds' if len(columns) == 1 else 'hold'} numbers from {least:g} to {most:g}: {offer.arguments}"
    if is_usual:
        sentence = f"{made} makes them ratings of people, of aspect {aspect!r} on the scale from 1 to 5{by}"
    elif are_whole or scale == "real":
        sentence = (
            f"{made} makes them ratings of people{by}; if their scale was another one, name it in place of {scale}"
        )
    else:
        sentence = f"{made} makes them mean ratings of people; name the number of raters in place of 3"
    asked = "of yes or no" if scale == "yes-no" else f"from {scale.replace('-', ' to ')}"
    kind = f"ratings {asked}{by}" if are_whole else f"means of three people's ratings {asked}"
    return offer._replace(question=None if scale == "real" else f"Use {named} as {kind}?", sentence=sentence)


def _guess_scale(least: float, most: float, are_whole: bool) -> str:
    """Return the name of the first usual scale that has these numbers, "real" where none has: fractions up to 1 are
    more often a model's than people's.
    """
    if least >= 0 and most <= 1 and (not are_whole or least == 0):
        return "yes-no" if are_whole else "real"
    return next((f"{first}-{last}" for first, last in _SCALES if first <= least and most <= last), "real")
