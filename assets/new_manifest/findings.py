"""The findings about a source of data: its videos with captions, what was guessed, and what was left out and why."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple

from assets.ingest.lines import MAX_ROW_BYTES
from assets.ingest.rejects import CODES, Code, Reject
from assets.ingest.rows import MAX_DIM, MAX_ID, RawRow
from assets.ingest.scales import NO_SCALES, Scale
from assets.ingest.validate import validate_row
from metrics_core.git_lfs import GIT_LFS_REMEDY

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
    """A person's number for one aspect of a caption, or the mean of `mean_of` people's. `rater` is a name, or the
    number of an unnamed rater among others; `aspect` is a name, and `value` what the source has.
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


class Reason(Enum):
    """A reason for which things are left out. Its name is the code, and its value the sentence, with the details that
    it names in braces.
    """

    HIDDEN_FILE = "a hidden file or folder"
    UNREADABLE_FOLDER = "a folder that cannot be read ({error})"
    UNREADABLE_FILE = "a file that cannot be read ({error})"
    BAD_NAME = "a file whose name is not valid UTF-8, or has control characters"
    LINK_TO_FOLDER = "a link to a folder, which is not followed: put the folder itself there"
    LINK_OUT = "a link that leads out of the folder: give the folder above, {above}"
    GIT_LFS_POINTER = GIT_LFS_REMEDY
    REFUSED = "a {kind} that ingest would refuse ({code}): {rule}"
    UNREADABLE = "{kind} that cannot be read ({code}): {rule}"
    JSON_OF_NO_VIDEO = "a JSON file that belongs to no video: if it has captions of several, give its path"
    PACKED_FILE = "a packed file: unpack it"
    LANCE_TABLE = "a Lance table, which is read with --from lance"
    OTHER_FILE = "a file that is neither video, caption file, table nor tar shard"
    CAPTION_WITHOUT_VIDEO = "a caption file without a video"
    TABLE_BY_CAPTION_FILES = (
        "a table that was not read, since the caption files are used: to use it instead, give its path"
    )
    VIDEO_IN_NO_TABLE = "a video without a caption in a table"
    CAPTION_FILE_BY_TABLE = "a caption file that was not read, since the captions come from a table"
    TABLE_WITHOUT_COLUMNS = "a table without a column of videos or without one of captions"
    VIDEO_BY_SHARDS = "a video file that was not read, since the videos come from tar shards"
    CAPTION_FILE_BY_SHARDS = "a caption file that was not read, since the captions come from tar shards"
    TABLE_BY_SHARDS = "a table that was not read, since the tar shards are used: to use it instead, give its path"
    VIDEO_OF_NO_METADATA = "a video that no metadata of the tool names"
    TOOL_FILE_OF_NO_CLIP = "a file of the tool that names no clip"
    TABLE_WITHOUT_TOOL = "a table without videos, captions and numbers of the tool"
    SHARD_BY_TOOL = "a tar shard, since the clips come from the tool's folder"
    FILE_OF_NO_TOOL = "a file that holds neither clips nor metadata"
    UNREADABLE_TABLE = "a table that cannot be read: {error}"
    REST_OF_TABLE = "the rest of a table that cannot be read: {error}"
    ROW_NOT_UTF_8 = "a row that cannot be read (invalid_utf8): save the file as UTF-8"
    NOT_ONE_VIDEO = "a row that names no video, or several"
    BAD_VIDEO_ID = "a row whose video_id is neither text nor a whole number"
    NO_VIDEO = "a row without a video"
    VIDEO_NOT_TEXT = "a row whose video is not text"
    UNNAMED_COLUMN = "a column without a name"
    NAN_CELL = "a cell with nan in a column of numbers"
    BAD_LIST = "a cell with a list that is not valid JSON: write it as JSON"
    BAD_VIDEO_NAME = "a row whose video's name has control characters or is not valid Unicode"
    VIDEO_OUTSIDE = "a row whose video is outside the folder: name its folder in REELSIEVE_MEDIA_ROOTS"
    VIDEO_NOT_IN_FOLDER = "a row whose video file is not in the folder"
    FILE_NOT_IN_FOLDER = "the file of a row's video, which is not in the folder: the row is text only"
    TAKEN_VIDEO_ID = "a row with the video_id of another video"
    REFUSED_ADDRESS = "an address that ingest would refuse: {error}"
    AMBIGUOUS_VIDEO = "a row whose video name fits several files: write the file's path"
    REFUSED_VIDEO = "a row whose video is {fault}"
    BAD_PATH = "a video whose name leads out of the folder or cannot be a file's name"
    UNWRITABLE_VIDEO = "a video that cannot be written ({error})"
    REFUSED_MEMBER = "{why}"
    REST_OF_SHARD = "the rest of a damaged shard ({damage})"
    HIDDEN_MEMBER = "a hidden file in a shard"
    SPARSE_MEMBER = "a sparse file in a shard: pack it without holes"
    IRREGULAR_MEMBER = "an entry of a shard that is not a regular file"
    CODE_MEMBER = "a file in a shard that was not read, since its format can hold code"
    OTHER_MEMBER = "a file in a shard that is neither a video nor a caption file"
    CAPTION_WITHOUT_MEMBER = "a caption without a video"
    CAPTION_APART = (
        "a caption without a video: in a compressed shard the members of a sample must follow each other, as tar "
        "--sort=name puts them"
    )
    LATER_CAPTION_FILE = "a caption that was not used, since another file comes first (.txt, then .json, .vtt, .srt)"
    EMPTY_CAPTION_FILE = "a caption file without a caption"
    LONG_CAPTION_FILE = f"a caption file of more than {MAX_ROW_BYTES} bytes"
    CAPTION_FILE_NOT_UTF_8 = "a caption file that is not valid UTF-8: save it as UTF-8"
    BAD_JSON_CAPTION_FILE = "a caption file that is not valid JSON ({code})"
    UNSORTED_CUE = "the place of a cue of subtitles that is out of order: cues are sorted by their times"
    REPEATED_CUE = "a cue of subtitles that is there twice"
    CUE_WITHOUT_END = "the end of a cue of subtitles that lies before its beginning: the text is kept"
    TEXT_BEFORE_CUES = "text of subtitles before the first times"
    UNREADABLE_CUE = "a cue of subtitles whose times cannot be read"
    RATED_QUESTION = "ratings of a question, since people rate only captions"
    NO_ANSWER = "a row without an answer as text"
    NO_QUESTION = "a row without a question as text"
    NO_OPTION = "an answer that names none of the options"
    NO_TEXT = "a row whose caption has no text"
    LATER_ANSWER = "a later answer in a conversation, which is no caption"
    EMPTY_IN_LIST = "a caption without text in a list"
    CAPTION_NOT_TEXT = "a caption that is not text"
    COLUMN_OF_FILES = "column {column!r}, since its cells hold files, which a manifest's tables cannot hold"
    COLUMN_LIKE_FIELD = (
        "column {column!r}, since a manifest has a field of this name with another meaning: rename the column"
    )
    BAD_ROLE = "a role that is neither 'reference' nor 'candidate': the caption counts as a candidate"
    BAD_SEGMENTS = "segments that are not a list: the caption is kept without them"
    BAD_ID = "a value of column {column!r} that is neither text nor a whole number: the caption is kept without it"
    RATINGS_OF_SEVERAL = (
        "ratings in column {column!r} of a row with {candidates}: give a list with one rating for each candidate"
    )
    RATINGS_OF_NONE = "ratings in column {column!r} of a row with {candidates}"
    EMPTY_RATING = "a rating that is empty or no answer, such as N/A or skip"
    REPEATED_REFERENCE = "a reference that its video has already"
    OTHER_VALUE = "a value of a caption's further row that differs from the one in its first row, which is kept"
    REPEATED_RATING = "a second rating of a caption by the same rater for the same aspect: the first is kept"
    LIST_OF_TOOL = "field {field!r} of the tool, since it is a list"
    FIELD_TWICE = "field {field!r} of the tool, since another one has this name"
    FIELD_LIKE_MANIFEST = "field {field!r} of the tool, since a manifest has one with another meaning"
    SECOND_VECTOR = "a second vector of a clip by one encoder"
    VECTOR_OF_NO_CLIP = "a vector of a clip that is not in the manifest"
    LISTS_OF_NUMBERS = (
        f"column {{column!r}} of lists of numbers, since vectors are lists of one fixed length from 1 to {MAX_DIM:,}"
    )
    OTHER_FILES = "column {column!r}, since its cells hold files that are not the videos"
    SECOND_RECORD = "a second record of a clip"
    NO_LOCATION = "metadata of a clip without clip_location"
    FILTERED_METADATA = "metadata of a clip that the tool filtered out"
    FILTERED_WINDOW = "a window that the tool filtered out"
    CLIP_WITHOUT_CAPTION = "a clip without a caption"
    CLIP_NOT_THERE = "a clip whose file is not in folder clips"
    PREVIEW = "a preview of a clip"
    FILTERED_CLIP = "a clip that the tool filtered out"
    RECORD_OF_WHOLE = "a record about a whole video or chunk"
    SECOND_LIST = "a second list of the captions"
    SECOND_COPY = "a second copy of clips and captions"
    SAM_3 = "a result of SAM 3, which is not read"
    PICKLED_VECTOR = "a pickled vector of a clip, which is not opened: vectors come from the tool's Parquet files"
    PART_OF_LANCE = "a part of the tool's Lance tables, which are not read"
    TRUNCATED_WINDOW = "a window whose caption breaks off ({status})"
    FAILED_WINDOW = "a window whose caption failed ({status})"
    PLACEHOLDER_WINDOW = "a window whose caption is only {text!r}"
    FIELD_OF_WINDOWS = "field {field!r} of windows, since it differs between them"
    LONG_METADATA = f"metadata of more than {MAX_ROW_BYTES} bytes"

    def explain(self, **details: object) -> str:
        """Return the sentence with these details.

        >>> Reason.UNREADABLE_FILE.explain(error="Permission denied")
        'a file that cannot be read (Permission denied)'
        """
        rule = next((rule for code, rule in CODES.items() if code == details.get("code")), "")
        return str(self.value).format(**details, rule=rule)


@dataclass(slots=True)
class LeftOut:
    """The number `n` of things that were left out for one reason, and the name of the first."""

    first: str
    n: int = 0


@dataclass(slots=True)
class Findings:
    """A record of the guesses about a source, as sentences, and of the things that were left out, by reason and
    its details.
    `possible_ratings` are fields that may be ratings, with their lowest and highest number and whether all are whole,
    or None for one that also holds something else; `possible_raters` is the field that may name the raters.

    `named_columns` are those names of columns that the user gave and a row has. `rating_scales` are the names of
    declared scales by aspect.
    """

    guesses: list[str] = field(default_factory=list)
    left_out: dict[tuple[Reason, tuple[tuple[str, object], ...]], LeftOut] = field(default_factory=dict)
    possible_ratings: dict[str, tuple[float, float, bool] | None] = field(default_factory=dict)
    possible_raters: str | None = None
    named_columns: set[str] = field(default_factory=set)
    rating_scales: dict[str, str] = field(default_factory=dict)

    def add_guess(self, sentence: str) -> None:
        """Add a guess about the source, a sentence, unless it is there already."""
        if sentence not in self.guesses:
            self.guesses.append(sentence)

    def leave_out(self, reason: Reason, thing: str, n: int = 1, **details: object) -> None:
        """Count `n` things that do not go into the manifest, for this reason with its details. `thing` names them; the
        name of the first thing for a reason is kept, cut at 200 characters.
        """
        excerpt = thing if len(thing) <= _SHOWN else f"{thing[:_SHOWN]}.."
        self.left_out.setdefault((reason, tuple(sorted(details.items()))), LeftOut(excerpt)).n += n

    def leave_out_table(self, error: Exception | str, where: str, *, is_whole: bool) -> None:
        """Count as left out a table that cannot be read, or the rest of one. where: how people find the place."""
        self.leave_out(Reason.UNREADABLE_TABLE if is_whole else Reason.REST_OF_TABLE, where, error=str(error))

    def add_possible_ratings(self, column: str, numbers: Sequence[float] | None, raters: str | None) -> None:
        """Note the numbers of a cell that may hold ratings: lowest, highest, and whether all are whole. No number
        changes nothing; None means that the column holds no ratings. raters: the column that may name who gave them.
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
        ingest's reason. kind: of the row. where: how people find it. scales: of ratings, by aspect.
        """
        checked = validate_row(RawRow("", 0, kind, dict(row), None, ""), scales=scales)
        if isinstance(checked, Reject):
            self.leave_out_refused("question-answer pair" if kind == "qa" else kind, checked.code, where)
        return not isinstance(checked, Reject)

    def leave_out_refused(self, kind: str, code: Code, where: str) -> None:
        """Count as left out something that ingest would refuse, with the sentence of this reject code. kind: a word for
        it. where: how people find it.
        """
        self.leave_out(Reason.REFUSED, where, kind=kind, code=code)

    def leave_out_unreadable(self, kind: str, code: Code, where: str) -> None:
        """Count as left out something that cannot be read, with the sentence of this reject code. kind: a word for it.
        where: how people find it.
        """
        self.leave_out(Reason.UNREADABLE, where, kind=kind, code=code)

    def format_left_out(self) -> str:
        """Format what was left out as text: every reason with the number of things and the first one; "" where nothing
        was.
        """
        return "; ".join(f"{row['left out']} ({row['n']}, such as {row['first']})" for row in self.list_left_out())

    def list_left_out(self) -> list[dict[str, Any]]:
        """List what was left out, a dict for each reason: `left out` is the reason, `n` the number of things, and
        `first` the name of the first.
        """
        return [
            {"left out": reason.explain(**dict(details)), "n": things.n, "first": things.first}
            for (reason, details), things in self.left_out.items()
        ]


class Place(NamedTuple):
    """A row or file of the source, whose findings are noted: `where` is how people find it."""

    findings: Findings
    where: str

    def leave_out(self, reason: Reason, part: str | None = None, n: int = 1, **details: object) -> None:
        """Count `n` things of this place as left out for this reason. part: a name for what is left out of it."""
        self.findings.leave_out(reason, self.where if part is None else f"{self.where}: {part}", n, **details)

    def accept_row(self, kind: str, row: Mapping[str, Any], scales: Mapping[str, Scale] = NO_SCALES) -> bool:
        """Return whether a row made from this place is valid, as `Findings.accept_row` does."""
        return self.findings.accept_row(kind, row, self.where, scales)


def shorten_id(wanted: str) -> str:
    """Return the id unchanged if a manifest can hold it, in 512 bytes of UTF-8. Of a longer one return the beginning,
    with a digest of the whole.
    """
    if len(wanted.encode("utf-8", "replace")) <= MAX_ID:
        return wanted
    digest = hashlib.sha256(wanted.encode("utf-8", "replace")).hexdigest()[:_DIGITS]
    return f"{wanted.encode()[: MAX_ID - 2 * _DIGITS].decode('utf-8', 'ignore')}~{digest}"
