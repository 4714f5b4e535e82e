"""Ratings by people in a table: what their columns rate and by whom, and the numbers in their cells."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from assets.ingest import strict_json
from assets.ingest.scales import YES_OR_NO, Scale, parse_scale
from assets.new_manifest.findings import Caption, NoManifest, Place, Rating, parse_id
from assets.new_manifest.header_words import KNOWN_HEADERS, drop_form_prefix, normalise_header
from assets.words.text import format_count

_OVERALL = "overall"
_RULE = re.compile(r"(.*?)(?:, mean of ([2-9]|[1-9][0-9]{1,6}))?")
# What the option --rating has after its last =, where that is a scale, right or wrong, and no names of columns.
_LIKE_RULE = re.compile(r"(-?[0-9].*|mean\b.*|yes-no.*|real.*)?")
# The names of columns by several raters, such as rater1_coverage, rating_1, rating_b and "Rating (Anna)".
_RATER = re.compile(
    r"(?:(.+)[\W_])?(?:rater|annotator|evaluator|reviewer|judge|coder|worker|participant|person|expert)"
    r"[\W_]?([0-9]{1,3}|[a-z])(?:[\W_]+(.+))?",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"(.*[^\W\d_])[\W_]*([0-9]{1,3})")
_LETTERED = re.compile(r"(.+?)(?:[\W_]+([A-Za-z]|[aeprwAEPRW][0-9]{1,3})|\s*\((.+)\))")
# Numbers after these words, or after a letter, count no raters.
_COUNTED = "question item aspect criterion dimension statement video clip caption candidate system"
_NUMBER = re.compile(r"[+-]?[0-9]{1,300}(\.[0-9]*)?")
_BETWEEN_RATERS = re.compile(r"\s*[,;|]\s*")
_NO_WORD = " -–—?._/*#"
# As `normalise_header` returns them.
_NO_ANSWERS = """
    na skip skipped null none nan dk idk dontknow donotknow unknown unsure notsure notapplicable notrated unrated
    noanswer noresponse norating missing blank empty undefined canttell cannottell cantsay prefernottosay
    keineangabe weißnicht
"""


class RatingColumn(NamedTuple):
    """A column of ratings: its name, the aspect that people rated, and the scale, None for whole numbers from 1 to 5.
    rater: who gave all of them, None where the row or the place in a cell shows it. mean_of: the number of raters whose
    mean a number is, None where it is one rater's.
    """

    name: str
    aspect: str
    rater: str | None = None
    scale: Scale | None = None
    mean_of: int | None = None


def parse_ratings(texts: Sequence[str], names: Collection[str] = ()) -> tuple[RatingColumn, ...]:
    """Return the columns that values of the option --rating name: "score", "score=0-100", "mos=1-5, mean of 3" or
    "overall=r1,r2". Several columns of an aspect are by several raters. Without an aspect it is the column's name, and
    "overall" for one such as rating or score_1. names: of columns, which may have commas.

    Raises NoManifest for a rule that is none, and for an aspect with two.

    >>> [column[:3] for column in parse_ratings(["Rating 1", "Rating 2", "fluency"])]
    [('Rating 1', 'overall', 'rater_1'), ('Rating 2', 'overall', 'rater_2'), ('fluency', 'fluency', None)]
    """
    options = [_parse_option(text, names) for text in texts]
    implied = [_split_name(name) for _, aspect, columns, *_ in options if not aspect for name in columns]
    stems = Counter(stem for stem, _ in implied)
    n_general = len({stem for stem in stems if _is_general(stem)})

    def choose_aspect(name: str) -> str:
        stem, _ = _split_name(name)
        if _is_general(stem):
            return _OVERALL if n_general == 1 else stem
        return stem if stems[stem] > 1 or _names_rater(name) else drop_form_prefix(name)

    found = [
        (text, RatingColumn(name, aspect or choose_aspect(name), _split_name(name)[1] or name, scale, mean_of))
        for text, aspect, columns, scale, mean_of in options
        for name in columns
    ]
    rules: dict[str, tuple[Scale | None, int | None]] = {}
    for text, column in found:
        if rules.setdefault(column.aspect, column[3:]) != column[3:]:
            raise NoManifest(f"--rating {text}: {column.aspect!r} has another scale already: give an aspect only one")
    raters = Counter((column.aspect, column.rater) for _, column in found)
    n_columns = Counter(column.aspect for _, column in found)

    def choose_rater(column: RatingColumn) -> str | None:
        if n_columns[column.aspect] == 1 and not _names_rater(column.name):
            return None
        return column.rater if raters[column.aspect, column.rater] == 1 else column.name

    return tuple(column._replace(rater=choose_rater(column)) for _, column in found)


def _parse_option(text: str, names: Collection[str]) -> tuple[str, str, Sequence[str], Scale | None, int | None]:
    """Return the text, its aspect, "" without one, its columns, their scale and the number of a mean's raters."""
    rest, has_rule, rule = text.rpartition("=")
    scale, mean_of = None, None
    if text in names or not has_rule or not _LIKE_RULE.fullmatch(rule):
        rest = text
    elif (match := _RULE.fullmatch(rule)) and (scale := parse_scale(match[1])):
        mean_of = int(match[2]) if match[2] else None
    else:
        raise NoManifest(
            f"--rating {text}: {rule!r} is no scale: write COLUMN, COLUMN=0-100, COLUMN=yes-no or COLUMN=real, "
            "with ', lowest is best' or ', mean of 3' after it if it is so"
        )
    aspect, _, columns = rest.rpartition("=")
    if rest in names or columns in names:
        return text, aspect if columns in names else "", [columns if columns in names else rest], scale, mean_of
    return text, aspect, [name.strip() for name in columns.split(",")], scale, mean_of


@lru_cache(maxsize=4096)
def is_rating_name(column: str) -> bool:
    """Return whether a column's name, such as score, "Rating (Anna)" or rater_1, shows that it may hold ratings."""
    return _is_general(_split_name(column)[0])


def _is_general(stem: str) -> bool:
    return normalise_header(stem) in KNOWN_HEADERS["rating"]


def _names_rater(column: str) -> bool:
    return _RATER.fullmatch(drop_form_prefix(column)) is not None


def _split_name(column: str) -> tuple[str, str | None]:
    """Split the name of a column into what was rated and a rater; None without one."""
    name = drop_form_prefix(column)
    if match := _RATER.fullmatch(name):
        return " ".join(filter(None, (match[1], match[3]))) or _OVERALL, f"rater_{match[2].lower()}"
    if (match := _LETTERED.fullmatch(name)) and _is_general(match[1]):
        return match[1], match[3] or f"rater_{match[2].lower()}"
    if match := _NUMBERED.fullmatch(name):
        stem = _OVERALL if match[1].lower() == "r" else match[1]
        is_counted = len(stem) == 1 or normalise_header(stem) in _COUNTED.split()
        return (name, None) if is_counted else (stem, f"rater_{match[2]}")
    return name, None


def list_answers(value: Any) -> list[Any]:
    """Return the answers in a cell of ratings, which has one, or a list of several raters', also as text. An answer is
    None where the cell is empty or says that there is none, and else a number, or what the cell has.

    >>> list_answers("5; 4.0; N/A"), list_answers("[5, 4]"), list_answers("Don't know"), list_answers("good, 5")
    ([5, 4.0, None], [5, 4], [None], ['good, 5'])
    """
    if isinstance(value, str):
        text = value.strip()
        parsed = strict_json.parse_json(text) if text.startswith("[") else None
        parts = [part.strip("'\"") for part in _BETWEEN_RATERS.split(text.strip("[](){}"))]
        if len(parts) == 1:
            parts = parts[0].split()
        are_answers = all(is_no_answer(part) or _NUMBER.fullmatch(part) or part.lower() in YES_OR_NO for part in parts)
        value = parsed if isinstance(parsed, list) else parts if len(parts) > 1 and are_answers else [text]
    return [_parse_answer(item) for item in (value if isinstance(value, list) else [value])]


def _parse_answer(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_parse_answer, value))
    if isinstance(value, str):
        text = value.strip()
        if is_no_answer(text):
            return None
        return (float if "." in text else int)(text) if _NUMBER.fullmatch(text) else value
    return None if isinstance(value, float) and math.isnan(value) else value


def is_no_answer(text: str) -> bool:
    """Return whether a text is empty or says that there is no answer, such as N/A, skip and "don't know"."""
    return not text.strip(_NO_WORD) or normalise_header(text) in _NO_ANSWERS.split()


def list_numbers(value: Any) -> list[float] | None:
    """List the numbers in a cell of answers, empty without any; None for a cell that holds anything else. Yes and no,
    also as true and false, give the ends of their scale, 0 and 1.
    """
    answers = [answer for answer in list_answers(value) if answer is not None]
    if answers and all(
        isinstance(answer, bool) or (isinstance(answer, str) and answer.lower() in YES_OR_NO) for answer in answers
    ):
        return [0, 1]
    is_number = all(isinstance(answer, int | float) and not isinstance(answer, bool) for answer in answers)
    return answers if is_number else None


def add_ratings(
    captions: list[Caption],
    fields: Mapping[str, Any],
    columns: Sequence[RatingColumn],
    rater: Any,
    place: Place,
) -> list[Caption]:
    """Return the captions of a row with their ratings: those of its only candidate, or in a list one for every
    candidate. Others are left out at the place of the row. rater: the cell that names who gave them, or has a
    name for each answer in a list; None without one.
    """
    places = [n for n, caption in enumerate(captions) if caption.role == "candidate"]
    for column in columns:
        answers = list_answers(cell := fields.get(column.name))
        if len(places) == 1:
            by_place = {places[0]: answers}
        elif len(answers) == len(places) and (len(places) or cell is not None):
            by_place = {
                n: answer if isinstance(answer, list) else [answer] for n, answer in zip(places, answers, strict=True)
            }
        elif all(answer is None for answer in answers):
            by_place = dict.fromkeys(places[:1], answers)
        else:
            remedy = ": give a list with one rating for each candidate"
            row = f"a row with {format_count(len(places), 'candidate')}{remedy if places else ''}"
            place.leave_out(f"ratings in column {column.name!r} of {row}")
            continue
        for n, of_candidate in by_place.items():
            before = captions[n].ratings
            # An object in the row's cell may have ratings of its own.
            n_before = sum(rating.aspect == column.aspect for rating in before)
            raters = _list_raters(column, rater, len(of_candidate), n_before)
            shown = f"{place.where}: {column.name}" + ("" if cell is None else f" {cell!r}")
            ratings = _build_ratings(column, of_candidate, raters, place._replace(where=shown))
            captions[n] = replace(captions[n], ratings=(*before, *ratings))
    return captions


def _list_raters(column: RatingColumn, cell: Any, n: int, n_before: int) -> list[str | int]:
    """List who gave `n` answers of a cell: a rater's name, or else the place in the cell."""
    names = cell if isinstance(cell, list) else _BETWEEN_RATERS.split(cell) if isinstance(cell, str) else []
    of_row = list(map(parse_id, names)) if len(names) == n else [parse_id(cell)] * n
    if column.mean_of and column.rater is None:
        return [f"mean of {column.mean_of}"] * n
    return [column.rater or name or place for place, name in enumerate(of_row, n_before + 1)]


def _build_ratings(
    column: RatingColumn, answers: Sequence[Any], raters: Sequence[str | int], place: Place
) -> Iterator[Rating]:
    scales = {column.aspect: column.scale} if column.scale else {}
    for answer, rater in zip(answers, raters, strict=True):
        if answer is None:
            place.leave_out("a rating that is empty or no answer, such as N/A or skip")
            continue
        value = int(answer) if isinstance(answer, float) and answer.is_integer() else answer
        rating = Rating(rater, column.aspect, value, column.mean_of)
        if place.accept_row("rating", rating.build_row("c", str(rater)), scales):
            place.findings.rating_scales |= {aspect: scale.name for aspect, scale in scales.items()}
            yield rating
