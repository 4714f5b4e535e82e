"""Paths in a manifest: they are relative to its folder and never lead out of it."""

from __future__ import annotations

import re
from pathlib import Path

from assets.ingest.hygiene import format_value
from assets.ingest.rejects import Code

# Two letters at least: one letter with a colon is a drive of Windows.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_DRIVE = re.compile(r"[A-Za-z]:")

_PATH_REMEDIES: dict[Code, str] = {
    "path_url": "it begins like a URL: write the whole URL of a store, or a path in the manifest's folder",
    "path_absolute": "give a path relative to the manifest's folder",
    "path_escape": "it leads out of the manifest's folder: keep the file, and what links point to, inside",
    "file_missing": "there is no such file in the manifest's folder: add it, and write / between folders",
    "not_a_file": "it is a folder or a device: name a regular file",
}


class PathRejected(ValueError):
    """Raised for a path that a manifest may not use; `code` is a key of `rejects.CODES`, `reason` one sentence."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def resolve_inside(folder: Path, relative: str, *, may_be_folder: bool = False) -> Path:
    """Return the absolute path, without links, of a regular file inside the folder, given its relative path. Raises
    PathRejected where there is none; its code is path_url, path_absolute, path_escape, file_missing or not_a_file.
    may_be_folder: whether it may also be a folder, as a Lance table is.
    """
    root = folder.resolve()
    code = find_path_fault(relative)
    if code is None:
        try:
            resolved = (root / relative).resolve()
            if not resolved.is_relative_to(root):
                code = "path_escape"
            elif not resolved.exists():
                code = "file_missing"
            elif not resolved.is_file() and not (may_be_folder and resolved.is_dir()):
                code = "not_a_file"
            else:
                return resolved
        except (OSError, RuntimeError, ValueError):
            # The system cannot look up the name: it is too long, a loop of links, forbidden or not encodable.
            code = "file_missing"
    raise PathRejected(code, f"field 'path' is {format_value(relative)}: {_PATH_REMEDIES[code]}")


def find_path_fault(relative: str) -> Code | None:
    """Return the code of a fault that the text of a manifest's path shows: `path_url`, `path_absolute` or
    `path_escape`. None where it shows none; no file is looked up. Backslashes count as separators.
    """
    if _SCHEME.match(relative):
        return "path_url"
    if relative.startswith(("/", "\\", "~")) or _DRIVE.match(relative):
        return "path_absolute"
    depth = 0
    for part in relative.replace("\\", "/").split("/"):
        depth += {"..": -1, "": 0, ".": 0}.get(part, 1)
        if depth < 0:
            return "path_escape"
    return None
