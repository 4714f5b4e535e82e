"""Columns of a table, or fields of a JSON object, that hold the video, the caption and what is known about them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from assets.ingest import hygiene, strict_json
from assets.ingest.hygiene import is_blank_text
from assets.ingest.rejects import CODES, Reject
from assets.ingest.rows import ORIGIN_FIELDS, CaptionRow, MediaBytes
from assets.new_manifest.findings import Caption, Findings, NoManifest, parse_id
from assets.new_manifest.header_words import KNOWN_HEADERS, drop_form_prefix, normalise_header
from assets.new_manifest.ratings import RatingColumn, add_ratings, is_rating_name, list_numbers, parse_ratings
from assets.new_manifest.tool_fields import remove_marks
from assets.words.text import format_count, join_names

_OWN_FIELDS = frozenset(CaptionRow.model_fields)
# The columns without a meaning that a sentence names.
_NAMED = 8
_LITERAL = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_NO_COMMA = re.compile(r"\0\s*\0")
# Those who speak in a conversation and do not describe the video, and what stands for a video in a text.
_ASKING = frozenset(("human", "user", "system", "tool", "function"))
_PLACEHOLDER = re.compile(r"</?(?:video|image)>")
_LIST = re.compile(r"""\[\s*['"{].*\]\s*""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ColumnNames:
    """The names that the user gives for columns: `by_meaning` has the column of a meaning such as "reference", and all
    other meanings are guessed. `ratings` are values of the option --rating, as `parse_ratings` takes them.
    """

    by_meaning: Mapping[str, str] = field(default_factory=dict)
    ratings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of a table's columns by their meaning, such as `caption` or `segments`; None where the table has no
    such column. `rater` is the column that may name the raters, which counts where there are `ratings`. `column_names`
    are those that the user gave, and `given_names` those of them that the table has.
    """

    column_names: ColumnNames
    video: str | None = None
    caption: str | None = None
    candidates: str | None = None
    reference: str | None = None
    system: str | None = None
    role: str | None = None
    video_id: str | None = None
    caption_id: str | None = None
    segments: str | None = None
    rater: str | None = None
    question: str | None = None
    answer: str | None = None
    options: str | None = None
    qa_id: str | None = None
    ratings: tuple[RatingColumn, ...] = ()
    given_names: frozenset[str] = frozenset()

    @property
    def meanings(self) -> dict[str, str]:
        """The meaning of every column that has one, such as "caption", by the column's name."""
        unused = {*([] if self.ratings else ["rater"]), *([] if self.has_pairs else PAIR_MEANINGS)}
        names = [meaning for meaning in MEANINGS if meaning not in unused]
        meanings: dict[str, str] = {getattr(self, meaning): meaning for meaning in names if getattr(self, meaning)}
        by = {column.name: f" by {column.rater}" if column.rater else "" for column in self.ratings}
        return meanings | {column.name: f"ratings of {column.aspect!r}{by[column.name]}" for column in self.ratings}

    @property
    def columns_with_lists(self) -> tuple[str, ...]:
        """The names of the columns whose cells may hold a list, if the table has them: videos, captions, candidates,
        references and segments.
        """
        captions = (self.caption, self.candidates, self.reference, self.segments)
        return tuple(filter(None, (self.video, *captions, self.question, self.answer, self.options)))

    @property
    def has_video_and_text(self) -> bool:
        """Whether the table has a column of videos and one of texts about them, or those of questions and answers."""
        return self.video is not None and (self.has_text or self.has_pairs)

    @property
    def has_pairs(self) -> bool:
        """Whether there are columns of questions and of answers."""
        return self.question is not None and self.answer is not None

    @property
    def has_text(self) -> bool:
        """Whether there is a column of captions, candidates or references."""
        return any((self.caption, self.candidates, self.reference))

    def format_guess(self) -> str:
        """Format the columns and their meanings as text, with commas between them, such as "video in column 'Video'".

        Columns without a meaning are left out.
        """
        return ", ".join(f"{meaning} in column {column!r}" for column, meaning in self.meanings.items())

    def format_unknown(self, names: Iterable[str]) -> str:
        """Format those names of columns that have no meaning here as text, "" without one. Columns that are offered as
        ratings, or hold the origin of videos, are not among them.
        """
        known = {*self.meanings, *ORIGIN_FIELDS}
        unknown = [name for name in names if name not in known]
        shown = [repr(name) for name in unknown if not is_rating_name(name)]
        more = [format_count(len(shown) - _NAMED, "more column")] if len(shown) > _NAMED else []
        return join_names([*shown[:_NAMED], *more])


PAIR_MEANINGS = ("question", "answer", "options", "qa_id")
# The meanings that a column can have, except ratings.
MEANINGS = tuple(Columns.__slots__[1:-2])


def guess_columns(
    names: Collection[str], column_names: ColumnNames | None = None, *, is_caption_file: bool = False
) -> Columns:
    """Guess the meaning of columns from their names, in small or capital letters; a name that the user gave in
    `column_names` comes before a guess. is_caption_file: `names` are the fields of a file that belongs to a video, so
    none names a video.

    >>> guess_columns(["Video", "caption", "fps"]).format_guess()
    "video in column 'Video', caption in column 'caption'"
    """
    column_names = column_names or ColumnNames()
    by_name: dict[str, str] = {}
    for name in names:
        by_name.setdefault(normalise_header(name), name)
    for name in names:
        by_name.setdefault(normalise_header(drop_form_prefix(name)), name)

    def find(wanted: str) -> str | None:
        return wanted if wanted in names else by_name.get(normalise_header(wanted))

    of_file = ("video", "video_id", *PAIR_MEANINGS)
    meanings = [meaning for meaning in MEANINGS if not (is_caption_file and meaning in of_file)]
    columns = {
        meaning: find(column_names.by_meaning[meaning]) for meaning in meanings if meaning in column_names.by_meaning
    }
    asked = parse_ratings(column_names.ratings, names)
    ratings = tuple(
        column._replace(name=found, aspect=drop_form_prefix(found) if column.aspect == column.name else column.aspect)
        for column in asked
        if (found := find(column.name)) is not None
    )

    def guess(meaning: str) -> str | None:
        if meaning not in columns:
            taken = {*columns.values(), *(column.name for column in ratings)}
            guesses = (by_name[name] for name in KNOWN_HEADERS[meaning] if name in by_name)
            columns[meaning] = next((column for column in guesses if column not in taken), None)
        return columns[meaning]

    named, unused = dict(columns), set[str](PAIR_MEANINGS)
    if not is_caption_file and guess("question") and guess("answer"):
        guess("options")
        # With a question they are answers.
        unused = set() if guess("caption") else {"candidates", "reference"}
    else:
        columns = named
    for meaning in meanings:
        if meaning not in unused:
            guess(meaning)
    given = {name for meaning, name in column_names.by_meaning.items() if columns.get(meaning)}
    given |= {column.name for column in asked if find(column.name)}
    return Columns(column_names, **columns, ratings=ratings, given_names=frozenset(given))


def check_columns(where: str, names: Collection[str], columns: Columns) -> None:
    """Raise NoManifest unless a table has both a column of videos and one of texts about them. The message names the
    option that gives the column. where: name of the table, for the message. names: of all its columns.
    """
    listed = ", ".join(repr(name) for name in names)
    if columns.video is None:
        raise NoManifest(
            f"{where}: no column was recognised as the one of videos: choose one of {listed} with --column video=NAME"
        )
    if not columns.has_video_and_text:
        raise NoManifest(
            f"{where}: no column was recognised as the one of captions: choose one of {listed} with "
            "--column caption=NAME, or those of questions with --column question=NAME --column answer=NAME"
        )


def parse_row_captions(
    fields: Mapping[str, Any], columns: Columns, where: str, findings: Findings, base: Caption | None = None
) -> tuple[Caption, ...]:
    """Return the captions of a row: one for each text in its columns of captions, candidates and references. base:
    values for all captions of the row, such as the system. Captions that ingest would refuse are left out with the
    reason in `findings`, where `where` names the row.

    Other fields of the row go to its captions, or to its references where it has no caption.
    """
    base = base or Caption("")
    findings.named_columns |= columns.given_names
    extra = {**base.extra, **collect_own_fields(fields, columns, where, findings)}
    row = replace(
        base,
        role=_parse_role(fields, columns, base, where, findings),
        system=_parse_id(fields, columns.system, where, findings) or base.system,
        caption_id=_parse_id(fields, columns.caption_id, where, findings) or base.caption_id,
        segments=_parse_segments(fields, columns, where, findings) or base.segments,
        extra=extra,
    )
    # Objects inside a cell have names of their own.
    column_names = replace(columns.column_names, by_meaning={})
    captions = list(_parse_texts(_find_cell(fields, columns.caption), row, column_names, where, findings))
    captions += _parse_candidates(_find_cell(fields, columns.candidates), row, column_names, where, findings)
    reference = Caption("", "reference", extra={} if captions else extra)
    references = list(_parse_texts(_find_cell(fields, columns.reference), reference, column_names, where, findings))
    if not captions and not references:
        findings.leave_out("a row whose caption has no text", where)
    rated = add_ratings(captions, fields, columns.ratings, _find_cell(fields, columns.rater), where, findings)
    return _filter_accepted([*rated, *references], where, findings)


def parse_list_cells(fields: Mapping[str, Any], columns: Columns, where: str, findings: Findings) -> dict[str, Any]:
    """Return the fields of a row, with the JSON lists in columns of texts and segments parsed. A cell that looks like a
    list and is not valid JSON is dropped, with the reason in `findings`, where `where` names the row.
    """
    parsed = dict(fields)
    for column in columns.columns_with_lists:
        value = fields.get(column)
        if not isinstance(value, str) or not value.lstrip().startswith("["):
            continue
        if (parsed_list := parse_list(value)) is not None:
            parsed[column] = parsed_list
        elif _LIST.fullmatch(value):
            findings.leave_out("a cell with a list that is not valid JSON: write it as JSON", f"{where}: {column}")
            del parsed[column]
    return parsed


def parse_list(value: Any) -> list[Any] | None:
    """Return a list, or the list that a text shows in JSON or as Python writes it; None for anything else.

    >>> parse_list("['A dog.', 'It runs.']"), parse_list('["A dog."]'), parse_list("['A dog.' 'It runs.']")
    (['A dog.', 'It runs.'], ['A dog.'], None)
    """
    if not isinstance(value, str) or not value.lstrip().startswith("["):
        return value if isinstance(value, list) else None
    parsed = strict_json.parse_json(value)
    # Python joins strings that have no comma between them, which is how NumPy writes a list.
    if isinstance(parsed, Reject) and not _NO_COMMA.search(_LITERAL.sub("\0", value)):
        try:
            parsed = strict_json.parse_json(json.dumps(ast.literal_eval(value.strip())))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None
    return parsed if isinstance(parsed, list) else None


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


def parse_captions(value: Any, column_names: ColumnNames, where: str, findings: Findings) -> tuple[Caption, ...]:
    """Return the captions in a JSON value: a text, an object with a field such as `caption`, or a list of these.
    Captions that ingest would refuse are left out with the reason in `findings`, where `where` names the source.
    column_names: names of fields that the user gave.
    """
    return _filter_accepted(_parse_texts(value, Caption(""), column_names, where, findings), where, findings)


def _filter_accepted(captions: Iterable[Caption], where: str, findings: Findings) -> tuple[Caption, ...]:
    return tuple(
        caption
        for caption in captions
        if findings.accept_row("caption", caption.build_row("v", caption.caption_id or "c"), where)
    )


def _parse_texts(
    value: Any, base: Caption, column_names: ColumnNames, where: str, findings: Findings
) -> Iterator[Caption]:
    """Yield the captions in a value, which may be a text, an object with texts, or a list of these."""
    if isinstance(value, str):
        if not is_blank_text(text := remove_marks(value)):
            yield replace(base, text=text)
    elif isinstance(value, list) and (answers := _list_answers(value)) is not None:
        if len(answers) > 1:
            findings.leave_out("a later answer in a conversation, which is no caption", where, len(answers) - 1)
        yield from _parse_texts("".join(answers[:1]), base, column_names, where, findings)
    elif isinstance(value, list):
        for item in value:
            if item is None or (isinstance(item, str) and is_blank_text(item)):
                findings.leave_out("a caption without text in a list", where)
            yield from _parse_texts(item, base, column_names, where, findings)
    elif isinstance(value, dict) and (columns := guess_columns(value, column_names, is_caption_file=True)).has_text:
        findings.add_guess(
            f"captions in field {columns.caption or columns.candidates or columns.reference!r} of JSON objects"
        )
        yield from parse_row_captions(value, columns, where, findings, base)
    elif value is not None:
        findings.leave_out("a caption that is not text", where)


def _parse_candidates(
    value: Any, row: Caption, column_names: ColumnNames, where: str, findings: Findings
) -> list[Caption]:
    """Return the captions in a cell of candidates. Those of a list without names are of systems by their places."""
    value, row = _convert_systems(value, column_names), replace(row, role="candidate")
    if not isinstance(value, list) or row.system is not None:
        return list(_parse_texts(value, row, column_names, where, findings))
    bases = [replace(row, system=f"candidate_{place}") for place in range(1, len(value) + 1)]
    parsed = [
        list(_parse_texts([item], base, column_names, where, findings)) for item, base in zip(value, bases, strict=True)
    ]
    if any(caption.system == base.system for base, some in zip(bases, parsed, strict=True) for caption in some):
        findings.add_guess("the captions of a list are of systems candidate_1, candidate_2 .., by their places in it")
    return [caption for some in parsed for caption in some]


def _convert_systems(value: Any, column_names: ColumnNames) -> Any:
    """Return candidates as a list: an object may have them by the name of their system."""
    if not isinstance(value, dict) or guess_columns(value, column_names, is_caption_file=True).has_text:
        return value
    return [{"system": name, **(item if isinstance(item, dict) else {"caption": item})} for name, item in value.items()]


def collect_own_fields(fields: Mapping[str, Any], columns: Columns, where: str, findings: Findings) -> dict[str, Any]:
    """Return every other field, unchanged; a value that a manifest cannot hold is left out with the reason."""
    kept, taken = {}, columns.meanings
    for name, value in fields.items():
        if name in taken or value is None:
            continue
        if isinstance(value, MediaBytes):
            findings.leave_out(
                f"column {name!r}, since its cells hold files, which a manifest's tables cannot hold", where
            )
        elif name in _OWN_FIELDS:
            why = f"column {name!r}, since a manifest has a field of this name with another meaning: rename the column"
            findings.leave_out(why, where)
        elif (fault := hygiene.find_fault({name: value})) is not None:
            findings.leave_out(
                f"a value that ingest would refuse ({fault.code}): {CODES[fault.code]}", f"{where}: {name}"
            )
        else:
            kept[name] = value
            if is_rating_name(name):
                findings.add_possible_ratings(name, list_numbers(value), columns.rater)
    return kept


def _parse_role(
    fields: Mapping[str, Any], columns: Columns, base: Caption, where: str, findings: Findings
) -> Literal["reference", "candidate"]:
    value = _find_cell(fields, columns.role)
    role = value.strip().lower() if isinstance(value, str) else value
    if role == "reference":
        return "reference"
    if role is not None and role != "candidate":
        findings.leave_out(
            "a role that is neither 'reference' nor 'candidate': the caption counts as a candidate", where
        )
        return "candidate"
    return base.role if role is None else "candidate"


def _parse_segments(fields: Mapping[str, Any], columns: Columns, where: str, findings: Findings) -> Any:
    value = _find_cell(fields, columns.segments)
    if value is not None and not isinstance(value, list):
        findings.leave_out("segments that are not a list: the caption is kept without them", where)
        return None
    return value


def _parse_id(fields: Mapping[str, Any], column: str | None, where: str, findings: Findings) -> str | None:
    value = _find_cell(fields, column)
    parsed = parse_id(value)
    if parsed is None and value is not None and not (isinstance(value, str) and is_blank_text(value)):
        why = f"a value of column {column!r} that is neither text nor a whole number: the caption is kept without it"
        findings.leave_out(why, where)
    return parsed


def _find_cell(fields: Mapping[str, Any], column: str | None) -> Any:
    return None if column is None else fields.get(column)
