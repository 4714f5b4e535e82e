"""The dimensions of a manifest folder's keypoints: those of OmniDCBench, unless the folder has others."""

from __future__ import annotations

import re
from pathlib import Path

from assets.ingest import strict_json
from assets.ingest.hygiene import shown
from assets.ingest.readers import readable
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.rows import DIMENSIONS

DIMENSIONS_FILE = "dimensions.json"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def find_dimensions(folder: Path) -> tuple[str, ...]:
    """The names in the folder's dimensions.json, in its order, or the six of OmniDCBench where there is no such file.

    Raises ManifestError if the file is anything but a list of distinct names.
    """
    path = folder / DIMENSIONS_FILE
    if not path.exists():
        return DIMENSIONS
    with readable(path):
        names = strict_json.parse(path.read_bytes().decode("utf-8-sig", "replace"))
    if isinstance(names, Reject):
        raise _unusable(path, names.reason)
    if not isinstance(names, list) or not names:
        raise _unusable(path, "it holds no list of names")
    for name in names:
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise _unusable(path, f"{shown(name)} is no name")
        if names.count(name) > 1:
            raise _unusable(path, f"{shown(name)} is there twice")
    return tuple(names)


def _unusable(path: Path, fault: str) -> ManifestError:
    return ManifestError(
        f"{path.name}: {fault}: give a JSON list of distinct names, each of 1 to 40 small letters, digits and _, "
        "beginning with a letter"
    )
