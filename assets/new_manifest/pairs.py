"""Question-answer pairs in the rows of a table, whose answers may be one of some options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from assets.ingest.hygiene import is_blank_text
from assets.new_manifest.columns import Columns, collect_own_fields, parse_list, parse_row_captions
from assets.new_manifest.findings import Caption, Findings, Pair, parse_id

_LETTER = re.compile(r"\(?([A-Ha-h])[).:]?")
# Before an option, "(A) ", "A. " or "A: ".
_LETTER_BEFORE = re.compile(r"\(?[A-Ha-h](?:\)|[.:]) *")
# Columns with one option each, such as a0 or option_B.
_OPTION_COLUMN = re.compile(r"(?:a|answer|choice|opt|option)[\W_]*([0-9]{1,2}|(?<=[\W_n])[A-H])", re.IGNORECASE)


def parse_row(
    fields: Mapping[str, Any], columns: Columns, where: str, findings: Findings
) -> tuple[tuple[Caption, ...], tuple[Pair, ...]]:
    """Return the captions and the question-answer pairs of a row. What cannot be read, and ratings of a row without a
    caption, are left out with the reason in `findings`, where `where` names the row.
    """
    if not columns.has_pairs:
        return parse_row_captions(fields, columns, where, findings), ()
    pairs = _parse_pairs(fields, columns, where, findings)
    texts = [fields.get(name) for name in (columns.caption, columns.candidates, columns.reference) if name]
    if all(text is None or (isinstance(text, str) and is_blank_text(text)) for text in texts):
        if columns.ratings:
            findings.leave_out("ratings of a question, since people rate only captions", where)
        return (), pairs
    known = {name: value for name, value in fields.items() if name in columns.meanings}
    return parse_row_captions(known, columns, where, findings), pairs


def _parse_pairs(fields: Mapping[str, Any], columns: Columns, where: str, findings: Findings) -> tuple[Pair, ...]:
    """Return the pairs of a row, one for every answer; a list of questions has a list with as many answers. An answer
    that is a letter or a number, counted from 0, is the option of that place. Other fields of the row go to its pairs.
    """
    findings.named_columns |= columns.given_names
    question, answer = fields.get(columns.question or ""), fields.get(columns.answer or "")
    if isinstance(question, list) and isinstance(answer, list) and len(question) == len(answer):
        asked = list(zip(question, answer, strict=True))
    else:
        asked = [(question, each) for each in (answer if isinstance(answer, list) and answer else [answer])]
    own = collect_own_fields(fields, columns, where, findings)
    if columns.options and (value := fields.get(columns.options)) is not None:
        own[columns.options] = value
    options = _list_options(fields, columns)
    qa_id, system = (parse_id(fields.get(name or "")) for name in (columns.qa_id, columns.system))
    pairs: dict[tuple[str, str], Pair] = {}
    for asked_question, asked_answer in asked:
        text, reply = _format_text(asked_question), _choose_answer(asked_answer, options, where, findings)
        if reply is None:
            continue
        if not text or not reply:
            findings.leave_out(f"a row without {'an answer' if text else 'a question'} as text", where)
            continue
        pair = Pair(text, reply, qa_id, system, own)
        if findings.accept_row("qa", pair.build_row("v", qa_id or "q"), where):
            pairs[text, reply] = pair
    return tuple(pairs.values())


def _list_options(fields: Mapping[str, Any], columns: Columns) -> list[str]:
    """List the options of a row as text, from a list, an object or columns that are numbered or lettered."""
    value = fields.get(columns.options or "")
    if isinstance(value, dict):
        value = list(value.values())
    if value is None:
        named = [(match[1].zfill(2), name) for name in fields if (match := _OPTION_COLUMN.fullmatch(name))]
        value = [fields[name] for _, name in sorted(named)] if len(named) > 1 else []
    return [_format_text(option) for option in parse_list(value) or ()]


def _choose_answer(value: Any, options: list[str], where: str, findings: Findings) -> str | None:
    answer = _format_text(value)
    if not options or answer in options:
        return answer
    if letter := _LETTER.fullmatch(answer):
        place = ord(letter[1].upper()) - ord("A")
    elif answer.isdecimal():
        place = int(answer)
        findings.add_guess("answers that are numbers are places among the options, counted from 0")
    else:
        return answer
    if place >= len(options):
        findings.leave_out("an answer that names none of the options", f"{where}: {answer}")
        return None
    return _LETTER_BEFORE.sub("", options[place], count=1)


def _format_text(value: Any) -> str:
    """Format a text or a number as text, and true and false as yes and no; "" for anything else."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not value.is_integer():
        return str(value)
    return value.strip() if isinstance(value, str) else parse_id(value) or ""
