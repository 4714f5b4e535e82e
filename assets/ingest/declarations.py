"""The JSON files in which a manifest's folder declares an origin, scales or dimensions for all of its rows."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assets.ingest.files import open_file
from assets.ingest.rejects import ManifestError, Reject
from assets.ingest.strict_json import parse_json_bytes


def read_declaration(path: Path, most_bytes: int, build_error: Callable[[str], ManifestError]) -> Any:
    """Return the JSON value in a file of a manifest's folder. A file of more than `most_bytes` is not read into memory.
    Raises the error that `build_error` makes of the fault where the file is larger, no UTF-8 or no JSON.
    """
    with open_file(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise build_error(f"it has more than {most_bytes} bytes")
    value = parse_json_bytes(content.removeprefix(BOM_UTF8))
    if isinstance(value, Reject):
        raise build_error(value.reason)
    return value
