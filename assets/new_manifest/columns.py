"""Columns of a table, or fields of a JSON object, that hold the video, the caption and what is known about them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from assets.ingest.rows import ORIGIN_FIELDS, CaptionRow
from assets.new_manifest.findings import NoManifest
from assets.new_manifest.header_words import HEADER_WORDS, KNOWN_HEADERS, drop_form_prefix, normalise_header
from assets.new_manifest.ratings import RatingColumn, is_rating_name, parse_ratings
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
    """The names that the user gives for columns: `by_field` has the column of a field such as "reference", and all
    others are guessed. `ratings` are values of the option --rating, as `parse_ratings` takes them.
    """

    by_field: Mapping[str, str] = field(default_factory=dict)
    ratings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Columns:
    """A guess of what a table's columns hold: `by_field` has the name of the column of a field, such as `caption`,
    where there is one, and `ratings` are the columns of ratings. `column_names` are those that the user gave, and
    `given_names` those of them that the table has.
    """

    column_names: ColumnNames
    by_field: Mapping[str, str]
    ratings: tuple[RatingColumn, ...] = ()
    given_names: frozenset[str] = frozenset()

    def __getitem__(self, field: str) -> str | None:
        """Return the name of the column that holds a field; None where there is none."""
        return self.by_field.get(field)

    @property
    def meanings(self) -> dict[str, str]:
        """The meaning of every column that has one, such as "caption", by the column's name. A column of raters has one
        only where there are ratings.
        """
        unused = {*([] if self.ratings else ["rater"]), *([] if self.has_pairs else _OF_PAIRS)}
        meanings = {self.by_field[field]: field for field in FIELDS if field in self.by_field and field not in unused}
        by = {column.name: f" by {column.rater}" if column.rater else "" for column in self.ratings}
        return meanings | {column.name: f"ratings of {column.aspect!r}{by[column.name]}" for column in self.ratings}

    @property
    def has_video_and_text(self) -> bool:
        """Whether the table has a column of videos and one of texts about them, or those of questions and answers."""
        return "video" in self.by_field and (self.has_text or self.has_pairs)

    @property
    def has_pairs(self) -> bool:
        """Whether there are columns of questions and of answers."""
        return {"question", "answer"} <= self.by_field.keys()

    @property
    def has_text(self) -> bool:
        """Whether there is a column of captions, candidates or references."""
        return not self.by_field.keys().isdisjoint(("caption", "candidates", "reference"))

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


# What a column can hold, except ratings.
FIELDS = tuple(field for field in HEADER_WORDS if field != "rating")
_OF_PAIRS = ("question", "answer", "options", "qa_id")


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

    fields = [field for field in FIELDS if not (is_caption_file and field in ("video", "video_id", *_OF_PAIRS))]
    by_user = column_names.by_field
    columns = {field: find(by_user[field]) for field in fields if field in by_user}
    asked = parse_ratings(column_names.ratings, names)
    ratings = tuple(
        column._replace(name=found, aspect=drop_form_prefix(found) if column.aspect == column.name else column.aspect)
        for column in asked
        if (found := find(column.name)) is not None
    )

    def guess(field: str) -> str | None:
        if field not in columns:
            taken = {*columns.values(), *(column.name for column in ratings)}
            guesses = (by_name[name] for name in KNOWN_HEADERS[field] if name in by_name)
            columns[field] = next((column for column in guesses if column not in taken), None)
        return columns[field]

    named, unused = dict(columns), set(_OF_PAIRS)
    if not is_caption_file and guess("question") and guess("answer"):
        guess("options")
        # With a question they are answers.
        unused = set() if guess("caption") else {"candidates", "reference"}
    else:
        columns = named
    for name in fields:
        if name not in unused:
            guess(name)
    by_field = {field: column for field, column in columns.items() if column is not None}
    given = {name for field, name in by_user.items() if field in by_field}
    given |= {column.name for column in asked if find(column.name)}
    return Columns(column_names, by_field, ratings, frozenset(given))


def check_columns(where: str, names: Collection[str], columns: Columns) -> None:
    """Raise NoManifest unless a table has both a column of videos and one of texts about them. The message names the
    option that gives the column. where: name of the table, for the message. names: of all its columns.
    """
    listed = ", ".join(repr(name) for name in names)
    if columns["video"] is None:
        raise NoManifest(
            f"{where}: no column was recognised as the one of videos: choose one of {listed} with --column video=NAME"
        )
    if not columns.has_video_and_text:
        raise NoManifest(
            f"{where}: no column was recognised as the one of captions: choose one of {listed} with "
            "--column caption=NAME, or those of questions with --column question=NAME --column answer=NAME"
        )
