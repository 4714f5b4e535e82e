"""The findings about a source of data: its videos with captions, what was guessed, and what was left out and why."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from assets.ingest.rejects import CODES, Code, Reject
from assets.ingest.rows import MAX_ID, RawRow
from assets.ingest.scales import NO_SCALES, Scale
from assets.ingest.validate import validate_row

# The system of a caption whose source names none.
UNNAMED_SYSTEM = "captions"
KEPT_FOR_FACTS = "a video without a caption is kept for its facts"
# Characters of a thing's name that are shown: paths may have thousands.
_SHOWN = 200
_DIGITS = 16


class NoManifest(ValueError):
    """Raised when no manifest can be made of this source, or not at this place; the message names the remedy."""

    plain = True


class Rating(NamedTuple):
    """A person's number for one aspect of a caption, or the mean of `mean_of` people's. `rater` is a name, or the place
    of an unnamed rater among others; `aspect` is a name, and `value` what the source has.
    """

    rater: str | int
    aspect: str
    value: Any
    mean_of: int | None = None

    def build_row(self, caption_id: str, rater: str) -> dict[str, Any]:
        """Build the row of table `ratings` as a dict, of the caption with this id in the manifest, by this rater."""
        mean_of = {} if self.mean_of is None else {"mean_of": self.mean_of}
        return {"caption_id": caption_id, "rater": rater, "aspect": self.aspect, "value": self.value, **mean_of}


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


class Pair(NamedTuple):
    """A question about a video and the answer to it; `qa_id` and `system` are None where the source gives none. `extra`
    are its other fields.
    """

    question: str
    answer: str
    qa_id: str | None = None
    system: str | None = None
    extra: Mapping[str, Any] = {}

    def build_row(self, video_id: str, qa_id: str) -> dict[str, Any]:
        """Build the row of table `qa` as a dict, with the other fields. video_id, qa_id: the ids in the manifest."""
        system = {} if self.system is None else {"system": self.system}
        asked = {"video_id": video_id, "question": self.question, "answer": self.answer, **system}
        return {"qa_id": qa_id, **asked, **self.extra}


@dataclass(frozen=True, slots=True)
class CaptionedVideo:
    """A video and some of its captions, or none. `path` is its path or address as the manifest writes it; None for a
    video that is text only. `fields` are its other fields in the manifest, and `vectors` rows of table `vectors` about
    it.

    `where` is how people find the row that it comes from, and `pairs` are questions about it with answers.
    """

    video_id: str
    path: str | None
    captions: tuple[Caption, ...]
    fields: Mapping[str, Any] = field(default_factory=dict)
    vectors: Sequence[Mapping[str, Any]] = ()
    where: str = ""
    pairs: tuple[Pair, ...] = ()

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
    `possible_ratings` are fields that may be ratings, with their least and greatest number and whether all are whole,
    or None for one that also holds something else; `possible_raters` is the field that may name the raters.

    `named_columns` are those names of columns that the user gave and a row has. `rating_scales` are the names of
    declared scales by aspect, and `unread_tables` says why whole tables cannot be read.
    """

    guesses: list[str] = field(default_factory=list)
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    possible_ratings: dict[str, tuple[float, float, bool] | None] = field(default_factory=dict)
    possible_raters: str | None = None
    named_columns: set[str] = field(default_factory=set)
    rating_scales: dict[str, str] = field(default_factory=dict)
    unread_tables: dict[str, None] = field(default_factory=dict)

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

    def leave_out_table(self, error: Exception | str, where: str, *, is_whole: bool) -> None:
        """Count a table that cannot be read as left out, or the rest of one. where: how people find the place."""
        if is_whole:
            self.unread_tables[str(error)] = None
        self.leave_out(f"{'a table' if is_whole else 'the rest of a table'} that cannot be read: {error}", where)

    def add_possible_ratings(self, column: str, numbers: Sequence[float] | None, raters: str | None) -> None:
        """Note the numbers of a cell that may hold ratings: least, greatest, and whether all are whole. No numbers
        change nothing, and with None the column holds no ratings. raters: the column that may name who gave them.
        """
        before = self.possible_ratings.get(column, ())
        if numbers is None or before is None:
            self.possible_ratings[column] = None
        elif numbers:
            least, most, are_whole = before or (numbers[0], numbers[0], True)
            are_whole = are_whole and all(number == int(number) for number in numbers)
            self.possible_ratings[column] = (min(least, *numbers), max(most, *numbers), are_whole)
            self.possible_raters = self.possible_raters or raters

    def accept_row(
        self, kind: str, row: Mapping[str, Any], where: str, scales: Mapping[str, Scale] = NO_SCALES
    ) -> bool:
        """Return whether a row of a manifest's table is valid for ingest by itself; if not, count it as left out, with
        the reason of ingest. kind: of the row. where: how people find it. scales: of ratings, by aspect.
        """
        checked = validate_row(RawRow("", 0, kind, dict(row), None, ""), scales=scales)
        if isinstance(checked, Reject):
            self.leave_out_refused("question-answer pair" if kind == "qa" else kind, checked.code, where)
        return not isinstance(checked, Reject)

    def leave_out_refused(self, kind: str, code: Code, where: str) -> None:
        """Count something that ingest would refuse as left out, with the sentence of this reject code. kind: a word for
        it. where: how people find it.
        """
        self.leave_out(explain_refused(kind, code), where)

    def leave_out_unreadable(self, kind: str, code: Code, where: str) -> None:
        """Count something that cannot be read as left out, with the sentence of this reject code. kind: a word for it.
        where: how people find it.
        """
        self.leave_out(f"{kind} that cannot be read ({code}): {CODES[code]}", where)

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


class Place(NamedTuple):
    """A row or file of the source, whose findings are noted: `where` is how people find it."""

    findings: Findings
    where: str

    def leave_out(self, reason: str, part: str | None = None, n: int = 1) -> None:
        """Count `n` things of this place as left out for this reason. part: a name for what is left out of it."""
        self.findings.leave_out(reason, self.where if part is None else f"{self.where}: {part}", n)

    def accept_row(self, kind: str, row: Mapping[str, Any], scales: Mapping[str, Scale] = NO_SCALES) -> bool:
        """Return whether a row made of this place is valid, as `Findings.accept_row` does."""
        return self.findings.accept_row(kind, row, self.where, scales)


def explain_refused(kind: str, code: Code) -> str:
    """Return why something that ingest would refuse with this code is left out. kind: a word for it."""
    return f"a {kind} that ingest would refuse ({code}): {CODES[code]}"


def shorten_id(wanted: str) -> str:
    """Return the id unchanged if a manifest can hold it, in 512 bytes of UTF-8. Of a longer one return the beginning,
    with a digest of the whole.
    """
    if len(wanted.encode("utf-8", "replace")) <= MAX_ID:
        return wanted
    digest = hashlib.sha256(wanted.encode("utf-8", "replace")).hexdigest()[:_DIGITS]
    return f"{wanted.encode()[: MAX_ID - 2 * _DIGITS].decode('utf-8', 'ignore')}~{digest}"
