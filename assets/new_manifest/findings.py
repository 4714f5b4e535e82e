"""The findings about a source of data: its videos with captions, what was guessed, and what was left out and why."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from assets.ingest.rejects import CODES, Code, Reject
from assets.ingest.rows import MAX_ID, RawRow
from assets.ingest.scales import DEFAULT_SCALE, NO_SCALES, Scale
from assets.ingest.validate import validate_row

# The system of a caption whose source names none.
UNNAMED_SYSTEM = "captions"
# Characters of a thing's name that are shown: paths may have thousands.
_SHOWN = 200
_DIGITS = 16
# On which people rate, the likeliest first.
_SCALES = ((1, 5), (1, 7), (0, 5), (1, 10), (0, 10), (0, 100))


class NoManifest(ValueError):
    """Raised when no manifest can be made of this source, or not at this place; the message names the remedy."""

    plain = True


class Rating(NamedTuple):
    """A person's number for one aspect of a caption, or the mean of `mean_of` people's. `rater` and `aspect` are names,
    and `value` is what the source has.
    """

    rater: str
    aspect: str
    value: Any
    mean_of: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of a row of table `ratings` without the caption's id."""
        return {name: value for name, value in self._asdict().items() if value is not None}


@dataclass(frozen=True, slots=True)
class Caption:
    """A caption of a video, before it has its id in the manifest; `system` and `caption_id` are None where the source
    gives none. `segments` are objects of `start_s` and `end_s` in seconds and `text`. `extra` are its other fields, and
    `ratings` are by people.
    """

    text: str
    role: Literal["reference", "candidate"] = "candidate"
    system: str | None = None
    caption_id: str | None = None
    segments: Sequence[Mapping[str, Any]] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    ratings: Sequence[Rating] = ()

    @property
    def manifest_system(self) -> str | None:
        """The caption's system as the manifest names it: its own, else "captions" for a candidate and None for a
        reference.
        """
        return self.system or (None if self.role == "reference" else UNNAMED_SYSTEM)

    def build_row(self, video_id: str, caption_id: str) -> dict[str, Any]:
        """Build the row of table `captions` as a dict, with the other fields and without those that are None; ratings
        are not in it. video_id, caption_id: the ids in the manifest.
        """
        row = {
            "caption_id": caption_id,
            "video_id": video_id,
            "role": self.role,
            "system": self.manifest_system,
            "text": self.text,
            "segments": self.segments,
            **self.extra,
        }
        return {name: value for name, value in row.items() if value is not None}


@dataclass(frozen=True, slots=True)
class CaptionedVideo:
    """A video and some of its captions, or none. `path` is its path or address as the manifest writes it; None for a
    video that is text only. `fields` are its other fields in the manifest, and `vectors` rows of table `vectors` about
    it.
    """

    video_id: str
    path: str | None
    captions: tuple[Caption, ...]
    fields: Mapping[str, Any] = field(default_factory=dict)
    vectors: Sequence[Mapping[str, Any]] = ()

    def build_row(self) -> dict[str, Any]:
        """Build the row of table `videos` as a dict, with the other fields, and without a path for text only."""
        return {"video_id": self.video_id, **({"path": self.path} if self.path else {}), **self.fields}


@dataclass(slots=True)
class LeftOut:
    """The number `n` of things that were left out for one reason, and the name of the first."""

    first: str
    n: int = 0


@dataclass(slots=True)
class Findings:
    """A record of the guesses about a source, as sentences, and of the things that were left out, by reason.
    `possible_ratings` are fields that may be ratings, with their least and greatest number and whether all are whole.
    `named_columns` are those names of columns that the user gave and a row has, as `normalise_header` returns them.
    `rating_scales` are the names of declared scales by aspect.
    """

    guesses: list[str] = field(default_factory=list)
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    possible_ratings: dict[str, tuple[float, float, bool]] = field(default_factory=dict)
    named_columns: set[str] = field(default_factory=set)
    rating_scales: dict[str, str] = field(default_factory=dict)

    def add_guess(self, sentence: str) -> None:
        """Add a guess about the source, a sentence, unless it is there already."""
        if sentence not in self.guesses:
            self.guesses.append(sentence)

    def leave_out(self, reason: str, thing: str, n: int = 1) -> None:
        """Count `n` things that do not go into the manifest, for this reason. `thing` names them; the name of the first
        thing for a reason is kept, cut at 200 characters.
        """
        excerpt = thing if len(thing) <= _SHOWN else f"{thing[:_SHOWN]}.."
        self.left_out.setdefault(reason, LeftOut(excerpt)).n += n

    def add_possible_ratings(self, column: str, numbers: Sequence[float]) -> None:
        """Note the numbers of a column that may hold ratings: least, greatest, and whether all are whole. No numbers
        change nothing.
        """
        if numbers:
            least, most, are_whole = self.possible_ratings.get(column, (numbers[0], numbers[0], True))
            are_whole = are_whole and all(number == int(number) for number in numbers)
            self.possible_ratings[column] = (min(least, *numbers), max(most, *numbers), are_whole)

    @property
    def rating_options(self) -> list[str]:
        """The values of the option --rating for the columns whose numbers lie on a usual scale of people, in the order
        of the source, such as "score" for whole numbers from 1 to 5, "score=0-100" and "mos=1-5, mean of 3".
        """
        return [
            _format_rating_option(column, *numbers)
            for column, numbers in self.possible_ratings.items()
            if _guess_scale(*numbers) != "real"
        ]

    def explain_possible_ratings(self) -> list[str]:
        """List a sentence for every column that may hold ratings: its range, and the option that makes them ratings. It
        names what the numbers do not show: a scale other than the usual one, and how many raters a mean is of.
        """
        return [
            f"column {column!r} holds numbers from {numbers[0]:g} to {numbers[1]:g}: "
            + _explain_rating_option(column, *numbers)
            for column, numbers in self.possible_ratings.items()
        ]

    def accept_row(
        self, kind: str, row: Mapping[str, Any], where: str, scales: Mapping[str, Scale] = NO_SCALES
    ) -> bool:
        """Return whether a row of a manifest's table is valid for ingest by itself; if not, count it as left out, with
        the reason of ingest. kind: of the row. where: how people find it. scales: of ratings, by aspect.
        """
        checked = validate_row(RawRow("", 0, kind, dict(row), None, ""), scales=scales)
        if isinstance(checked, Reject):
            self.leave_out_refused(kind, checked.code, where)
        return not isinstance(checked, Reject)

    def leave_out_refused(self, kind: str, code: Code, where: str) -> None:
        """Count something that ingest would refuse as left out, with the sentence of this reject code. kind: a word for
        it. where: how people find it.
        """
        self.leave_out(f"a {kind} that ingest would refuse ({code}): {CODES[code]}", where)

    def format_left_out(self) -> str:
        """Format what was left out as text: every reason with the number of things and the first one; "" where nothing
        was.
        """
        return "; ".join(f"{row['left out']} ({row['n']}, such as {row['first']})" for row in self.list_left_out())

    def list_left_out(self) -> list[dict[str, Any]]:
        """List what was left out, a dict for each reason: `left out` is the reason, `n` the number of things, and
        `first` the name of the first.
        """
        return [{"left out": reason, "n": things.n, "first": things.first} for reason, things in self.left_out.items()]


def _guess_scale(least: float, most: float, are_whole: bool) -> str:
    """Return the name of the first usual scale that has these numbers, "real" where none has: fractions up to 1 are
    more often a model's than people's.
    """
    if least >= 0 and most <= 1 and (not are_whole or least == 0):
        return "yes-no" if are_whole else "real"
    return next((f"{first}-{last}" for first, last in _SCALES if first <= least and most <= last), "real")


def _format_rating_option(column: str, least: float, most: float, are_whole: bool) -> str:
    """Return the value of the option --rating that reads a column of such numbers."""
    scale = _guess_scale(least, most, are_whole)
    if scale == DEFAULT_SCALE.name and are_whole:
        return column
    return f"{column}={scale}" + (", mean of 3" if not are_whole and scale != "real" else "")


def _explain_rating_option(column: str, least: float, most: float, are_whole: bool) -> str:
    """Return how the option --rating reads a column of such numbers."""
    scale = _guess_scale(least, most, are_whole)
    option = f"--rating {shlex.quote(_format_rating_option(column, least, most, are_whole))}"
    if scale == DEFAULT_SCALE.name and are_whole:
        return f"{option} makes them ratings of people, of aspect {column!r} on the scale from 1 to 5"
    if are_whole or scale == "real":
        return f"{option} makes them ratings of people; if their scale was another one, name it in place of {scale}"
    return f"{option} makes them mean ratings of people; name the number of raters in place of 3"


def shorten_id(wanted: str) -> str:
    """Return the id unchanged if a manifest can hold it, in 512 bytes of UTF-8. Of a longer one return the beginning,
    with a digest of the whole.
    """
    if len(wanted.encode("utf-8", "replace")) <= MAX_ID:
        return wanted
    digest = hashlib.sha256(wanted.encode("utf-8", "replace")).hexdigest()[:_DIGITS]
    return f"{wanted.encode()[: MAX_ID - 2 * _DIGITS].decode('utf-8', 'ignore')}~{digest}"


def parse_id(value: Any) -> str | None:
    """Return the id in a cell as text, or None: a text without white space around it, or a whole number, which pandas
    writes as 5.0 in a column with nulls. An empty text gives None.

    >>> parse_id(" a "), parse_id(5.0), parse_id(float("inf")), parse_id([1]), parse_id(True)
    ('a', '5', None, None, None)
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value).strip() or None
