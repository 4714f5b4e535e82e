"""The video files of a folder: how the manifest names them, and which of them a cell of a table means."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from assets.ingest.paths import PathRejected, resolve_inside
from assets.media.address import AddressRefused, is_address, parse_address, without_credentials
from assets.new_manifest.found import Findings

VIDEO_SUFFIXES = frozenset(
    (".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".flv", ".wmv", ".mpg", ".mpeg", ".ogv", ".3gp")
)
_NO_ROOT_NAME = re.compile(r"[^a-z0-9_-]+|^[^a-z]+")


def is_video(path: str | PurePosixPath) -> bool:
    """Whether a name ends like that of a video."""
    return PurePosixPath(path).suffix.lower() in VIDEO_SUFFIXES


def files_below(folder: Path) -> Iterator[str]:
    """The paths of all files below a folder, relative to it, in order, but for hidden ones and links to folders."""
    for where, _, names in _folders_below(folder):
        yield from (Path(where, name).relative_to(folder).as_posix() for name in names)


def linked_folders_below(folder: Path) -> Iterator[str]:
    """The paths of the links to folders below a folder, relative to it, in order: they may lead round in a circle."""
    for where, folders, _ in _folders_below(folder):
        links = (path for name in folders if (path := Path(where, name)).is_symlink())
        yield from (link.relative_to(folder).as_posix() for link in links)


def _folders_below(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Every folder with the names of its folders and files, in order, but for hidden ones."""
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield where, folders, sorted(name for name in names if not name.startswith("."))


@dataclass(frozen=True, slots=True)
class Places:
    """How a manifest in folder `target` names a file of folder `source`: every path gets this prefix.

    new_root: the named root that a machine needs to find the files, where they are outside the manifest's folder.
    roots: the folders of this machine by the names that it has for them.
    """

    source: Path
    prefix: str
    new_root: str | None = None
    roots: Mapping[str, Path] = field(default_factory=dict)

    @classmethod
    def of(cls, source: Path, target: Path, roots: Mapping[str, str]) -> Places:
        """Paths are relative where the manifest's folder holds the files, else addresses below a named root."""
        folders = {name: Path(place).expanduser().resolve() for name, place in roots.items() if not is_address(place)}
        if source.is_relative_to(target):
            inner = source.relative_to(target).as_posix()
            return cls(source, "" if inner == "." else f"{inner}/", roots=folders)
        if (known := _below_root(source, folders)) is not None:
            return cls(source, f"{known}/", roots=folders)
        name = _NO_ROOT_NAME.sub("", re.sub("[ .]", "_", source.name.lower())) or "clips"
        while name in roots:
            name += "_2"
        return cls(source, f"root://{name}/", name, folders)

    def below_root(self, path: str) -> str | None:
        """The address of an existing file below a named root; None where it is below none."""
        return _below_root(Path(path), self.roots) if Path(path).is_file() else None


def _below_root(path: Path, roots: Mapping[str, Path]) -> str | None:
    for name, folder in roots.items():
        if path.is_relative_to(folder):
            inner = path.relative_to(folder).as_posix()
            return f"root://{name}" if inner == "." else f"root://{name}/{inner}"
    return None


@dataclass(frozen=True, slots=True)
class Place:
    """A video: its id, and its path or address as the manifest writes it; None for one that is text only."""

    video_id: str
    path: str | None


@dataclass(slots=True)
class MediaFiles:
    """The video files of a folder by path, name and stem, with ids that tell them apart."""

    places: Places
    findings: Findings
    _paths: set[str] = field(default_factory=set)
    _by_name: dict[str, str | None] = field(default_factory=dict)
    _ids: dict[str, str] = field(default_factory=dict)
    _named: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, places: Places, findings: Findings) -> MediaFiles:
        """Look for the video files of the source. Those that lead out of it are left out."""
        files = cls(places, findings)
        for path in files_below(places.source):
            if is_video(path) and files.is_usable(path):
                files._paths.add(path)
                name = PurePosixPath(path).name
                for short in {name, PurePosixPath(name).stem, path.removesuffix(PurePosixPath(name).suffix)}:
                    # A short name of two files means neither.
                    files._by_name[short] = path if short not in files._by_name else None
        for link in linked_folders_below(places.source):
            findings.leave_out("a link to a folder, which is not followed: give the folder itself", link)
        return files

    def __len__(self) -> int:
        return len(self._paths)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._paths))

    def leave_out_others(self) -> None:
        """Leave out the files that no row with a caption named, where rows name files at all."""
        for path in sorted(self._paths - self._named) if self._named else ():
            self.findings.leave_out("a video without a caption in a table", path)

    def is_usable(self, path: str) -> bool:
        """Whether ingest will accept the path of a file; else it is left out with the reason."""
        try:
            path.encode()
            resolve_inside(self.places.source, path)
        except UnicodeEncodeError:
            self.findings.leave_out("a file whose name is not valid UTF-8", ascii(path))
        except PathRejected as refused:
            self.findings.leave_out(f"a file that ingest would refuse ({refused.code})", path)
        else:
            return True
        return False

    def video_id(self, path: str) -> str:
        """The id of a file or address: its path without the suffix, or with it where another file has that id."""
        plain = path.partition("://")[2] if is_address(path) else path
        short = plain.removesuffix(PurePosixPath(plain).suffix) if is_video(plain) else plain
        taken = self._ids.setdefault(short, path)
        return short if taken == path else path

    def locate(self, cell: str, beside: str, row: str) -> Place | None:
        """The video that a cell of a table means, from a table in folder `beside` of the source.

        None where it means no file that may be used; the row is then left out. In a source without any video file, a
        cell is a name, and the video text only.
        """
        path = self._address(cell, row) if is_address(cell) else self.places.below_root(cell)
        if path is None and not is_address(cell):
            if not self._paths:
                self.findings.guess("there are no video files in the folder, so the videos are text only")
                return Place(cell.removesuffix(PurePosixPath(cell).suffix) if is_video(cell) else cell, None)
            path = self._file(cell, beside, row)
            self._named.update([path] if path else [])
        return None if path is None else Place(self.video_id(path), self.as_written(path))

    def _file(self, cell: str, beside: str, row: str) -> str | None:
        """The path of the file that a cell means: from the table's folder, from the source, or by its name alone."""
        path = self._inside(cell)
        if path is None:
            self.findings.leave_out("a video outside the folder: give its folder a name in REELSIEVE_MEDIA_ROOTS", row)
            return None
        for candidate in ((PurePosixPath(beside) / path).as_posix(), path):
            if candidate in self._paths:
                return candidate
        name = next((name for name in (path, PurePosixPath(path).name) if name in self._by_name), None)
        if name is None:
            self.findings.leave_out("a video of which there is no file", f"{row}: {cell}")
            return None
        if self._by_name[name] is None:
            self.findings.leave_out("a video whose name several files have", f"{row}: {cell}")
        else:
            self.findings.guess("videos are recognised by their names, wherever they lie in the folder")
        return self._by_name[name]

    def as_written(self, path: str) -> str:
        """A path or address as the manifest writes it."""
        return path if is_address(path) else self.places.prefix + path

    def _address(self, cell: str, row: str) -> str | None:
        try:
            return str(parse_address(cell))
        except AddressRefused as refused:
            self.findings.leave_out(f"an address that ingest would refuse: {refused}", without_credentials(cell))
            return None

    def _inside(self, cell: str) -> str | None:
        """The path relative to the source; None where it leads out of it."""
        path = cell.replace("\\", "/")
        if path.startswith("/"):
            source = f"{self.places.source.as_posix()}/"
            return path.removeprefix(source) if path.startswith(source) else None
        normal = os.path.normpath(path)
        return None if normal.startswith("..") else normal
