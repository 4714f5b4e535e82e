"""The JSON files in which a manifest's folder declares dimensions, an origin or scales for all of its rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from assets.ingest import hygiene
from assets.ingest.files import find_manifest_file, open_file
from assets.ingest.hygiene import format_value
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.rows import DIMENSIONS, ORIGIN_FIELDS, Origin
from assets.ingest.scales import LOWEST_IS_BEST, Scale, parse_scale
from assets.ingest.strict_json import read_json
from db.spelling import suggest_name

DIMENSIONS_FILE, ORIGIN_FILE, SCALES_FILE = "dimensions.json", "origin.json", "scales.json"
# More than any list of names, and the longest fields of an origin, need. A larger file is not read into memory.
_MOST_BYTES = {DIMENSIONS_FILE: 2**20, ORIGIN_FILE: 2**16, SCALES_FILE: 2**20}
_REMEDIES = {
    DIMENSIONS_FILE: "give a JSON list of distinct names, each of 1 to 40 small letters, digits and _, beginning with "
    "a letter",
    ORIGIN_FILE: f"give a JSON object with some of the fields {', '.join(ORIGIN_FIELDS)}",
    SCALES_FILE: f'give a JSON object such as {{"overall": "1-7", "errors": "0-20{LOWEST_IS_BEST}"}}; a scale has two '
    "whole numbers, or is yes-no or real",
}
_DIMENSION = re.compile(r"[a-z][a-z0-9_]{0,39}")
_Declared = TypeVar("_Declared")


class Declarations(NamedTuple):
    """The declarations of a folder: the names that keypoints may have as dimensions, in the folder's order, the fields
    of an origin that count for videos without their own, and the scales of ratings by aspect.
    """

    dimensions: tuple[str, ...]
    origin: Mapping[str, Any]
    scales: Mapping[str, Scale]


class _Unusable(Exception):
    """Raised with the fault of a declared value."""


def read_declarations(folder: Path) -> Declarations:
    """Read dimensions.json, origin.json and scales.json of a folder. Without them there are the six dimensions of
    OmniDCBench, no field of an origin and no scale. Raises ManifestError where one is not a regular file inside the
    folder, or does not hold what its name says.
    """
    return Declarations(
        _read(folder, DIMENSIONS_FILE, _parse_dimensions, DIMENSIONS),
        _read(folder, ORIGIN_FILE, _parse_origin, {}),
        _read(folder, SCALES_FILE, _parse_scales, {}),
    )


def _read(folder: Path, name: str, parse: Callable[[Any], _Declared], absent: _Declared) -> _Declared:
    path = find_manifest_file(folder, name)
    if path is None:
        return absent
    with open_file(path) as file:
        value = read_json(file, _MOST_BYTES[name])
    try:
        if isinstance(value, Reject):
            raise _Unusable(value.reason)
        return parse(value)
    except _Unusable as fault:
        raise ManifestError(f"{name}: {fault}: {_REMEDIES[name]}") from None


def _parse_dimensions(names: Any) -> tuple[str, ...]:
    if not isinstance(names, list) or not names:
        raise _Unusable("it is not a list of names")
    for name in names:
        if not isinstance(name, str) or _DIMENSION.fullmatch(name) is None:
            raise _Unusable(f"{format_value(name)} is not a valid name")
        if names.count(name) > 1:
            raise _Unusable(f"{format_value(name)} occurs twice")
    return tuple(names)


def _parse_origin(fields: Any) -> dict[str, Any]:
    if not isinstance(fields, dict):
        raise _Unusable("it is not an object")
    if unknown := [name for name in fields if name not in ORIGIN_FIELDS]:
        hint = suggest_name(str(unknown[0]), ORIGIN_FIELDS)
        raise _Unusable(f"{format_value(unknown[0])} is not a field of an origin{hint}")
    if (fault := hygiene.find_fault(fields)) is not None:
        raise _Unusable(fault.reason)
    try:
        return Origin.model_validate(fields).content
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _Unusable(f"{first['loc'][0]} is {format_value(first['input'])}: {first['msg']}") from None


def _parse_scales(names: Any) -> dict[str, Scale]:
    if not isinstance(names, dict):
        raise _Unusable("it is not an object")
    if (fault := hygiene.find_fault(names)) is not None:
        raise _Unusable(fault.reason)
    scales = {aspect: parse_scale(name) if isinstance(name, str) else None for aspect, name in names.items()}
    for aspect, scale in scales.items():
        if scale is None:
            raise _Unusable(f"{format_value(names[aspect])} is not a scale for {format_value(aspect)}")
    return {aspect: scale for aspect, scale in scales.items() if scale is not None}
