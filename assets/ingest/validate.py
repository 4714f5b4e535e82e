"""From a raw row to a valid row, without the database: whether an id exists is decided later, by the resolvers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from assets.ingest import hygiene
from assets.ingest.hygiene import format_value
from assets.ingest.manifest import Manifest
from assets.ingest.manifest_tables import MANIFEST_TABLES
from assets.ingest.rejects import Code, Reject
from assets.ingest.rows import DIMENSIONS, KeypointRow, RawRow, ScaledRatingRow, ValidRow, VideoRow
from assets.ingest.scales import DEFAULT_SCALE, NO_SCALES, Scale

# The code of every type of pydantic error; a type that is not listed has the code "wrong_type".
_CODES: dict[str, Code] = {
    "missing": "missing_field",
    "string_too_long": "too_long",
    "greater_than": "out_of_range",
    "greater_than_equal": "out_of_range",
    "less_than_equal": "out_of_range",
    "segment_order": "segment_order",
    "missing_field": "missing_field",
    "empty_text": "empty_text",
    "too_long": "too_long",
    "no_direction": "no_direction",
}


def check_row(raw: RawRow, manifest: Manifest, scales: Mapping[str, Scale] = NO_SCALES) -> ValidRow | Reject:
    """Return what `validate_row` returns for a row of a manifest; a video gets the declared origin that it lacks
    itself.
    """
    row = validate_row(raw, manifest.dimensions, scales)
    return row.fill_origin(manifest.origin) if manifest.origin and isinstance(row, VideoRow) else row


def validate_row(
    row: RawRow, dimensions: Collection[str] = DIMENSIONS, scales: Mapping[str, Scale] = NO_SCALES
) -> ValidRow | Reject:
    """Return the valid row, or the Reject for the first rule that the raw row breaks. A raw row that has a Reject gives
    that one. `dimensions` are the names that keypoints may use, and `scales` the declared scales of ratings by aspect.
    A field that is null counts as absent, unless the field is required.

    >>> fields = {"caption_id": "c1", "rater": "r1", "aspect": "coverage", "value": 7}
    >>> validate_row(RawRow("ratings.jsonl", 1, "rating", fields, None, ""))
    Reject(code='out_of_range', reason="field 'value' is 7: input should be less than or equal to 5")
    """
    if row.reject is not None:
        return row.reject
    payload = row.fields or {}
    if (fault := hygiene.find_fault(payload, texts_are_safe=row.texts_are_safe)) is not None:
        return fault
    table = MANIFEST_TABLES[row.kind]
    if None in payload.values():
        required = table.required_fields
        payload = {name: value for name, value in payload.items() if value is not None or name in required}
    try:
        if row.kind == "rating" and (scale := _choose_scale(scales, payload)) is not None:
            return _validate_rating(payload, scale)
        valid_row = table.row_model.model_validate(payload)
    except ValidationError as error:
        return _convert_validation_error(error.errors(include_url=False)[0])
    if isinstance(valid_row, KeypointRow) and valid_row.dimension not in dimensions:
        reason = f"field 'dimension' is {format_value(valid_row.dimension)}: use one of {', '.join(dimensions)}"
        return Reject("unknown_dimension", reason)
    return valid_row


def _choose_scale(scales: Mapping[str, Scale], fields: Mapping[str, Any]) -> Scale | None:
    """Return the scale that the fields of a rating are checked by; None if neither its aspect has a declared scale nor
    `mean_of` says that it is a mean: then it is a whole number from 1 to 5.
    """
    aspect = fields.get("aspect")
    declared = scales.get(aspect) if isinstance(aspect, str) else None
    return declared or (DEFAULT_SCALE if fields.get("mean_of") is not None else None)


def _validate_rating(fields: Mapping[str, Any], scale: Scale) -> ValidRow | Reject:
    """Return the rating with the number that its value has on the scale, or a Reject. Raises ValidationError."""
    row = ScaledRatingRow.model_validate(fields)
    number = scale.parse_rating(row.value, is_mean=row.mean_of is not None)
    return number if isinstance(number, Reject) else row.build_rating(number)


def _convert_validation_error(error: ErrorDetails) -> Reject:
    """Build the Reject for one pydantic error: its code, and a sentence that names the field."""
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"]).lstrip(".")
    value, code = error["input"], _CODES.get(error["type"], "wrong_type")
    message = error["msg"][0].lower() + error["msg"][1:]
    # The role of a caption is the only field with a list of words.
    if error["type"] == "literal_error" and isinstance(value, str):
        code = "unknown_role"
    if error["type"] == "missing":
        return Reject(code, f"field '{field}' is missing: add it")
    if not field:
        return Reject(code, message)
    if error["type"] == "string_too_long":
        return Reject(code, f"field '{field}' has {len(value)} characters: {message}")
    # A password is not shown.
    if error["type"] in ("empty_text", "too_long", "segment_order", "has_user", "no_direction"):
        return Reject(code, f"field '{field}' {message}")
    return Reject(code, f"field '{field}' is {format_value(value)}: {message}")
