"""Which columns of a table, or fields of a JSON object, hold the video, the caption and what is known about them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from assets.ingest import hygiene, strict_json
from assets.ingest.hygiene import is_blank
from assets.ingest.rejects import CODES
from assets.ingest.rows import CaptionRow
from assets.new_manifest.extract import MediaBytes
from assets.new_manifest.found import Caption, Findings, NoManifest, Rating, id_in

# Names in the order of trust; small and capital letters are alike.
VIDEO_NAMES = (
    "video", "video_path", "video_file", "path", "file_name", "filename", "file_path", "filepath", "file",
    "clip", "clip_path", "mp4", "video_url", "url", "video_id", "videoid",
)  # fmt: skip
CAPTION_NAMES = ("caption", "captions", "text", "description", "caption_text", "txt", "sentence")
# Captions that stand beside a caption or a reference in one row.
CANDIDATE_NAMES = ("candidates", "candidate", "predictions", "prediction", "hypotheses", "hypothesis")
REFERENCE_NAMES = ("reference", "references", "reference_caption", "ground_truth")
SYSTEM_NAMES = ("system", "model", "captioner")
# Numbers that may be ratings of people; the user decides.
RATING_NAMES = ("rating", "ratings", "score", "scores", "mos", "stars", "human_rating", "human_score")
_OWN_FIELDS = frozenset(CaptionRow.model_fields)
_LIST = re.compile(r"""\[\s*['"{].*\]\s*""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Named:
    """What the user calls columns: of videos and captions, None to guess them, and of people's ratings."""

    video: str | None = None
    caption: str | None = None
    ratings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns by their meaning; None where a table has no such column."""

    named: Named
    video: str | None = None
    caption: str | None = None
    candidates: str | None = None
    reference: str | None = None
    system: str | None = None
    role: str | None = None
    video_id: str | None = None
    caption_id: str | None = None
    segments: str | None = None
    ratings: tuple[str, ...] = ()

    @property
    def taken(self) -> dict[str, str]:
        """The meaning by column."""
        named = {getattr(self, meaning): meaning for meaning in self.__slots__[1:-1] if getattr(self, meaning)}
        return named | dict.fromkeys(self.ratings, "rating")

    @property
    def of_lists(self) -> tuple[str, ...]:
        """The columns whose cells may hold a list."""
        return tuple(filter(None, (self.caption, self.candidates, self.reference, self.segments)))

    @property
    def are_complete(self) -> bool:
        """Whether a table has a video and a text about it."""
        return self.video is not None and self.has_texts

    @property
    def has_texts(self) -> bool:
        """Whether a row or an object has a text about a video."""
        return any((self.caption, self.candidates, self.reference))

    def sentence(self) -> str:
        """The guess for people."""
        return ", ".join(f"{meaning} in column {column!r}" for column, meaning in self.taken.items())


def guess_columns(names: Collection[str], named: Named | None = None, *, is_of_file: bool = False) -> Columns:
    """The columns by their names. is_of_file: the fields of a file that belongs to a video, so none names a video.

    >>> guess_columns(["Video", "caption", "fps"]).sentence()
    "video in column 'Video', caption in column 'caption'"
    """
    named = named or Named()
    by_name = {name.strip().lower(): name for name in names}

    def find(*wanted: str) -> str | None:
        return next((by_name[name.strip().lower()] for name in wanted if name.strip().lower() in by_name), None)

    video = None if is_of_file else find(*((named.video,) if named.video else VIDEO_NAMES))
    video_id = None if is_of_file else find("video_id", "videoid")
    return Columns(
        named=named,
        video=video,
        caption=find(*((named.caption,) if named.caption else CAPTION_NAMES)),
        candidates=find(*CANDIDATE_NAMES),
        reference=find(*REFERENCE_NAMES),
        system=find(*SYSTEM_NAMES),
        role=find("role"),
        video_id=video_id if video_id != video else None,
        caption_id=find("caption_id"),
        segments=find("segments"),
        ratings=tuple(column for name in named.ratings if (column := find(name)) is not None),
    )


def require_columns(where: str, names: Collection[str], columns: Columns) -> None:
    """Raise NoManifest, which says how to name the column, unless a table has both a video and a text about it."""
    shown = ", ".join(repr(name) for name in names)
    if columns.video is None:
        raise NoManifest(f"{where}: which column holds the videos? It has {shown}: name it with --video-column")
    if not columns.are_complete:
        raise NoManifest(f"{where}: which column holds the captions? It has {shown}: name it with --caption-column")


def captions_in(
    fields: Mapping[str, Any], columns: Columns, where: str, findings: Findings, base: Caption | None = None
) -> tuple[Caption, ...]:
    """The captions of a row: one for each text in its columns of captions, candidates and references.

    base: what is known of all captions of the row. Own fields go to its captions, or to its references where it has no
    caption. What ingest would refuse is left out with the reason.
    """
    base = base or Caption("")
    extra = {**base.extra, **_own_fields(fields, columns, where, findings)}
    row = replace(
        base,
        role=_role(fields, columns, base, where, findings),
        system=_id(fields, columns.system, where, findings) or base.system,
        caption_id=_id(fields, columns.caption_id, where, findings) or base.caption_id,
        segments=_segments(fields, columns, where, findings) or base.segments,
        extra=extra,
    )
    # Objects inside a cell have names of their own.
    named = Named(ratings=columns.named.ratings)
    own = list(_texts(_cell(fields, columns.caption), row, named, where, findings))
    candidates = _by_system(_cell(fields, columns.candidates), named)
    own += _texts(candidates, replace(row, role="candidate"), named, where, findings)
    reference = Caption("", "reference", extra={} if own else extra)
    references = list(_texts(_cell(fields, columns.reference), reference, named, where, findings))
    if not own and not references:
        findings.leave_out("a row whose caption has no text", where)
    return _accepted([*_rated(own, fields, columns, where, findings), *references], where, findings)


def with_lists(fields: Mapping[str, Any], columns: Columns, where: str, findings: Findings) -> dict[str, Any]:
    """The fields of a row of a table, which may hold lists as JSON; one that is no JSON is left out."""
    parsed = dict(fields)
    for column in (*columns.of_lists, *columns.ratings):
        value = fields.get(column)
        if not isinstance(value, str) or not value.lstrip().startswith("["):
            continue
        if isinstance(listed := strict_json.parse(value), list):
            parsed[column] = listed
        elif _LIST.fullmatch(value):
            findings.leave_out("a list that is not valid JSON: write it as JSON", f"{where}: {column}")
            del parsed[column]
    return parsed


def captions_of_value(value: Any, named: Named, where: str, findings: Findings) -> tuple[Caption, ...]:
    """The captions in a JSON value: a text, an object with a field such as `caption`, or a list of these."""
    return _accepted(_texts(value, Caption(""), named, where, findings), where, findings)


def _accepted(captions: Iterable[Caption], where: str, findings: Findings) -> tuple[Caption, ...]:
    return tuple(each for each in captions if findings.accept("caption", each.row("v", each.caption_id or "c"), where))


def _texts(value: Any, base: Caption, named: Named, where: str, findings: Findings) -> Iterator[Caption]:
    """The captions in a value, which may be a text, an object with texts, or a list of these."""
    if isinstance(value, str):
        if not is_blank(value):
            yield replace(base, text=value)
    elif isinstance(value, list):
        for item in value:
            if item is None or (isinstance(item, str) and is_blank(item)):
                findings.leave_out("a caption without text in a list", where)
            yield from _texts(item, base, named, where, findings)
    elif isinstance(value, dict) and (columns := guess_columns(value, named, is_of_file=True)).has_texts:
        findings.guess(f"captions of objects in field {columns.caption or columns.candidates or columns.reference!r}")
        yield from captions_in(value, columns, where, findings, base)
    elif value is not None:
        findings.leave_out("a caption that is no text", where)


def _by_system(value: Any, named: Named) -> Any:
    """Candidates as a list: an object may have them by the name of their system."""
    if not isinstance(value, dict) or guess_columns(value, named, is_of_file=True).has_texts:
        return value
    return [{"system": name, **(item if isinstance(item, dict) else {"caption": item})} for name, item in value.items()]


def _own_fields(fields: Mapping[str, Any], columns: Columns, where: str, findings: Findings) -> dict[str, Any]:
    """Every other field, unchanged; what a manifest cannot hold is left out with the reason."""
    kept, taken = {}, columns.taken
    for name, value in fields.items():
        if name in taken or value is None:
            continue
        if isinstance(value, MediaBytes):
            findings.leave_out(f"column {name!r}: files have no place in a manifest", where)
        elif name in _OWN_FIELDS:
            findings.leave_out(f"column {name!r}: a manifest has a field of this name with another meaning", where)
        elif (fault := hygiene.check({name: value})) is not None:
            findings.leave_out(f"a value of an own field ({fault.code}): {CODES[fault.code]}", f"{where}: {name}")
        else:
            kept[name] = value
            if name.strip().lower() in RATING_NAMES:
                findings.offer(name, _numbers(value))
    return kept


def _rated(
    captions: list[Caption], fields: Mapping[str, Any], columns: Columns, where: str, findings: Findings
) -> list[Caption]:
    """The captions with their ratings: those of a row's only candidate, or in a list one for each candidate."""
    places = [place for place, caption in enumerate(captions) if caption.role == "candidate"]
    for column in columns.ratings:
        findings.rated.add(column.strip().lower())
        if (value := _cell(fields, column)) is None:
            continue
        values = value if isinstance(value, list) else [value]
        if len(places) == 1:
            by_place = {places[0]: values}
        elif isinstance(value, list) and len(values) == len(places):
            by_place = {place: [number] for place, number in zip(places, values, strict=True)}
        else:
            findings.leave_out(f"ratings in column {column!r} of a row with {len(places)} candidates", where)
            continue
        for place, numbers in by_place.items():
            before = captions[place].ratings
            # An object in the row's cell may have ratings of its own.
            n_before = sum(rating.aspect == column for rating in before)
            found = _ratings(column, numbers, n_before, where, findings)
            captions[place] = replace(captions[place], ratings=(*before, *found))
    return captions


def _ratings(column: str, numbers: list[Any], n_before: int, where: str, findings: Findings) -> Iterator[Rating]:
    """A rating for each number; a rater is known by the place in the cell."""
    for rater, number in enumerate(numbers, n_before + 1):
        value = int(number) if isinstance(number, float) and number.is_integer() else number
        rating = Rating(f"rater_{rater}", column, value)
        row = {"caption_id": "c", **rating._asdict()}
        if number is not None and findings.accept("rating", row, f"{where}: {column} {number!r}"):
            yield rating


def _numbers(value: Any) -> list[float]:
    """The numbers of a cell that holds nothing else."""
    values = value if isinstance(value, list) else [value]
    return values if all(isinstance(each, int | float) and not isinstance(each, bool) for each in values) else []


def _role(
    fields: Mapping[str, Any], columns: Columns, base: Caption, where: str, findings: Findings
) -> Literal["reference", "candidate"]:
    value = _cell(fields, columns.role)
    role = value.strip().lower() if isinstance(value, str) else value
    if role == "reference":
        return "reference"
    if role is not None and role != "candidate":
        findings.leave_out("a role that is neither 'reference' nor 'candidate': its caption is a candidate", where)
        return "candidate"
    return base.role if role is None else "candidate"


def _segments(fields: Mapping[str, Any], columns: Columns, where: str, findings: Findings) -> Any:
    value = _cell(fields, columns.segments)
    if value is not None and not isinstance(value, list):
        findings.leave_out("segments that are no list", where)
        return None
    return value


def _id(fields: Mapping[str, Any], column: str | None, where: str, findings: Findings) -> str | None:
    value = _cell(fields, column)
    found = id_in(value)
    if found is None and value is not None and not (isinstance(value, str) and is_blank(value)):
        findings.leave_out(f"a value of column {column!r} that is no text and no whole number", where)
    return found


def _cell(fields: Mapping[str, Any], column: str | None) -> Any:
    return None if column is None else fields.get(column)
