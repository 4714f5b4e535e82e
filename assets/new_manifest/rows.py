"""The captions, question-answer pairs and ratings in the rows of a table, and in JSON objects about one video."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from assets.ingest import hygiene, strict_json
from assets.ingest.hygiene import is_blank_text
from assets.ingest.rows import CaptionRow, MediaBytes
from assets.ingest.scales import YES_OR_NO
from assets.new_manifest.columns import (
    ColumnMap,
    ColumnNames,
    RatingColumn,
    guess_columns,
    is_rating_name,
    normalise_header,
)
from assets.new_manifest.findings import Caption, Pair, Place, Rating, Reason
from assets.words.text import format_count

_OWN_FIELDS = frozenset(CaptionRow.model_fields)
# Those who speak in a conversation and do not describe the video, and what stands for a video in a text.
_ASKING = frozenset(("human", "user", "system", "tool", "function"))
_PLACEHOLDER = re.compile(r"</?(?:video|image)>")
# Data-Juicer's marks of videos and of ends of parts inside a text.
_MARK = re.compile(r"<__dj__\w+>|<\|__dj__\w+\|>")
_LETTER = re.compile(r"\(?([A-Ha-h])[).:]?")
# Before an option, "(A) ", "A. " or "A: ".
_LETTER_BEFORE = re.compile(r"\(?[A-Ha-h](?:\)|[.:]) *")
# Columns with one option each, such as a0 or option_B.
_OPTION_COLUMN = re.compile(r"(?:a|answer|choice|opt|option)[\W_]*([0-9]{1,2}|(?<=[\W_n])[A-H])", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?[0-9]{1,300}(\.[0-9]*)?")
_BETWEEN_RATERS = re.compile(r"\s*[,;|]\s*")
_NO_WORD = " -–—?._/*#"
# As `normalise_header` returns them.
_NO_ANSWERS = """
    na skip skipped null none nan dk idk dontknow donotknow unknown unsure notsure notapplicable notrated unrated
    noanswer noresponse norating missing blank empty undefined canttell cannottell cantsay prefernottosay
    keineangabe weißnicht
"""


def parse_row(
    fields: Mapping[str, Any], columns: ColumnMap, place: Place
) -> tuple[tuple[Caption, ...], tuple[Pair, ...]]:
    """Return the captions and the question-answer pairs of a row. What cannot be read, and ratings of a row without a
    caption, are left out at the place of the row.
    """
    if not columns.has_pairs:
        return parse_row_captions(fields, columns, place), ()
    pairs = _parse_pairs(fields, columns, place)
    texts = [fields.get(name) for name in (columns["caption"], columns["candidates"], columns["reference"]) if name]
    if all(text is None or _is_blank(text) for text in texts):
        if columns.ratings:
            place.leave_out(Reason.RATED_QUESTION)
        return (), pairs
    known = {name: value for name, value in fields.items() if name in columns.meanings}
    return parse_row_captions(known, columns, place), pairs


def _parse_pairs(fields: Mapping[str, Any], columns: ColumnMap, place: Place) -> tuple[Pair, ...]:
    """Return the pairs of a row, one for every answer; a list of questions has a list with as many answers. An answer
    that is a letter or a number, counted from 0, is the option of that place. Other fields of the row go to its pairs.
    """
    place.findings.named_columns |= columns.given_names
    question, answer = fields.get(columns["question"] or ""), fields.get(columns["answer"] or "")
    if isinstance(question, list) and isinstance(answer, list) and len(question) == len(answer):
        asked = list(zip(question, answer, strict=True))
    else:
        asked = [(question, each) for each in (answer if isinstance(answer, list) and answer else [answer])]
    own = _collect_own_fields(fields, columns, place)
    if columns["options"] and (value := fields.get(columns["options"])) is not None:
        own[columns["options"]] = value
    options = _list_options(fields, columns)
    qa_id, system = (parse_id(fields.get(name or "")) for name in (columns["qa_id"], columns["system"]))
    pairs: dict[tuple[str, str], Pair] = {}
    for asked_question, asked_answer in asked:
        text, reply = _format_text(asked_question), _choose_answer(asked_answer, options, place)
        if reply is None:
            continue
        if not text or not reply:
            place.leave_out(Reason.NO_ANSWER if text else Reason.NO_QUESTION)
            continue
        pair = Pair(text, reply, qa_id, system, own)
        if place.accept_row("qa", pair.build_row("v", qa_id or "q")):
            pairs[text, reply] = pair
    return tuple(pairs.values())


def _list_options(fields: Mapping[str, Any], columns: ColumnMap) -> list[str]:
    """List the options of a row as text, from a list, an object or columns that are numbered or lettered."""
    value = fields.get(columns["options"] or "")
    if isinstance(value, dict):
        value = list(value.values())
    if value is None:
        named = [(match[1].zfill(2), name) for name in fields if (match := _OPTION_COLUMN.fullmatch(name))]
        value = [fields[name] for _, name in sorted(named)] if len(named) > 1 else []
    return list(map(_format_text, value)) if isinstance(value, list) else []


def _choose_answer(value: Any, options: list[str], place: Place) -> str | None:
    answer = _format_text(value)
    if not options or answer in options:
        return answer
    if letter := _LETTER.fullmatch(answer):
        n = ord(letter[1].upper()) - ord("A")
    elif answer.isdecimal():
        n = int(answer)
        place.findings.add_guess("answers that are numbers are places among the options, counted from 0")
    else:
        return answer
    if n >= len(options):
        place.leave_out(Reason.NO_OPTION, answer)
        return None
    return _LETTER_BEFORE.sub("", options[n], count=1)


def _format_text(value: Any) -> str:
    """Format a text or a number as text, and true and false as yes and no; "" for anything else."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not value.is_integer():
        return str(value)
    return value.strip() if isinstance(value, str) else parse_id(value) or ""


def parse_row_captions(
    fields: Mapping[str, Any], columns: ColumnMap, place: Place, base: Caption | None = None
) -> tuple[Caption, ...]:
    """Return the captions of a row: one for each text in its columns of captions, candidates and references. base:
    values for all captions of the row, such as the system. Captions that ingest would refuse are left out with the
    reason at the place of the row.

    Other fields of the row go to its captions, or to its references where it has no caption.
    """
    base = base or Caption("")
    place.findings.named_columns |= columns.given_names
    extra = {**base.extra, **_collect_own_fields(fields, columns, place)}
    row = replace(
        base,
        role=_parse_role(fields, columns, base, place),
        system=_parse_id(fields, columns["system"], place) or base.system,
        caption_id=_parse_id(fields, columns["caption_id"], place) or base.caption_id,
        segments=_parse_segments(fields, columns, place) or base.segments,
        extra=extra,
    )
    # Objects inside a cell have names of their own.
    column_names = replace(columns.column_names, by_field={})
    captions = list(_parse_texts(_find_cell(fields, columns["caption"]), row, column_names, place))
    captions += _parse_candidates(_find_cell(fields, columns["candidates"]), row, column_names, place)
    reference = Caption("", "reference", extra={} if captions else extra)
    references = list(_parse_texts(_find_cell(fields, columns["reference"]), reference, column_names, place))
    if not captions and not references:
        place.leave_out(Reason.NO_TEXT)
    rated = _add_ratings(captions, fields, columns.ratings, _find_cell(fields, columns["rater"]), place)
    return _filter_accepted([*rated, *references], place)


def parse_id(value: Any) -> str | None:
    """Return the id in a cell as text: a text without the white space around it, or a whole number, which pandas writes
    as 5.0 in a column with nulls. None for an empty text and any other value.

    >>> parse_id(" a "), parse_id(5.0), parse_id(float("inf")), parse_id([1]), parse_id(True)
    ('a', '5', None, None, None)
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value).strip() or None


def _list_answers(turns: list[Any]) -> list[str] | None:
    """Return the answers in the turns of a conversation, without marks of the video; None where it is none."""
    answers = []
    for turn in turns:
        fields = turn if isinstance(turn, dict) else {}
        speaker, content = fields.get("from", fields.get("role")), fields.get("value", fields.get("content"))
        if not isinstance(speaker, str) or content is None:
            return None
        if isinstance(content, list):
            content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        if speaker.lower() not in _ASKING:
            answers.append(_PLACEHOLDER.sub("", str(content)).strip())
    return answers if turns else None


def parse_captions(value: Any, column_names: ColumnNames, place: Place) -> tuple[Caption, ...]:
    """Return the captions in a JSON value: a text, an object with a field such as `caption`, or a list of these.
    Captions that ingest would refuse are left out at the place of the value.
    column_names: names of fields that the user gave.
    """
    return _filter_accepted(_parse_texts(value, Caption(""), column_names, place), place)


def _filter_accepted(captions: Iterable[Caption], place: Place) -> tuple[Caption, ...]:
    return tuple(
        caption
        for caption in captions
        if place.accept_row("caption", caption.build_row("v", caption.caption_id or "c"))
    )


def _parse_texts(value: Any, base: Caption, column_names: ColumnNames, place: Place) -> Iterator[Caption]:
    """Yield the captions in a value, which may be a text, an object with texts, or a list of these."""
    if isinstance(value, str):
        text = plain.strip() if (plain := _MARK.sub("", value)) != value else value
        if not _is_blank(text):
            yield replace(base, text=text)
    elif isinstance(value, list) and (answers := _list_answers(value)) is not None:
        if len(answers) > 1:
            place.leave_out(Reason.LATER_ANSWER, n=len(answers) - 1)
        yield from _parse_texts("".join(answers[:1]), base, column_names, place)
    elif isinstance(value, list):
        for item in value:
            if item is None or _is_blank(item):
                place.leave_out(Reason.EMPTY_IN_LIST)
            yield from _parse_texts(item, base, column_names, place)
    elif isinstance(value, dict) and (columns := _map_object(value, column_names)).has_text:
        place.findings.add_guess(
            f"captions in field {columns['caption'] or columns['candidates'] or columns['reference']!r} of JSON objects"
        )
        yield from parse_row_captions(value, columns, place, base)
    elif value is not None:
        place.leave_out(Reason.CAPTION_NOT_TEXT)


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and is_blank_text(value)


def _map_object(fields: Mapping[str, Any], column_names: ColumnNames) -> ColumnMap:
    return guess_columns(fields, column_names, is_caption_file=True)


def _parse_candidates(value: Any, row: Caption, column_names: ColumnNames, place: Place) -> list[Caption]:
    """Return the captions in a cell of candidates. Those of a list without names are of systems by their places."""
    value, row = _convert_systems(value, column_names), replace(row, role="candidate")
    if not isinstance(value, list) or row.system is not None:
        return list(_parse_texts(value, row, column_names, place))
    bases = [replace(row, system=f"candidate_{n}") for n in range(1, len(value) + 1)]
    parsed = [list(_parse_texts([item], base, column_names, place)) for item, base in zip(value, bases, strict=True)]
    if any(caption.system == base.system for base, some in zip(bases, parsed, strict=True) for caption in some):
        place.findings.add_guess(
            "the captions of a list are of systems candidate_1, candidate_2 .., by their places in it"
        )
    return [caption for some in parsed for caption in some]


def _convert_systems(value: Any, column_names: ColumnNames) -> Any:
    """Return candidates as a list: an object may have them by the name of their system."""
    if not isinstance(value, dict) or _map_object(value, column_names).has_text:
        return value
    return [{"system": name, **(item if isinstance(item, dict) else {"caption": item})} for name, item in value.items()]


def _collect_own_fields(fields: Mapping[str, Any], columns: ColumnMap, place: Place) -> dict[str, Any]:
    """Return every other field, unchanged; a value that a manifest cannot hold is left out with the reason."""
    kept, taken = {}, columns.meanings
    for name, value in fields.items():
        if name in taken or value is None:
            continue
        if isinstance(value, MediaBytes):
            place.leave_out(Reason.COLUMN_OF_FILES, column=name)
        elif name in _OWN_FIELDS:
            place.leave_out(Reason.COLUMN_LIKE_FIELD, column=name)
        elif (fault := hygiene.find_fault({name: value})) is not None:
            place.leave_out(Reason.REFUSED, name, kind="value", code=fault.code)
        else:
            kept[name] = value
            if is_rating_name(name):
                place.findings.add_possible_ratings(name, _list_numbers(value), columns["rater"])
    return kept


def _parse_role(
    fields: Mapping[str, Any], columns: ColumnMap, base: Caption, place: Place
) -> Literal["reference", "candidate"]:
    value = _find_cell(fields, columns["role"])
    role = value.strip().lower() if isinstance(value, str) else value
    if role == "reference":
        return "reference"
    if role is not None and role != "candidate":
        place.leave_out(Reason.BAD_ROLE)
        return "candidate"
    return base.role if role is None else "candidate"


def _parse_segments(fields: Mapping[str, Any], columns: ColumnMap, place: Place) -> Any:
    value = _find_cell(fields, columns["segments"])
    if value is not None and not isinstance(value, list):
        place.leave_out(Reason.BAD_SEGMENTS)
        return None
    return value


def _parse_id(fields: Mapping[str, Any], column: str | None, place: Place) -> str | None:
    value = _find_cell(fields, column)
    parsed = parse_id(value)
    if parsed is None and value is not None and not _is_blank(value):
        place.leave_out(Reason.BAD_ID, column=column)
    return parsed


def _find_cell(fields: Mapping[str, Any], column: str | None) -> Any:
    return None if column is None else fields.get(column)


def list_answers(value: Any) -> list[Any]:
    """Return the answers in a cell of ratings: one, or those of several raters in a list, which may be text. An answer
    is None where the cell is empty or says that there is none, else a number, or what the cell has.

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


def _list_numbers(value: Any) -> list[float] | None:
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


def _add_ratings(
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
            candidates = format_count(len(places), "candidate")
            reason = Reason.RATINGS_OF_SEVERAL if places else Reason.RATINGS_OF_NONE
            place.leave_out(reason, column=column.name, candidates=candidates)
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
            place.leave_out(Reason.EMPTY_RATING)
            continue
        value = int(answer) if isinstance(answer, float) and answer.is_integer() else answer
        rating = Rating(rater, column.aspect, value, column.mean_of)
        if place.accept_row("rating", rating.build_row("c", str(rater)), scales):
            place.findings.rating_scales |= {aspect: scale.name for aspect, scale in scales.items()}
            yield rating
