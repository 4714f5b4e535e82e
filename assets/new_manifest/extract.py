"""Videos out of tar shards and tables into the manifest's folder, under names that stay inside it."""

from __future__ import annotations

import io
import os
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

from assets.new_manifest.found import Findings, NoManifest
from assets.new_manifest.media_files import Place, is_video

FOLDER = "videos"
_LONGEST_NAME = 200
# How the content of a video begins, for those whose table does not name a file.
_BEGINNINGS = ((4, b"ftyp", ".mp4"), (0, b"\x1a\x45\xdf\xa3", ".mkv"), (8, b"AVI ", ".avi"))


class MediaBytes(NamedTuple):
    """A video inside a table: its content, and the name that the table has for it."""

    content: bytes
    name: str | None


@dataclass(slots=True)
class Extracted:
    """The videos that are written to folder `videos` of a manifest's folder; `is_trial`: nothing is written."""

    target: Path
    findings: Findings
    is_trial: bool
    n: int = 0
    size_bytes: int = 0
    _written: set[str] = field(default_factory=set)

    def from_table(self, media: MediaBytes, table: str, row: int) -> Place | None:
        """Write a video of a table, under the table's name for it or the row's number."""
        name = PurePosixPath((media.name or "").replace("\\", "/")).name
        if not is_video(name):
            kind = next((end for at, mark, end in _BEGINNINGS if media.content[at : at + len(mark)] == mark), ".mp4")
            name = f"{row:06d}{kind}"
        folder = table.removesuffix(PurePosixPath(table).suffix)
        path = f"{folder}/{name}"
        if path in self._written:
            path = f"{folder}/{row:06d}_{name}"
        return self.store(path, io.BytesIO(media.content), len(media.content))

    def store(self, path: str, content: BinaryIO, size: int) -> Place | None:
        """Write a video of so many bytes; one that is there already with this size is taken as it is.

        None for a name that leads out of the folder or that the manifest could not write. Raises NoManifest where
        another file has the name.
        """
        if not _is_plain(path):
            self.findings.leave_out("a video whose name leads out of the folder or cannot be written", ascii(path))
            return None
        place = Place(path.removesuffix(PurePosixPath(path).suffix), f"{FOLDER}/{path}")
        self.n, self.size_bytes = self.n + 1, self.size_bytes + size
        self._written.add(path)
        if not self.is_trial:
            self._write(self.target / FOLDER / path, content, size)
        return place

    def size_there(self) -> int:
        """The bytes of the videos that an earlier try left."""
        files = (self.target / FOLDER).rglob("*") if self.target.is_dir() else ()
        return sum(file.stat().st_size for file in files if file.is_file())

    def forget(self, place: Place, size: int) -> None:
        """Remove a video that turned out to have no caption."""
        self.n, self.size_bytes = self.n - 1, self.size_bytes - size
        if not self.is_trial and place.path is not None:
            (self.target / place.path).unlink(missing_ok=True)

    def _write(self, file: Path, content: BinaryIO, size: int) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.parent.resolve().is_relative_to(self.target.resolve()):
            raise NoManifest(f"{file.parent}: a link leads out of {self.target}: remove it")
        if file.exists():
            if file.stat().st_size != size:
                raise NoManifest(
                    f"{file} exists with another size: remove it, or make the manifest elsewhere with --to"
                )
            return
        partial = file.with_name(f".{secrets.token_hex(8)}.partial")
        try:
            with partial.open("xb") as to:
                shutil.copyfileobj(content, to, 2**20)
            os.link(partial, file)
        finally:
            partial.unlink(missing_ok=True)


def _is_plain(path: str) -> bool:
    """Whether every part of a path is an ordinary name."""
    return path.isprintable() and all(
        part not in ("", ".", "..") and "\\" not in part and len(part.encode("utf-8", "replace")) <= _LONGEST_NAME
        for part in path.split("/")
    )
