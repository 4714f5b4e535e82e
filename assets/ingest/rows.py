"""The rows of a manifest: one frozen model per table, and `validate`, which makes raw rows into them.

Nothing here needs the database: whether an id exists already, or a reference dangles, is decided later.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from assets.ingest import hygiene
from assets.ingest.faults import explained
from assets.ingest.hygiene import shown
from assets.ingest.rejects import Reject

# Those of OmniDCBench; a folder may have others, see assets/ingest/dimensions.py.
DIMENSIONS = ("segment_detail", "video_background", "acoustics", "shooting_style", "speech_content", "camera_state")
MAX_ID = 512
MAX_PATH = 4096
MAX_INDEX = 2**31 - 1

# "\S" asks for one character that is no white space; the limit on length is hygiene's.
Text = Annotated[str, StringConstraints(pattern=r"\S")]
Id = Annotated[str, StringConstraints(pattern=r"\S", max_length=MAX_ID)]


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row as a reader found it: a payload of fields, or the reason why there is none.

    `line` counts from 1: the line of a JSON Lines file, the line where a record of a CSV file starts, the row
    of a Parquet file. `raw` is the beginning of the row, safe to store, for the record of refused rows.
    """

    source: str
    line: int
    kind: str
    payload: dict[str, Any] | None
    reject: Reject | None
    raw: str


class _Fields(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="allow", allow_inf_nan=False)

    @property
    def extra(self) -> dict[str, Any]:
        """The fields of the row that the manifest does not define, kept as they came."""
        return self.model_extra or {}

    @cached_property
    def content(self) -> dict[str, Any]:
        """All fields as plain data, at any depth without those that are null."""
        return self.model_dump(exclude_none=True)


class Segment(_Fields):
    """A stretch of a video: 0 <= start_s <= end_s, in seconds. One without length overlaps nothing but is kept."""

    start_s: Annotated[float, Field(ge=0)]
    end_s: float
    text: str | None = None

    @model_validator(mode="after")
    def _does_not_end_before_its_start(self) -> Segment:
        if self.end_s < self.start_s:
            times = {"start": self.start_s, "end": self.end_s}
            raise PydanticCustomError("segment_order", "runs from {start} s to {end} s: end it later", times)
        return self


class VideoRow(_Fields):
    """A video; without a path it stands for captions whose video is not at hand (text only)."""

    video_id: Id
    path: Annotated[str, StringConstraints(pattern=r"\S", max_length=MAX_PATH)] | None = None
    note: str | None = None
    duration_s: Annotated[float, Field(gt=0)] | None = None


class CaptionRow(_Fields):
    """A reference or a candidate caption of a video; a reference without a system is by "reference".

    A candidate whose text could not be read from what a model wrote says so in `parse_error` and has the text "".
    """

    caption_id: Id
    video_id: Id
    role: Literal["reference", "candidate"]
    system: Id = "reference"
    text: str
    segments: list[Segment] | None = None
    parse_error: Text | None = None

    @model_validator(mode="after")
    def _candidates_name_their_system(self) -> CaptionRow:
        if self.role == "candidate" and "system" not in self.model_fields_set:
            raise PydanticCustomError("missing_field", "field 'system' is missing: say who wrote it")
        return self

    @model_validator(mode="after")
    def _has_text_unless_none_could_be_read(self) -> CaptionRow:
        could_not_be_read = self.role == "candidate" and self.parse_error is not None and self.text == ""
        if not could_not_be_read and not self.text.strip():
            remedy = "fill it in; only a candidate with a parse_error may have the text ''"
            raise PydanticCustomError("empty_text", f"field 'text' is empty or only white space: {remedy}")
        return self


class KeypointRow(_Fields):
    """A fact that a caption should state; `segment_index` counts the segments of the reference from 0."""

    keypoint_id: Id
    video_id: Id
    dimension: str
    text: Text
    segment_index: Annotated[int, Field(ge=0, le=MAX_INDEX)] | None = None


class KeypointLabelRow(_Fields):
    """Whether a caption covers a keypoint, as a person or a judge says."""

    keypoint_id: Id
    caption_id: Id
    covered: bool


class QARow(_Fields):
    """A question about a video with the answer to be judged."""

    qa_id: Id
    video_id: Id
    question: Text
    answer: Text
    system: Id | None = None
    quality: Id | None = None


class RatingRow(_Fields):
    """A person's number for one aspect of a caption, from 1 to 5; 5 is best."""

    caption_id: Id
    rater: Id
    aspect: Id
    value: Annotated[int, Field(ge=1, le=5)]


ValidRow = VideoRow | CaptionRow | KeypointRow | KeypointLabelRow | QARow | RatingRow

MODELS: dict[str, type[ValidRow]] = {
    "video": VideoRow,
    "caption": CaptionRow,
    "keypoint": KeypointRow,
    "keypoint_label": KeypointLabelRow,
    "qa": QARow,
    "rating": RatingRow,
}

_REQUIRED = {
    kind: frozenset(name for name, field in model.model_fields.items() if field.is_required())
    for kind, model in MODELS.items()
}

_canonical_json = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode


def validate(row: RawRow, dimensions: Collection[str] = DIMENSIONS) -> ValidRow | Reject:
    """The checked row, or the first rule that it breaks. Null is absence, except in a required field.

    `dimensions` are the names that keypoints may use.

    >>> fields = {"caption_id": "c1", "rater": "r1", "aspect": "coverage", "value": 7}
    >>> validate(RawRow("ratings.jsonl", 1, "rating", fields, None, ""))
    Reject(code='out_of_range', reason="field 'value' is 7: input should be less than or equal to 5")
    """
    if row.reject is not None:
        return row.reject
    payload = row.payload or {}
    if (fault := hygiene.check(payload)) is not None:
        return fault
    if None in payload.values():
        required = _REQUIRED[row.kind]
        payload = {name: value for name, value in payload.items() if value is not None or name in required}
    try:
        checked = MODELS[row.kind].model_validate(payload)
    except ValidationError as error:
        return explained(error.errors(include_url=False)[0])
    if isinstance(checked, KeypointRow) and checked.dimension not in dimensions:
        reason = f"field 'dimension' is {shown(checked.dimension)}: use one of {', '.join(dimensions)}"
        return Reject("unknown_dimension", reason)
    return checked


def content_sha256(row: ValidRow) -> bytes:
    """SHA-256 (32 bytes) of all fields as canonical JSON: equal content, equal hash, whatever the order."""
    return hashlib.sha256(_canonical_json(row.content).encode("utf-8")).digest()
