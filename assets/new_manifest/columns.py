"""Which columns of a table, or fields of a JSON object, hold the video, the caption and what is known about them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from assets.ingest import hygiene, strict_json
from assets.ingest.hygiene import is_blank_text
from assets.ingest.rejects import CODES
from assets.ingest.rows import CaptionRow
from assets.new_manifest.extract import MediaBytes
from assets.new_manifest.findings import Caption, Findings, NoManifest, Rating, parse_id

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
class ColumnNames:
    """What the user calls columns: of videos and captions, None to guess them, and of people's ratings."""

    video: str | None = None
    caption: str | None = None
    ratings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns by their meaning; None where a table has no such column."""

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
    ratings: tuple[str, ...] = ()

    @property
    def meanings(self) -> dict[str, str]:
        """The meaning by column."""
        named = {getattr(self, meaning): meaning for meaning in self.__slots__[1:-1] if getattr(self, meaning)}
        return named | dict.fromkeys(self.ratings, "rating")

    @property
    def list_columns(self) -> tuple[str, ...]:
        """The columns whose cells may hold a list."""
        return tuple(filter(None, (self.caption, self.candidates, self.reference, self.segments)))

    @property
    def has_video_and_text(self) -> bool:
        """Whether a table has a video and a text about it."""
        return self.video is not None and self.has_text

    @property
    def has_text(self) -> bool:
        """Whether a row or an object has a text about a video."""
        return any((self.caption, self.candidates, self.reference))

    def format_guess(self) -> str:
        """The guess for people."""
        return ", ".join(f"{meaning} in column {column!r}" for column, meaning in self.meanings.items())


def guess_columns(
    names: Collection[str], column_names: ColumnNames | None = None, *, is_caption_file: bool = False
) -> Columns:
    """The columns by their names. is_of_file: the fields of a file that belongs to a video, so none names a video.

    >>> guess_columns(["Video", "caption", "fps"]).format_guess()
    "video in column 'Video', caption in column 'caption'"
    """
    column_names = column_names or ColumnNames()
    by_name = {name.strip().lower(): name for name in names}

    def find(*wanted: str) -> str | None:
        return next((by_name[name.strip().lower()] for name in wanted if name.strip().lower() in by_name), None)

    video = None if is_caption_file else find(*((column_names.video,) if column_names.video else VIDEO_NAMES))
    video_id = None if is_caption_file else find("video_id", "videoid")
    return Columns(
        column_names=column_names,
        video=video,
        caption=find(*((column_names.caption,) if column_names.caption else CAPTION_NAMES)),
        candidates=find(*CANDIDATE_NAMES),
        reference=find(*REFERENCE_NAMES),
        system=find(*SYSTEM_NAMES),
        role=find("role"),
        video_id=video_id if video_id != video else None,
        caption_id=find("caption_id"),
        segments=find("segments"),
        ratings=tuple(column for name in column_names.ratings if (column := find(name)) is not None),
    )


def check_columns(where: str, names: Collection[str], columns: Columns) -> None:
    """Raise NoManifest, which says how to name the column, unless a table has both a video and a text about it."""
    shown = ", ".join(repr(name) for name in names)
    if columns.video is None:
        raise NoManifest(f"{where}: which column holds the videos? It has {shown}: name it with --video-column")
    if not columns.has_video_and_text:
        raise NoManifest(f"{where}: which column holds the captions? It has {shown}: name it with --caption-column")


def parse_row_captions(
    fields: Mapping[str, Any], columns: Columns, where: str, findings: Findings, base: Caption | None = None
) -> tuple[Caption, ...]:
    """The captions of a row: one for each text in its columns of captions, candidates and references.

    base: what is known of all captions of the row. Own fields go to its captions, or to its references where it has no
    caption. What ingest would refuse is left out with the reason.
    """
    base = base or Caption("")
    extra = {**base.extra, **_collect_own_fields(fields, columns, where, findings)}
    row = replace(
        base,
        role=_parse_role(fields, columns, base, where, findings),
        system=_parse_id(fields, columns.system, where, findings) or base.system,
        caption_id=_parse_id(fields, columns.caption_id, where, findings) or base.caption_id,
        segments=_parse_segments(fields, columns, where, findings) or base.segments,
        extra=extra,
    )
    # Objects inside a cell have names of their own.
    named = ColumnNames(ratings=columns.column_names.ratings)
    own = list(_parse_texts(_find_cell(fields, columns.caption), row, named, where, findings))
    candidates = _convert_systems(_find_cell(fields, columns.candidates), named)
    own += _parse_texts(candidates, replace(row, role="candidate"), named, where, findings)
    reference = Caption("", "reference", extra={} if own else extra)
    references = list(_parse_texts(_find_cell(fields, columns.reference), reference, named, where, findings))
    if not own and not references:
        findings.leave_out("a row whose caption has no text", where)
    return _filter_accepted([*_add_ratings(own, fields, columns, where, findings), *references], where, findings)


def parse_list_cells(fields: Mapping[str, Any], columns: Columns, where: str, findings: Findings) -> dict[str, Any]:
    """The fields of a row of a table, which may hold lists as JSON; one that is no JSON is left out."""
    parsed = dict(fields)
    for column in (*columns.list_columns, *columns.ratings):
        value = fields.get(column)
        if not isinstance(value, str) or not value.lstrip().startswith("["):
            continue
        if isinstance(listed := strict_json.parse_json(value), list):
            parsed[column] = listed
        elif _LIST.fullmatch(value):
            findings.leave_out("a list that is not valid JSON: write it as JSON", f"{where}: {column}")
            del parsed[column]
    return parsed


def parse_captions(value: Any, column_names: ColumnNames, where: str, findings: Findings) -> tuple[Caption, ...]:
    """The captions in a JSON value: a text, an object with a field such as `caption`, or a list of these."""
    return _filter_accepted(_parse_texts(value, Caption(""), column_names, where, findings), where, findings)


def _filter_accepted(captions: Iterable[Caption], where: str, findings: Findings) -> tuple[Caption, ...]:
    return tuple(
        each for each in captions if findings.accept_row("caption", each.build_row("v", each.caption_id or "c"), where)
    )


def _parse_texts(value: Any, base: Caption, named: ColumnNames, where: str, findings: Findings) -> Iterator[Caption]:
    """The captions in a value, which may be a text, an object with texts, or a list of these."""
    if isinstance(value, str):
        if not is_blank_text(value):
            yield replace(base, text=value)
    elif isinstance(value, list):
        for item in value:
            if item is None or (isinstance(item, str) and is_blank_text(item)):
                findings.leave_out("a caption without text in a list", where)
            yield from _parse_texts(item, base, named, where, findings)
    elif isinstance(value, dict) and (columns := guess_columns(value, named, is_caption_file=True)).has_text:
        findings.add_guess(
            f"captions of objects in field {columns.caption or columns.candidates or columns.reference!r}"
        )
        yield from parse_row_captions(value, columns, where, findings, base)
    elif value is not None:
        findings.leave_out("a caption that is no text", where)


def _convert_systems(value: Any, named: ColumnNames) -> Any:
    """Candidates as a list: an object may have them by the name of their system."""
    if not isinstance(value, dict) or guess_columns(value, named, is_caption_file=True).has_text:
        return value
    return [{"system": name, **(item if isinstance(item, dict) else {"caption": item})} for name, item in value.items()]


def _collect_own_fields(fields: Mapping[str, Any], columns: Columns, where: str, findings: Findings) -> dict[str, Any]:
    """Every other field, unchanged; what a manifest cannot hold is left out with the reason."""
    kept, taken = {}, columns.meanings
    for name, value in fields.items():
        if name in taken or value is None:
            continue
        if isinstance(value, MediaBytes):
            findings.leave_out(f"column {name!r}: files have no place in a manifest", where)
        elif name in _OWN_FIELDS:
            findings.leave_out(f"column {name!r}: a manifest has a field of this name with another meaning", where)
        elif (fault := hygiene.find_fault({name: value})) is not None:
            findings.leave_out(f"a value of an own field ({fault.code}): {CODES[fault.code]}", f"{where}: {name}")
        else:
            kept[name] = value
            if name.strip().lower() in RATING_NAMES:
                findings.add_possible_ratings(name, _list_numbers(value))
    return kept


def _add_ratings(
    captions: list[Caption], fields: Mapping[str, Any], columns: Columns, where: str, findings: Findings
) -> list[Caption]:
    """The captions with their ratings: those of a row's only candidate, or in a list one for each candidate."""
    places = [place for place, caption in enumerate(captions) if caption.role == "candidate"]
    for column in columns.ratings:
        findings.rating_columns.add(column.strip().lower())
        if (value := _find_cell(fields, column)) is None:
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
            found = _build_ratings(column, numbers, n_before, where, findings)
            captions[place] = replace(captions[place], ratings=(*before, *found))
    return captions


def _build_ratings(column: str, numbers: list[Any], n_before: int, where: str, findings: Findings) -> Iterator[Rating]:
    """A rating for each number; a rater is known by the place in the cell."""
    for rater, number in enumerate(numbers, n_before + 1):
        value = int(number) if isinstance(number, float) and number.is_integer() else number
        rating = Rating(f"rater_{rater}", column, value)
        row = {"caption_id": "c", **rating._asdict()}
        if number is not None and findings.accept_row("rating", row, f"{where}: {column} {number!r}"):
            yield rating


def _list_numbers(value: Any) -> list[float]:
    """The numbers of a cell that holds nothing else."""
    values = value if isinstance(value, list) else [value]
    return values if all(isinstance(each, int | float) and not isinstance(each, bool) for each in values) else []


def _parse_role(
    fields: Mapping[str, Any], columns: Columns, base: Caption, where: str, findings: Findings
) -> Literal["reference", "candidate"]:
    value = _find_cell(fields, columns.role)
    role = value.strip().lower() if isinstance(value, str) else value
    if role == "reference":
        return "reference"
    if role is not None and role != "candidate":
        findings.leave_out("a role that is neither 'reference' nor 'candidate': its caption is a candidate", where)
        return "candidate"
    return base.role if role is None else "candidate"


def _parse_segments(fields: Mapping[str, Any], columns: Columns, where: str, findings: Findings) -> Any:
    value = _find_cell(fields, columns.segments)
    if value is not None and not isinstance(value, list):
        findings.leave_out("segments that are no list", where)
        return None
    return value


def _parse_id(fields: Mapping[str, Any], column: str | None, where: str, findings: Findings) -> str | None:
    value = _find_cell(fields, column)
    found = parse_id(value)
    if found is None and value is not None and not (isinstance(value, str) and is_blank_text(value)):
        findings.leave_out(f"a value of column {column!r} that is no text and no whole number", where)
    return found


def _find_cell(fields: Mapping[str, Any], column: str | None) -> Any:
    return None if column is None else fields.get(column)
