"""The dimensions that the keypoints of a manifest may have."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from assets.ingest.declarations import read_declaration
from assets.ingest.files import find_manifest_file
from assets.ingest.hygiene import format_value
from assets.ingest.rejects import ManifestError
from assets.ingest.rows import DIMENSIONS

DIMENSIONS_FILE = "dimensions.json"
# More than any list of names needs. A larger file is not read into memory.
_MAX_BYTES = 2**20
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def read_dimensions(folder: Path) -> tuple[str, ...]:
    """Read the names of the dimensions in a folder's dimensions.json, in its order; without that file, the six of
    OmniDCBench. Raises ManifestError if dimensions.json is not a regular file inside the folder, or not a list of
    distinct names.
    """
    path = find_manifest_file(folder, DIMENSIONS_FILE)
    if path is None:
        return DIMENSIONS
    names = read_declaration(path, _MAX_BYTES, partial(_unusable, path))
    if not isinstance(names, list) or not names:
        raise _unusable(path, "it holds no list of names")
    for name in names:
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise _unusable(path, f"{format_value(name)} is not a valid name")
        if names.count(name) > 1:
            raise _unusable(path, f"{format_value(name)} occurs twice")
    return tuple(names)


def _unusable(path: Path, fault: str) -> ManifestError:
    return ManifestError(
        f"{path.name}: {fault}: give a JSON list of distinct names, each of 1 to 40 small letters, digits and _, "
        "beginning with a letter"
    )
