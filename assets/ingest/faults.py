"""Pydantic's errors as refusals: a short code, and a sentence that names the field."""

from __future__ import annotations

from pydantic_core import ErrorDetails

from assets.ingest.hygiene import shown
from assets.ingest.rejects import Code, Reject

# Errors of pydantic by type; every other one says that the type is wrong.
_CODES: dict[str, Code] = {
    "missing": "missing_field",
    "string_too_long": "too_long",
    "string_pattern_mismatch": "empty_text",
    "greater_than": "out_of_range",
    "greater_than_equal": "out_of_range",
    "less_than_equal": "out_of_range",
    "segment_order": "segment_order",
    "missing_field": "missing_field",
    "empty_text": "empty_text",
}


def explained(error: ErrorDetails) -> Reject:
    """The refusal that one error of a manifest row's model amounts to."""
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"]).lstrip(".")
    found, code = error["input"], _CODES.get(error["type"], "wrong_type")
    message = error["msg"][0].lower() + error["msg"][1:]
    # The role of a caption is the only field with a list of words.
    if error["type"] == "literal_error" and isinstance(found, str):
        code = "unknown_role"
    if error["type"] == "missing":
        return Reject(code, f"field '{field}' is missing: add it")
    if not field:
        return Reject(code, message)
    if code == "empty_text":
        return Reject(code, f"field '{field}' is empty or only white space: fill it in")
    if code == "too_long":
        return Reject(code, f"field '{field}' has {len(found)} characters: {message}")
    if code == "segment_order":
        return Reject(code, f"field '{field}' {message}")
    return Reject(code, f"field '{field}' is {shown(found)}: {message}")
