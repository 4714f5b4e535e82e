"""The rows of a manifest: the raw row that a reader gives, and one frozen model of the valid rows of every table."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, NoReturn

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import Required, TypedDict

from assets.ingest import hygiene
from assets.ingest.rejects import Reject
from assets.media.address import has_address_user

# The dimensions of OmniDCBench; a folder may declare others, see assets/ingest/declarations.py.
DIMENSIONS = ("segment_detail", "video_background", "acoustics", "shooting_style", "speech_content", "camera_state")
# In bytes of UTF-8. An entry of a Postgres index holds 2,704 bytes, and one entry has up to three ids.
MAX_ID = 512
_MAX_PATH = 4096
_MAX_INDEX = 2**31 - 1
# Numbers of a vector that pgvector can hold.
MAX_DIM = 16_000
_LEAST_SQUARE, _MOST_SQUARE = 1e-30, 1e30

_URL = re.compile(r"https?://\S+", re.IGNORECASE)
# Texts that begin so are in the order of time.
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]|$)")
_DATE_LENGTH = len("2026-05-31")
_FLAT = frozenset((str, int, float, bool))
_canonical_json = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode


def _require_visible_text(text: str) -> str:
    if hygiene.is_blank_text(text):
        raise PydanticCustomError("empty_text", "has no visible character: fill it in")
    return text


def _require_usable_id(text: str) -> str:
    # A short cut for most ids: ASCII at the beginning shows, and so few characters have few bytes.
    if "!" <= text[:1] <= "~" and len(text) * 4 <= MAX_ID:
        return text
    _require_visible_text(text)
    if len(text) * 4 > MAX_ID and (size := len(text.encode())) > MAX_ID:
        numbers = {"size": size, "limit": MAX_ID}
        raise PydanticCustomError("too_long", "has {size} bytes as UTF-8: an id may have {limit}", numbers)
    return text


def _require_url(text: str) -> str:
    if not _URL.fullmatch(text):
        raise PydanticCustomError("wrong_type", "it is not a web address: begin it with https://, without white space")
    if has_address_user(text):
        raise PydanticCustomError("has_user", "holds a user or a password: take them out")
    return text


def _require_date(text: str) -> str:
    try:
        # Python 3.10 does not know the Z.
        datetime.fromisoformat(f"{text[:-1]}+00:00" if text.endswith("Z") and len(text) > _DATE_LENGTH else text)
    except ValueError:
        _refuse_date()
    if not _DATE.match(text):
        _refuse_date()
    return text


def _refuse_date() -> NoReturn:
    raise PydanticCustomError("wrong_type", "it is not an ISO 8601 date: write 2026-05-31 or 2026-05-31T18:00:00Z")


# assets/ingest/hygiene.py limits the length of every text.
Text = Annotated[str, AfterValidator(_require_visible_text)]
Id = Annotated[str, AfterValidator(_require_usable_id)]


class RawRow(NamedTuple):
    """One row as a reader gives it: its `fields`, or the `reject` that says why they cannot be read. `source` is the
    name of its file, `kind` the kind of row, and `raw` the beginning of the row as text for table ingest_reject. `line`
    counts lines or rows from 1.

    `line` is the line of a JSON Lines file, the line where a record of a CSV file starts, the row of a Parquet file, or
    the task of an export of Label Studio. `texts_are_safe` says that no text of the row needs a check
    (`hygiene.has_safe_text`).
    """

    source: str
    line: int
    kind: str
    fields: dict[str, Any] | None
    reject: Reject | None
    raw: str
    texts_are_safe: bool = False


class MediaBytes(NamedTuple):
    """A cell of a source's table that holds a file: its bytes, and its name in the table, None where the table gives
    none.
    """

    content: bytes
    name: str | None


class _ManifestRow(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="allow", allow_inf_nan=False)

    @property
    def extra(self) -> dict[str, Any]:
        """The fields that the manifest does not define, with the values that the row gave."""
        return self.model_extra or {}

    @cached_property
    def content(self) -> dict[str, Any]:
        """All fields as plain data, without null fields at any depth."""
        # A rating on a declared scale may be no whole number, of which pydantic would warn.
        return self.model_dump(exclude_none=True, warnings=False)

    @property
    def content_sha256(self) -> bytes:
        """The SHA-256 (32 bytes) of all fields as canonical JSON. The order of the fields does not change it."""
        fields = {name: value for name, value in {**self.__dict__, **self.extra}.items() if value is not None}
        # A short cut for rows in which nothing is nested, which most rows are.
        is_flat = _FLAT.issuperset(map(type, fields.values()))
        return hashlib.sha256(_canonical_json(fields if is_flat else self.content).encode("utf-8")).digest()


def _require_segment_order(segment: CaptionSegment) -> CaptionSegment:
    if segment["end_s"] < segment["start_s"]:
        times = {"start": segment["start_s"], "end": segment["end_s"]}
        raise PydanticCustomError("segment_order", "runs from {start} s to {end} s: give a later end", times)
    return segment


class CaptionSegment(TypedDict, total=False):
    """A stretch of a video from `start_s` to `end_s`, in seconds, and perhaps a text. 0 <= start_s <= end_s, so it may
    have no length.

    A dict and no model: a caption may have many of them, and a model takes half as long again.
    """

    __pydantic_config__ = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)  # type: ignore[misc]  # no field

    start_s: Required[Annotated[float, Field(ge=0)]]
    end_s: Required[float]
    text: str | None


class Origin(_ManifestRow):
    """Where a video comes from, and what may be done with it; all fields may be absent. `source_url` is the web address
    that it was collected from at the time `collected_at`, an ISO 8601 date with or without a time. `opt_out`: whether
    its owner asked to leave it out.
    """

    licence: Id | None = None
    source_url: Annotated[Text, Field(max_length=_MAX_PATH), AfterValidator(_require_url)] | None = None
    collected_at: Annotated[Text, AfterValidator(_require_date)] | None = None
    opt_out: bool | None = None


ORIGIN_FIELDS = tuple(Origin.model_fields)
"""The fields of a video's origin, in the order of table `video`."""


class VideoRow(Origin):
    """A valid row of table `videos`. `path` is a path in the manifest's folder or an address; a video without one is
    text only. `duration_s` counts only for such a video.
    """

    video_id: Id
    path: Annotated[Text, Field(max_length=_MAX_PATH)] | None = None
    note: str | None = None
    duration_s: Annotated[float, Field(gt=0)] | None = None

    def fill_origin(self, origin: Mapping[str, Any]) -> VideoRow:
        """Return the row with those of the given fields of an origin that it does not have; its own fields stay."""
        return VideoRow.model_validate({**origin, **self.content})


class CaptionRow(_ManifestRow):
    """A valid row of table `captions`: a reference or a candidate. A candidate names its system; a reference without
    one gets the system "reference". A candidate whose text could not be read from a model's output has the text "" and
    a `parse_error` that says why.
    """

    caption_id: Id
    video_id: Id
    role: Literal["reference", "candidate"]
    system: Id = "reference"
    text: str
    segments: list[Annotated[CaptionSegment, AfterValidator(_require_segment_order)]] | None = None
    parse_error: Text | None = None

    @model_validator(mode="after")
    def _candidates_name_their_system(self) -> CaptionRow:
        if self.role == "candidate" and "system" not in self.model_fields_set:
            raise PydanticCustomError(
                "missing_field", "field 'system' is missing: name the model or person that wrote the caption"
            )
        return self

    @model_validator(mode="after")
    def _has_text_or_parse_error(self) -> CaptionRow:
        could_not_be_read = self.role == "candidate" and self.parse_error is not None and self.text == ""
        if not could_not_be_read and hygiene.is_blank_text(self.text):
            remedy = "fill it in; only a candidate with a parse_error may have the text ''"
            raise PydanticCustomError("empty_text", f"field 'text' has no visible character: {remedy}")
        return self


class KeypointRow(_ManifestRow):
    """A valid row of table `keypoints`: a statement that a caption should cover, with its dimension. `segment_index` is
    the number of a segment of the references, from 0, or None.
    """

    keypoint_id: Id
    video_id: Id
    dimension: str
    text: Text
    segment_index: Annotated[int, Field(ge=0, le=_MAX_INDEX)] | None = None


class KeypointLabelRow(_ManifestRow):
    """A valid row of table `keypoint_labels`: the decision of a person or chat model whether a caption covers a
    keypoint.
    """

    keypoint_id: Id
    caption_id: Id
    covered: bool


class QARow(_ManifestRow):
    """A valid row of table `qa`: a question about a video, and the answer that is scored. `system` gave the answer, and
    `quality` is a word about the quality of the pair, such as `good`; both may be None.
    """

    qa_id: Id
    video_id: Id
    question: Text
    answer: Text
    system: Id | None = None
    quality: Id | None = None


class RatingRow(_ManifestRow):
    """A valid row of table `ratings`: a rater's number for one aspect of a caption, a whole number from 1 to 5; 5 is
    best. On a declared scale, and as a mean, it may be another number; then `ScaledRatingRow` made it.
    """

    caption_id: Id
    rater: Id
    aspect: Id
    value: Annotated[int, Field(ge=1, le=5)]


class ScaledRatingRow(_ManifestRow):
    """The fields of a rating on a declared scale, or of a mean rating, whose value is not checked yet. A mean is over
    `mean_of` raters; without a rater's name its source has the name "mean of" and their number.
    """

    caption_id: Id
    rater: Id
    aspect: Id
    value: Any
    mean_of: Annotated[int, Field(ge=2, le=_MAX_INDEX)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _means_name_their_source(cls, fields: dict[str, Any]) -> dict[str, Any]:
        is_unnamed = fields.get("rater") is None and fields.get("mean_of") is not None
        return {**fields, "rater": f"mean of {fields['mean_of']}"} if is_unnamed else fields

    def build_rating(self, number: float) -> RatingRow:
        """Return the valid rating with this number as its value; it keeps `mean_of` as an extra field."""
        return RatingRow.model_construct(**{**self.content, "value": number})


def _require_direction(vector: list[float]) -> list[float]:
    # Postgres compares vectors in single precision, where other squares are 0 or infinite.
    if not _LEAST_SQUARE < math.fsum(number * number for number in vector) < _MOST_SQUARE:
        raise PydanticCustomError(
            "no_direction", "has no direction: its length is 0, below 1e-15 or above 1e15; embed the video again"
        )
    return vector


class VectorRow(_ManifestRow):
    """A valid row of table `vectors`: the vector that an encoder of another tool gave to a whole video. `encoder` is
    its name.
    """

    video_id: Id
    encoder: Id
    vector: Annotated[list[float], Field(min_length=1, max_length=MAX_DIM), AfterValidator(_require_direction)]


ValidRow = VideoRow | CaptionRow | KeypointRow | KeypointLabelRow | QARow | RatingRow | VectorRow
# A raw row, and the valid row or the refusal.
CheckedRow = tuple[RawRow, ValidRow | Reject]
