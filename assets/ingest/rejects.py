"""Refusals: the codes, `Reject` for one row, and `ManifestError` for a whole manifest.

A code is stored with the refused row and people filter by it, so its meaning never changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Code = Literal[
    "json_invalid",
    "json_truncated",
    "not_an_object",
    "duplicate_key",
    "nan",
    "not_finite",
    "too_deep",
    "csv_invalid",
    "invalid_utf8",
    "unknown_kind",
    "nul_character",
    "lone_surrogate",
    "control_characters",
    "too_long",
    "empty_text",
    "missing_field",
    "wrong_type",
    "out_of_range",
    "unknown_dimension",
    "unknown_role",
    "segment_order",
    "path_url",
    "path_absolute",
    "path_escape",
    "file_missing",
    "not_a_file",
    "not_a_video",
    "media_unavailable",
    "duplicate_conflict",
    "dangling_reference",
    "mismatched_video",
    "segment_index_out_of_range",
    "segment_outside_clip",
    "no_direction",
    "vector_length",
    "vector_outdated",
    "database_refused",
]

# The sentences that docs/manifest.md shows; a test keeps the two equal.
CODES: dict[Code, str] = {
    "json_invalid": "The line is not valid JSON.",
    "json_truncated": "The JSON stops before it is complete.",
    "not_an_object": "The line is valid JSON but not an object with fields.",
    "duplicate_key": "An object names the same field twice.",
    "nan": "A number is NaN, or the JSON contains the word NaN or Infinity.",
    "not_finite": "A number is too large to be finite, or is infinite.",
    "too_deep": "Lists or objects are nested too deeply.",
    "csv_invalid": "The record has another number of cells than the header, or its quoting is broken.",
    "invalid_utf8": "The bytes are not valid UTF-8.",
    "unknown_kind": "A row of a mixed file does not say which table it belongs to.",
    "nul_character": "A text contains the character NUL, which a database cannot store.",
    "lone_surrogate": "A text contains half of a surrogate pair, which cannot be written as UTF-8.",
    "control_characters": "A text contains control characters other than tab and line break.",
    "too_long": "A line, a record, a text or an id is longer than the limit.",
    "empty_text": "A text or an id has no visible character.",
    "missing_field": "A required field is absent.",
    "wrong_type": "A field has another type than the manifest asks for.",
    "out_of_range": "A number lies outside its range.",
    "unknown_dimension": "The dimension of a keypoint is not one of the dataset's.",
    "unknown_role": "The role of a caption is neither reference nor candidate.",
    "segment_order": "A segment ends before its start.",
    "path_url": "The path of a video is a URL that may not be used.",
    "path_absolute": "The path of a video is absolute or starts in a home folder.",
    "path_escape": "The path of a video leads out of the manifest's folder.",
    "file_missing": "The file of a video does not exist.",
    "not_a_file": "The path of a video names something that is not a regular file.",
    "not_a_video": "The file of a video contains no video.",
    "media_unavailable": "The file of a video is in a store or media root that cannot be reached.",
    "duplicate_conflict": "The id exists already with other content.",
    "dangling_reference": "The row points to an id that does not exist.",
    "mismatched_video": "The keypoint and the caption of a label belong to different videos.",
    "segment_index_out_of_range": "No reference of the video has a segment with this index.",
    "segment_outside_clip": "A segment ends after the end of the video.",
    "no_direction": "A vector has only zeros, or a length that is too small or too large to compare it.",
    "vector_length": "A vector has another number of numbers than the others of its encoder.",
    "vector_outdated": "A vector was made of an earlier file of its video.",
    "database_refused": "The database cannot store the row; the reason quotes its message.",
}


@dataclass(frozen=True, slots=True)
class Reject:
    """The refusal of a row: `code` is a key of `CODES`, and `reason` one sentence that names the field and mostly the
    remedy.
    """

    code: Code
    reason: str


class ManifestError(ValueError):
    """Raised when a manifest cannot be read as a whole; the message names the file and the remedy."""

    plain = True
