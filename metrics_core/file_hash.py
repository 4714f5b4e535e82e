"""The hash by which files are recognised."""

from __future__ import annotations

import hashlib
from pathlib import Path

_CHUNK = 1 << 20


def compute_file_sha256(path: Path) -> bytes:
    """Return the SHA-256 of a file's bytes, 32 of them; the file is read in pieces. Raises OSError where it cannot be
    read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.digest()
