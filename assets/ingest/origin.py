"""The origin that a manifest's folder declares for all its videos."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from assets.ingest import hygiene
from assets.ingest.declarations import read_declaration
from assets.ingest.files import find_manifest_file
from assets.ingest.hygiene import format_value
from assets.ingest.rejects import ManifestError
from assets.ingest.rows import ORIGIN_FIELDS, Origin
from db.spelling import suggest_name

ORIGIN_FILE = "origin.json"
# More than the longest fields need. A larger file is not read into memory.
_MAX_BYTES = 2**16


def read_origin(folder: Path) -> dict[str, Any]:
    """Read the fields of an origin in a folder's origin.json, those of `Origin` that are not null; {} without that
    file. Raises ManifestError if origin.json is not a regular file inside the folder, or not an object with valid
    fields of an origin only.
    """
    path = find_manifest_file(folder, ORIGIN_FILE)
    if path is None:
        return {}
    fields = read_declaration(path, _MAX_BYTES, _build_error)
    if not isinstance(fields, dict):
        raise _build_error("it holds no object")
    if unknown := [name for name in fields if name not in ORIGIN_FIELDS]:
        hint = suggest_name(str(unknown[0]), ORIGIN_FIELDS)
        raise _build_error(f"{format_value(unknown[0])} is no field of an origin{hint}")
    if (fault := hygiene.find_fault(fields)) is not None:
        raise _build_error(fault.reason)
    try:
        return Origin.model_validate(fields).content
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _build_error(f"{first['loc'][0]} is {format_value(first['input'])}: {first['msg']}") from None


def _build_error(fault: str) -> ManifestError:
    return ManifestError(
        f"{ORIGIN_FILE}: {fault}: give a JSON object with some of the fields {', '.join(ORIGIN_FIELDS)}"
    )
